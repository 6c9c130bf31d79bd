/** The map of tensor memory: lanes by columns, whose each cell is, and step by step what products and copies touch. */
import { count } from "../model/spelling.js";
import { fillCells, sayCell } from "../model/tensor.js";
import { field, h, select, themed, wantsStillness } from "./dom.js";
import { CellGrid } from "./grid.js";
import { keysOf, swatch } from "./legend.js";

const BEAT = 900; // milliseconds of a step

/** The tab of a kernel that has buffers in tensor memory; null for others. */
export const tensorTab = (spec, state) => (spec.tensor_memory ? new TensorMap(spec.tensor_memory, state) : null);

class TensorMap {
  constructor(memory, state) {
    this.key = "tmem";
    this.name = "Tensor memory";
    this.memory = memory;
    this.state = state;
    this.timer = 0;
    this.cell = h("p", { class: "note", "aria-live": "polite" }, "Point at a cell, or choose one: here stands what it holds.");
    this.grid = new CellGrid({ label: "Lanes and columns of tensor memory", hint: "Arrow keys move from cell to cell, and the text above says what it holds.",
      onhover: (cell) => this.say(cell), onselect: (cell) => this.say(cell) });
    this.said = h("p", { class: "note", "aria-live": "polite" });
    this.steps = select([["", "none: whose each cell is"], ...memory.frames.map((frame, k) => [String(k + 1), sayStep(frame)])], "", (f) => this.choose(f));
    this.play = h("button", { type: "button", onclick: () => this.toggle() }, "Play the steps");
    const move = (by, name) => h("button", { type: "button", onclick: () => this.choose(this.next(by)) }, name);
    const buttons = h("div", { class: "buttons" }, move(-1, "Step before"), this.play, move(1, "Step after"));
    this.node = h("div", { class: "sheet wide" }, h("section", {}, h("h2", {}, "Tensor memory"),
      h("p", { class: "note" }, `${memory.allocated} of ${count(memory.columns, "column")} are allocated, in all of ${count(memory.lanes, "lane")}; a cell is 32 bits. Rows are lanes.`),
      keysOf("Colours of the cells", [...memory.buffers.map(({ name }, k) => [`var(--c${k % 8})`, name]), ["var(--empty)", "allocated, and empty"], ["var(--paper)", "free"]]),
      memory.frames.length ? h("div", { class: "bar" }, field("Step", this.steps, "of one run of each op, in the first trip of the loops around it"), buttons) : null,
      this.said, this.cell, this.grid.node));
    state.listen((changed) => changed.has("f") && this.mark());
  }

  shown() {
    this.cells ??= fillCells(this.memory);
    this.repaint();
  }

  repaint() {
    if (!this.cells) return;
    const { lanes, columns, allocated, buffers } = this.memory;
    const colors = buffers.map((_, k) => themed(`--c${k % 8}`));
    const [empty, free] = [themed("--empty"), themed("--paper")];
    const { owner } = this.cells;
    this.grid.show({
      rows: lanes, columns, longest: 0, least: 1, color: (cell) => colors[owner[cell]] ?? (cell % columns < allocated ? empty : free), text: () => "",
      rowText: String, columnText: String, lines: { rows: 32 }, describe: (cell) => sayCell(this.memory, this.cells, cell),
    });
    this.mark();
  }

  say(cell) {
    if (cell >= 0) this.cell.textContent = sayCell(this.memory, this.cells, cell);
  }

  choose(f) {
    this.state.set({ f });
  }

  /** The number of the step that many further on, from 1; around the ends. */
  next(by) {
    const [now, many] = [Number(this.state.get("f")) || 0, this.memory.frames.length];
    return String(now || by > 0 ? ((now - 1 + by + many) % many) + 1 : many);
  }

  /** Marks what the chosen step writes and reads, and says it; all else is faded. */
  mark() {
    if (!this.cells) return;
    const frame = this.memory.frames[Number(this.state.get("f")) - 1];
    this.steps.value = frame ? this.state.get("f") : "";
    this.grid.mark(frame ? [{ cells: [], boxes: frame.reads, kind: "access" }, { cells: [], boxes: frame.writes, kind: "phase" }] : []);
    this.said.replaceChildren(...(frame ? [swatch("var(--accent)"), sayFrame(frame)] : []));
  }

  toggle() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = 0;
      this.play.textContent = "Play the steps";
      return;
    }
    this.choose(this.next(1));
    if (wantsStillness()) return; // a step for each press
    this.play.textContent = "Stop";
    this.timer = setInterval(() => this.choose(this.next(1)), BEAT);
  }
}

const sayStep = ({ op, text, number, count: many }) => `op ${op}${many > 1 ? `, ${number} of ${many}` : ""}: ${text}`;

function sayFrame(frame) {
  const does = [["writes", frame.writes], ["reads", frame.reads]].filter(([, boxes]) => boxes.length).map(([verb, boxes]) => `${verb} ${sayBoxes(boxes)}`);
  const from = frame.shared.map(({ buffer, byte }) => `${buffer} from byte ${byte}`);
  return `${sayStep(frame)}, by ${frame.instruction}: ${does.join("; ")}${from.length ? `; in shared memory ${from.join(" and ")}` : ""}.`;
}

/** Columns with the lanes; windows of several warps on the same columns are one. */
function sayBoxes(boxes) {
  const merged = new Map();
  for (const [lane, lanes, column, wide] of boxes) {
    const key = `columns ${column} to ${column + wide - 1}`;
    const [first, end] = merged.get(key) ?? [lane, lane];
    merged.set(key, [Math.min(first, lane), Math.max(end, lane + lanes)]);
  }
  return [...merged].map(([key, [first, end]]) => `${key} in lanes ${first} to ${end - 1}`).join(", ");
}
