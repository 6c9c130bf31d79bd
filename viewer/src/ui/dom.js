/** A new element: h("p", {class: "note", onclick}, child, ...); null children are left out. */
export function h(tag, props = {}, ...children) {
  const node = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = new Set(["svg", "path", "rect", "line", "g", "text", "title", "circle"]);

let numbered = 0;
export const newId = (stem) => `${stem}-${(numbered += 1)}`;

/** A labelled control: the label stands above it. */
export function field(label, control, hint = null) {
  control.id ||= newId("f");
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, hint ? h("small", {}, hint) : null);
}

/** A labelled field that says below itself what is wrong with its text: {node, say(message)}. */
export function checkedField(label, control, hint = null) {
  const problem = h("pre", { class: "wrong", role: "alert", id: newId("wrong") });
  const node = field(label, control, hint);
  node.append(problem);
  control.setAttribute("aria-describedby", problem.id);
  const say = (message) => {
    if (problem.textContent !== message) problem.textContent = message;
    control.setAttribute("aria-invalid", String(message !== ""));
  };
  return { node, say };
}

export function select(options, value, onchange) {
  const node = h("select", { onchange: () => onchange(node.value) });
  fill(node, options, value);
  return node;
}

/** Options are texts, [value, text] pairs, or {group, options}. */
export function fill(node, options, value) {
  const option = (one) => {
    const [key, text] = Array.isArray(one) ? one : [one, one];
    return h("option", { value: key }, text);
  };
  node.replaceChildren(...options.map((one) =>
    one.group !== undefined ? h("optgroup", { label: one.group }, one.options.map(option)) : option(one)));
  node.value = value;
}

/** A table from texts; the first column are row headers. */
export function table(caption, head, rows, className = "") {
  return h("table", { class: className },
    h("caption", {}, caption), h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, k) => (k ? h("td", {}, cell) : h("th", { scope: "row" }, cell)))))));
}

/** The value of a custom property of the page's theme. */
export const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const wantsStillness = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
