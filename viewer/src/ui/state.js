/** What is shown, kept in the URL's hash so that a link shows the same; listeners hear of every change. */
const REST = 250; // milliseconds between two writes: browsers refuse a page that writes its URL all the time

export class State {
  constructor(defaults) {
    this.defaults = defaults;
    this.given = this.read();
    this.values = { ...defaults, ...this.given };
    this.listeners = [];
    addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.written) this.set({ ...this.defaults, ...this.read() }, false);
    });
  }

  read() {
    const given = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries([...given].filter(([key]) => key in this.defaults));
  }

  get(key) {
    return this.values[key];
  }

  set(changes, writes = true) {
    const changed = Object.keys(changes).filter((key) => this.values[key] !== changes[key]);
    if (!changed.length) return;
    Object.assign(this.values, changes);
    if (writes) this.writeSoon();
    this.listeners.forEach((listen) => listen(new Set(changed)));
  }

  writeSoon() {
    if (this.timer) return;
    this.write();
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.write();
    }, REST);
  }

  write() {
    const differing = Object.entries(this.values).filter(([key, value]) => value !== this.defaults[key]);
    const text = new URLSearchParams(differing).toString();
    if (text === this.written) return;
    this.written = text;
    if (location.protocol !== "about:") history.replaceState(null, "", `#${this.written}`); // a notebook's frame has no URL
  }

  listen(listener) {
    this.listeners.push(listener);
  }
}
