/** Costs as small charts: one column for each figure that any candidate has, a bar beside each number. */
import { h } from "./dom.js";
import { keysOf } from "./legend.js";

const FIGURES = { sectors: "sectors", wavefronts: "wavefronts", instructions: "instructions", shared_bytes: "shared bytes", address_ops: "address ops", us: "microseconds" };

/** The names of the figures that are not zero in all costs. */
export const figuresOf = (costs) => [...new Set(costs.flatMap((cost) => Object.keys(cost ?? {})))].filter((name) => costs.some((cost) => cost?.[name]));

export const figureHeads = (figures) => figures.map((name) => h("th", { scope: "col", class: "figure-head" }, FIGURES[name] ?? name));

/** What the bars and rows of candidates mean. */
export const chartKeys = () => keysOf("Colours of the bars", [["var(--bar)", "the least of all candidates"], ["var(--bar-over)", "more than the least"], ["var(--lit)", "picked"]]);

/** Cells of one candidate: a bar against the largest, the number beside it; rivals that cost more stand out. */
export function figureCells(figures, cost, costs, areRivals = true) {
  return figures.map((name) => {
    const most = Math.max(...costs.map((one) => one?.[name] ?? 0), 1);
    const least = Math.min(...costs.filter((one) => one && name in one).map((one) => one[name]));
    if (!cost || !(name in cost)) return h("td", { class: "figure-cell" }, "not costed");
    const width = `width:${(100 * cost[name]) / most}%`;
    return h("td", { class: "figure-cell" }, h("span", { class: "measure" },
      h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: `bar-fill${areRivals && cost[name] > least ? " over" : ""}`, style: width })), String(cost[name])));
  });
}

/** A choice: the question, the answer, every candidate with its cost and the verdict, the reason. */
export function choiceNode(choice) {
  const costs = choice.candidates.map((one) => one.figures);
  const figures = figuresOf(costs);
  const isPicked = (one) => one.verdict === "picked" || one.value === choice.picked;
  const rows = choice.candidates.map((one) => h("tr", { class: isPicked(one) ? "chosen" : "" },
    h("th", { scope: "row" }, h("code", {}, one.value)), figureCells(figures, one.figures, costs), h("td", {}, one.figures.us ? (isPicked(one) ? "picked" : "takes longer") : one.verdict)));
  const head = h("tr", {}, h("th", { scope: "col" }, "candidate"), figureHeads(figures), h("th", { scope: "col" }, "verdict"));
  return h("div", { class: "choice" }, h("h3", {}, `${choice.question}: `, h("code", {}, choice.picked)),
    rows.length ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Candidates for ${choice.question}` },
      h("table", { class: "candidates" }, h("caption", { class: "visually-hidden" }, `Candidates for ${choice.question}`), h("thead", {}, head), h("tbody", {}, rows))) : null,
    choice.proof ? h("p", { class: "note" }, `Because ${choice.proof}.`) : null);
}
