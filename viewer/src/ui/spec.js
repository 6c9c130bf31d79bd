/** The tabs of a spec: what was chosen, roles over time, and spec and CUDA side by side with what they access. */
import { count } from "../model/spelling.js";
import { chartKeys, choiceNode, figureCells, figureHeads, figuresOf } from "./charts.js";
import { codeTab } from "./code.js";
import { h } from "./dom.js";
import { memoriesNode, stepsNode } from "./steps.js";
import { tensorTab } from "./tensor.js";
import { timeline } from "./timeline.js";

export function specTabs(data, example, state) {
  const { spec } = data;
  const time = timeline(spec, state);
  return [
    { key: "choices", name: "Choices", node: choicesNode(spec, example, state) },
    { key: "code", name: "Code", ...codeTab(spec, example, state) },
    { key: "time", name: "Timeline", node: h("div", { class: "sheet wide" }, stepsNode(spec, state), time.node), shown: time.shown },
    ...[tensorTab(spec, state)].filter(Boolean),
  ];
}

function choicesNode(spec, example, state) {
  return h("div", { class: "sheet" },
    h("section", {}, h("h2", {}, spec.kernel), h("p", { class: "lead" }, spec.summary),
      h("p", { class: "note" }, `For ${spec.arch}: grid ${spec.grid.join(" x ")}, ${count(spec.threads, "thread")} a CTA. Counted and not proved here: tilegen build proves.`), chartKeys()),
    h("section", {}, h("h2", {}, "Memories"), memoriesNode(spec, example, state)),
    h("section", {}, h("h2", {}, "Dispatch"), dispatch(spec, state)),
    h("section", {}, h("h2", {}, "Of the kernel as a whole"), spec.choices.length ? spec.choices.map(choiceNode) : h("p", { class: "note" }, "Nothing was to be chosen.")),
    ...spec.ops.map((op) => opNode(op, state)));
}

const scrolled = (label, node) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, node);

function dispatch(spec, state) {
  const costs = spec.ops.map((op) => op.cost);
  const figures = figuresOf(costs);
  const rows = spec.ops.map((op) => h("tr", {}, h("th", { scope: "row" }, String(op.number)),
    h("td", {}, h("a", { href: `#op-${op.number}`, onclick: (event) => jump(event, `op-${op.number}`) }, h("code", {}, op.text))),
    h("td", {}, op.line ? h("button", { type: "button", class: "small", "aria-label": `Line ${op.line} in the code`, onclick: () => state.set({ v: "code", x: String(op.number) }) }, `line ${op.line}`) : ""),
    h("td", {}, op.scope), h("td", {}, h("strong", {}, op.variant)), figureCells(figures, op.cost, costs, false), h("td", {}, `${op.refused.length}`)));
  return scrolled("Dispatch", h("table", { class: "candidates" }, h("caption", { class: "note" }, "Each op with the variant that carries it out and its cost over one CTA."),
    h("thead", {}, h("tr", {}, ["op", "as written", "spec", "scope", "variant"].map((text) => h("th", { scope: "col" }, text)), figureHeads(figures), h("th", { scope: "col" }, "not taken"))), h("tbody", {}, rows)));
}

function jump(event, id) {
  event.preventDefault(); // the hash holds the state
  const target = document.getElementById(id);
  target.scrollIntoView({ block: "start" });
  target.focus();
}

function opNode(op) {
  const lost = [...op.refused].sort((a, b) => (a.cost ? 0 : 1) - (b.cost ? 0 : 1));
  const costs = [op.cost, ...lost.map((r) => r.cost)];
  const figures = figuresOf(costs);
  const rows = [h("tr", { class: "chosen" }, h("th", { scope: "row" }, op.variant), figureCells(figures, op.cost, costs), h("td", {}, "picked")),
    ...lost.filter((r) => r.cost).map((r) => h("tr", {}, h("th", { scope: "row" }, r.variant), figureCells(figures, r.cost, costs), h("td", {}, r.reason)))];
  const refused = lost.filter((r) => !r.cost);
  return h("section", { class: "op", id: `op-${op.number}`, tabindex: "-1" },
    h("h2", {}, `Op ${op.number}: `, h("code", {}, op.text)),
    scrolled(`Variants of op ${op.number}`, h("table", { class: "candidates" }, h("caption", { class: "visually-hidden" }, `Variants of op ${op.number}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "variant"), figureHeads(figures), h("th", { scope: "col" }, "verdict"))), h("tbody", {}, rows))),
    refused.length ? h("details", {}, h("summary", {}, `${count(refused.length, "variant")} cannot do it`),
      h("dl", { class: "chain" }, refused.flatMap((r) => [h("dt", {}, r.variant), h("dd", {}, r.reason)]))) : null,
    ...op.choices.map(choiceNode),
    op.functions.length ? h("details", {}, h("summary", {}, "How exact its functions are"), h("ul", {}, op.functions.map((text) => h("li", {}, text)))) : null);
}
