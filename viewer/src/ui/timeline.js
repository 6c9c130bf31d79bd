/** Roles over time, from the interpreter's own log: a column for each role, a row below all that has to come before. */
import { count } from "../model/spelling.js";
import { h } from "./dom.js";
import { keysOf } from "./legend.js";

const KINDS = {
  wait: "waits", "copies waited for": "waits", "products waited for": "waits", arrive: "arrives", sync: "meets",
  "copy started": "starts", "products started": "starts", "copy landed": "lands",
};

/** {node, shown}: the section, and what to do when it comes to be seen. */
export function timeline(spec, state) {
  const time = spec.timeline;
  if (!time) {
    return { node: h("section", {}, h("h2", {}, "Roles over time"),
      h("p", {}, "One role, and nothing runs by itself: the threads do one statement after the other, as above.")), shown: () => {} };
  }
  const nodes = new Map(); // number of an event -> its button
  const doing = new Map(); // number -> cell
  time.cells.forEach((cell) => cell.numbers.forEach((number) => doing.set(number, cell)));
  const said = h("p", { class: "note", "aria-live": "polite" }, "Choose an event to see for what it waited, and who waited for it.");
  const overlay = h("svg", { class: "arrows", "aria-hidden": "true" });

  const place = (node) => {
    const [box, own] = [overlay.getBoundingClientRect(), node.getBoundingClientRect()];
    return { left: own.left - box.left, right: own.right - box.left, y: own.top - box.top + own.height / 2 };
  };
  const select = (cell) => {
    nodes.forEach((node) => node.classList.remove("cause", "effect", "selected"));
    overlay.replaceChildren();
    if (!cell) return;
    const own = nodes.get(cell.numbers[0]);
    const causes = [...new Set(cell.by.map((n) => doing.get(n)).filter(Boolean))];
    const effects = time.cells.filter((other) => other.by.some((n) => cell.numbers.includes(n)));
    own.classList.add("selected");
    for (const [cells, name] of [[causes, "cause"], [effects, "effect"]]) {
      for (const other of cells) {
        const node = nodes.get(other.numbers[0]);
        node.classList.add(name);
        const [from, to] = (name === "cause" ? [node, own] : [own, node]).map(place);
        const right = from.left <= to.left;
        const [x1, x2] = from.left === to.left ? [from.left, to.left] : right ? [from.right, to.left] : [from.left, to.right];
        const bend = from.left === to.left ? -24 : 0;
        overlay.append(h("path", { class: name, d: `M${x1} ${from.y} C${(x1 + x2) / 2 + bend} ${from.y} ${(x1 + x2) / 2 + bend} ${to.y} ${x2} ${to.y}` }));
      }
    }
    const list = (cells) => cells.map((one) => `${time.columns[one.column]}: ${one.text} (row ${one.row})`).join("; ");
    said.textContent = `${time.columns[cell.column]}, row ${cell.row}: ${cell.text}.`
      + (causes.length ? ` It waited for ${list(causes)}.` : "") + (effects.length ? ` For it waited ${list(effects)}.` : "");
  };
  const button = (cell) => {
    const op = spec.ops.find((one) => one.line === cell.line);
    const node = h("button", {
      type: "button", class: `event ${KINDS[cell.what]}`, onclick: () => state.set({ e: String(cell.numbers[0]) }), onfocus: () => select(cell),
      onpointermove: (event) => (event.movementX || event.movementY) && select(cell), // not when the page scrolls below it
      ondblclick: () => op && state.set({ v: "code", x: String(op.number), y: "" }),
    }, cell.trip ? h("small", {}, `${cell.trip} `) : null, cell.text);
    cell.numbers.forEach((number) => nodes.set(number, node));
    return node;
  };
  const last = Math.max(...time.cells.map((cell) => cell.row));
  const rows = Array.from({ length: last + 1 }, (_, row) => row).filter((row) => time.cells.some((cell) => cell.row === row)).map((row) => h("tr", {},
    h("th", { scope: "row" }, String(row)), time.columns.map((_, column) => h("td", {}, time.cells.filter((cell) => cell.row === row && cell.column === column).map(button)))));
  const legend = keysOf("Colours of events", [["waits", "waits"], ["arrives", "arrives"], ["starts", "starts a copy or a product"], ["lands", "a copy has landed"], ["meets", "meets others"], ["cause", "for what the chosen one waited"], ["effect", "who waited for it"]].map(([name, text]) => [null, text, `event ${name}`]));
  const shown = () => {
    const cell = doing.get(Number(state.get("e") || -1));
    if (cell) select(cell);
  };
  state.listen((changed) => changed.has("e") && shown());
  const node = h("section", { class: "timesheet" }, h("h2", {}, "Roles over time"),
    h("p", { class: "note" }, `From the interpreter's log of ${time.roles.join("; ")}. A row stands below all that has to come before it; no time was measured. What threads load, compute and store themselves is left out.`),
    time.fault ? h("p", { class: "bad" }, time.fault) : null,
    h("ul", { class: "legend keys" }, time.barriers.map((b) => h("li", {}, h("code", {}, b.name), `: ${count(b.slots, "slot")}, a phase takes ${count(b.arrivals, "arrival")}`))),
    legend, said,
    h("div", { class: "scroll timeline", tabindex: "0", role: "group", "aria-label": "Roles over time" },
      h("div", { class: "stack-time" }, overlay, h("table", {}, h("caption", { class: "visually-hidden" }, "Events of each role, in rows"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "row"), time.columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)))),
    time.is_cut ? h("p", { class: "note" }, `Row ${last} is not the last: tilegen explain --events --rows shows more.`) : null);
  return { node, shown };
}
