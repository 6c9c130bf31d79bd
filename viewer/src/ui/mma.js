/** A tiled product: who owns which element of C, with R as a slider, and every valid R with what Python says it costs. */
import { placeAll, takeShape } from "../model/layouts.js";
import { LayoutError, sayError } from "../model/errors.js";
import { parseLayout } from "../model/notation.js";
import { readOne } from "../model/shapes.js";
import { count } from "../model/spelling.js";
import { colorKeys, colorScale, sayShades } from "./colors.js";
import { checkedField, field, h, select, themed } from "./dom.js";
import { CellGrid } from "./grid.js";
import { keyItems, keysOf } from "./legend.js";

export class MmaView {
  constructor(state, tilings) {
    this.state = state;
    this.tilings = tilings;
    this.tiling = select(tilings.map((one) => [one.key, one.name]), state.get("m"), (m) => state.set({ m, r: "", th: "0" }));
    this.slider = h("input", { type: "range", min: "0", max: "0", step: "1", oninput: () => state.set({ r: String(this.current.runs[Number(this.slider.value)].run) }) });
    this.thread = h("input", { type: "text", inputmode: "numeric", value: "0", oninput: () => state.set({ th: this.thread.value }) });
    this.threadField = checkedField("Thread", this.thread);
    this.value = h("output", {});
    this.chain = h("dl", { class: "chain" });
    this.grid = new CellGrid({ label: "Elements of C and the threads that own them", hint: "Arrow keys move from element to element; Enter takes its thread.", onselect: (cell) => this.state.set({ th: String(this.owners[cell]) }) });
    this.note = h("p", { class: "legend" });
    this.keys = keysOf("Colours of the threads", []);
    this.prices = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Every valid R" });
    this.node = h("div", { class: "mma" },
      h("div", { class: "panel" }, field("Tiling", this.tiling), field("R, consecutive elements of a thread", this.slider), this.value, this.threadField.node, this.chain),
      h("div", { class: "views" }, h("section", {}, h("h2", {}, "Elements of C"), this.note, this.keys, this.grid.node), h("section", {}, h("h2", {}, "Every valid R, and its costs"), this.prices)));
    state.listen((changed) => {
      if (["m", "r", "th", "v"].some((key) => changed.has(key))) this.refresh();
    });
  }

  refresh() {
    if (this.state.get("v") !== "mma" || !this.tilings.length) return;
    this.current = this.tilings.find((one) => one.key === this.state.get("m")) ?? this.tilings[0];
    const { runs } = this.current;
    const at = Math.max(0, runs.findIndex((one) => String(one.run) === (this.state.get("r") || String(this.current.given ?? runs[0].run))));
    const run = runs[at];
    this.tiling.value = this.current.key;
    this.slider.max = String(runs.length - 1);
    this.slider.value = String(at);
    this.slider.setAttribute("aria-valuetext", `R = ${run.run}`);
    this.value.textContent = `R = ${run.run}`;
    this.paint(run);
    this.describe(run);
    this.list(run);
  }

  paint(run) {
    const { layout, shape } = takeShape(parseLayout(run.layout), run.tile);
    const places = placeAll(layout, shape);
    this.owners = ownersOf(places);
    const threads = this.owners.reduce((a, b) => Math.max(a, b), 0) + 1;
    const thread = this.readThread(threads);
    if (document.activeElement !== this.thread) this.thread.value = this.state.get("th");
    const color = colorScale(threads);
    const mine = themed("--mine");
    const held = this.owners.reduce((sum, owner) => sum + (owner === thread ? 1 : 0), 0);
    const owned = thread < 0 ? "Colours are threads" : `Thread ${thread} owns the ${count(held, "marked element")} of ${shape.join(" x ")}; other colours are other threads`;
    this.note.textContent = `${owned}${sayShades(threads)}. Lines end a period: ${run.period.join(" x ")}.`;
    this.keys.replaceChildren(...keyItems([...(thread < 0 ? [] : [["var(--mine)", `thread ${thread}`]]), ...colorKeys(threads)]));
    const [m, n] = run.period;
    this.grid.show({
      rows: shape[0], columns: shape[1], longest: 0,
      color: (e) => (this.owners[e] === thread ? mine : color(this.owners[e])), text: () => "", rowText: String, columnText: String,
      describe: (e) => `row ${Math.floor(e / shape[1])}, column ${e % shape[1]}: thread ${this.owners[e]}, register ${places.axes.m?.[e] ?? 0}`,
      lines: { rows: m < shape[0] ? m : shape[0] + 1, columns: n < shape[1] ? n : shape[1] + 1 },
    });
  }

  /** The thread that was asked for; -1, and the reason at the field, where there is none. */
  readThread(threads) {
    const wanted = this.state.get("th");
    try {
      const thread = readOne(wanted, threads, "thread");
      this.threadField.say("");
      return thread;
    } catch (error) {
      if (!(error instanceof LayoutError)) throw error;
      this.threadField.say(sayError(wanted, error));
      return -1;
    }
  }

  describe(run) {
    const rows = run.modes.flatMap((mode) => [
      [`${mode.name}: F, atoms`, mode.atoms], [`${mode.name}: period`, `${mode.native} x ${mode.period / mode.native} = ${mode.period}`],
      [`${mode.name}: repetitions`, `${mode.tile} / ${mode.period} = ${mode.repetitions}`], [`${mode.name}: a thread`, `${mode.shape[0]} x ${mode.shape[1]}`],
    ]);
    this.chain.replaceChildren(...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
  }

  list(chosen) {
    const { runs } = this.current;
    const price = (p) => (p ? `${p.per_thread} x ${p.width_bytes} B` : "shared");
    const waves = (run) => [run.load_a, run.load_b].filter(Boolean);
    const per = (run, key) => waves(run).reduce((sum, p) => sum + p[key], 0) / (waves(run)[0]?.warps ?? 1);
    const most = Math.max(...runs.map((run) => per(run, "total")), 1);
    const stores = Math.max(...runs.map((run) => run.store.total), 1);
    const bar = (value, floor, top) => h("span", { class: "measure" }, h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: `bar-fill${value > floor ? " over" : ""}`, style: `width:${Math.round((100 * value) / top)}%` })), `${value} of ${floor}`);
    const rows = runs.map((run) => {
      const pick = h("input", { type: "radio", name: "run", "aria-label": `R = ${run.run}`, onchange: () => this.state.set({ r: String(run.run) }) });
      pick.checked = run === chosen;
      return h("tr", { class: run === chosen ? "chosen" : "" },
        h("th", { scope: "row" }, h("label", {}, pick, ` ${run.run}${run.is_given ? " *" : ""}`)),
        h("td", {}, sayColumns(run.columns)), h("td", {}, `${run.shape[0]} x ${run.shape[1]}`), h("td", {}, price(run.store)),
        h("td", {}, bar(run.store.total, run.store.floor, stores)), h("td", {}, price(run.load_a)), h("td", {}, price(run.load_b)),
        h("td", {}, waves(run).length ? bar(per(run, "total"), per(run, "floor"), most) : "none"));
    });
    const head = ["R", "thread 0's columns", "shape", "store of C", "sectors", "load of A", "load of B", "wavefronts"];
    this.prices.replaceChildren(keysOf("Colours of the bars", [["var(--bar)", "the least that there could be"], ["var(--bar-over)", "more than that"]]), h("table", { class: "prices" },
      h("caption", {}, "Sectors of all stores of C; wavefronts of one warp's loads of a step of A and B; of: what the same accesses take at least. * is the tiling as written."),
      h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows)));
  }
}

/** The thread of each element: lanes inside warps, or tx itself. */
function ownersOf(places) {
  const { tx, warpid, laneid, wgid, tid_in_wg: inGroup, wid_in_wg: warpInGroup } = places.axes;
  const owners = new Int32Array(places.count);
  const add = (values, times) => values && owners.forEach((_, e) => { owners[e] += values[e] * times; });
  for (const [values, times] of tx ? [[tx, 1]] : [[wgid, 128], [inGroup, 1], [warpid, 32], [warpInGroup, 32], [laneid, 1]]) add(values, times);
  return owners;
}

function sayColumns(columns) {
  const texts = columns.map(([a, b]) => (a === b ? String(a) : `${a}-${b}`));
  return (texts.length > 4 ? [...texts.slice(0, 3), "...", texts.at(-1)] : texts).join(" ");
}
