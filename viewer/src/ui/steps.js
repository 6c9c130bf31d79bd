/** The memories of a kernel, and its statements in order with what each reads and writes. */
import { count } from "../model/spelling.js";
import { stateOf } from "./banks.js";
import { h } from "./dom.js";

const scrolled = (label, node) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, node);
const SCOPES = ["global", "workspace", "shared", "tmem", "register"];
const SIGNS = { reads: "reads", writes: "writes", updates: "updates" };

/** A row for each buffer; in shared memory with the bytes that it lies on, in tensor memory with its columns. */
export function memoriesNode(spec, example, state) {
  const ends = (scope) => Math.max(0, ...spec.memories.map((m) => (m.scope === scope && m.at.length ? m.at[0] + m.at[1] : 0)));
  const pools = { shared: ends("shared"), tmem: ends("tmem") };
  const words = [...(pools.shared ? [`${count(pools.shared, "byte")} of shared memory`] : []), ...(pools.tmem ? [`${count(pools.tmem, "column")} of tensor memory`] : [])];
  const heads = ["buffer", "where", "type", "shape", "layout", ...(words.length ? [words.join(", ")] : []), "picture"];
  const rows = spec.memories.map((m) => {
    const layout = example.layouts.find((one) => one.key === `buffer_${m.name}`);
    return h("tr", {}, h("th", { scope: "row" }, h("code", {}, m.name)), h("td", {}, m.scope), h("td", {}, m.dtype), h("td", {}, m.shape),
      h("td", {}, h("code", {}, m.layout), m.chosen ? " (chosen)" : "", m.over.length ? ` over ${m.over.join(", ")}` : "", m.root === m.name ? "" : ` a view of ${m.root}`),
      words.length ? h("td", {}, m.at.length ? poolBar(m, pools[m.scope]) : "") : null,
      h("td", {}, layout ? h("button", { type: "button", class: "small", "aria-label": `Draw ${m.name}`, onclick: () => state.set({ v: "layout", g: example.name, ...stateOf(layout) }) }, "Draw") : ""));
  });
  return scrolled("Memories", h("table", {}, h("caption", { class: "visually-hidden" }, "Memories"),
    h("thead", {}, h("tr", {}, heads.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows)));
}

function poolBar({ at: [first, bytes] }, pool) {
  const style = `margin-left:${(100 * first) / pool}%;width:${Math.max(1, (100 * bytes) / pool)}%`;
  return h("span", { class: "pool" }, h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: "bar-fill", style })), `${first} to ${first + bytes - 1}`);
}

/** A row for each statement, a column for each buffer that an op touches; a row leads to its lines. */
export function stepsNode(spec, state) {
  const touched = new Set(spec.steps.flatMap((step) => Object.keys(step.touches)));
  const buffers = SCOPES.flatMap((scope) => spec.memories.filter((m) => m.scope === scope && touched.has(m.name)));
  const rows = spec.steps.map((step) => {
    const text = h("code", {}, step.text);
    const head = step.op ? h("button", { type: "button", class: "step", "aria-label": `Op ${step.op}, ${step.text}: its lines`, onclick: () => state.set({ v: "code", x: String(step.op), y: "" }) }, text) : text;
    return h("tr", { class: step.op ? "" : "plain" }, h("td", {}, step.op ? String(step.op) : ""), h("th", { scope: "row", style: `padding-left:${step.depth * 18}px` }, head),
      buffers.map(({ name }) => h("td", { class: step.touches[name] ? `touch ${step.touches[name]}` : "" }, step.touches[name] ? SIGNS[step.touches[name]] : "")));
  });
  const groups = SCOPES.map((scope) => [scope, buffers.filter((m) => m.scope === scope).length]).filter(([, n]) => n);
  return h("section", {}, h("h2", {}, "Steps and memories"), h("p", { class: "note" }, "Every statement in the order of the text, what stands inside of it further right; from left to right the memories, from the far to the near."),
    scrolled("Steps and memories", h("table", { class: "steps" }, h("caption", { class: "visually-hidden" }, "Statements, and the buffers that each op reads and writes"),
      h("thead", {}, h("tr", {}, h("td", { colspan: "2" }), groups.map(([scope, n]) => h("th", { scope: "colgroup", colspan: String(n) }, scope))),
        h("tr", {}, h("th", { scope: "col" }, "op"), h("th", { scope: "col" }, "statement"), buffers.map(({ name }) => h("th", { scope: "col" }, h("code", {}, name))))),
      h("tbody", {}, rows))));
}
