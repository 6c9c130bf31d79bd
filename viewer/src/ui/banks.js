/** The bank map: one access of a warp, phase by phase, as the layout is and as another would have it, side by side. */
import { bankTable } from "../model/access.js";
import { elementsOf, movedOffsets } from "../model/elements.js";
import { LayoutError } from "../model/errors.js";
import { isShared, makeTile, placeAll } from "../model/layouts.js";
import { accessesOf, bytesOf, sumUp } from "../model/patterns.js";
import { count, spellSwizzle, swizzleOfMode } from "../model/spelling.js";
import { field, fill, h, select, wantsStillness } from "./dom.js";
import { swatch } from "./legend.js";
import { drawAccess, phaseTable, sayWavefronts } from "./maps.js";

const NAMES = {
  row: "a row, an element a lane", column: "a column, an element a lane", ldmatrix1: "ldmatrix .x1", ldmatrix2: "ldmatrix .x2", ldmatrix4: "ldmatrix .x4",
};
const BEAT = 900; // milliseconds of a phase

export class BankMap {
  /** ``exampleNow()``: the spec whose buffers are looked at, or null; ``mark``: marks elements in the explorer. */
  constructor(state, exampleNow, hasCode, mark) {
    this.state = state;
    this.hasCode = hasCode;
    this.exampleNow = exampleNow;
    this.mark = mark;
    this.timer = 0;
    this.cells = [];
    this.tables = [];
    this.access = select([["column", NAMES.column]], "column", (a) => this.choose(a));
    this.other = select([["auto", "automatic"], ["plain", "without swizzle or padding"], ["32", "swizzle of 32 bytes"], ["64", "swizzle of 64 bytes"], ["128", "swizzle of 128 bytes"], ["pitch", "16 bytes more a row"], ["none", "nothing"]], state.get("o"), (o) => state.set({ o }));
    this.which = h("input", { type: "range", min: "0", max: "0", value: "0", oninput: () => state.set({ w: this.which.value }) });
    this.label = h("output", { class: "note" });
    this.code = h("button", { type: "button", class: "small", onclick: () => state.set({ v: "code", x: String(this.own.op), y: this.own.key }) }, "Its line and its CUDA");
    this.play = h("button", { type: "button", onclick: () => this.toggle() }, "Play the phases");
    this.back = h("button", { type: "button", onclick: () => this.step(-1) }, "Phase before");
    this.next = h("button", { type: "button", onclick: () => this.step(1) }, "Phase after");
    this.said = h("p", { class: "note", "aria-live": "polite" });
    this.maps = h("div", { class: "maps" });
    this.problem = h("p", { class: "note" });
    this.whichField = field("Which", this.which);
    this.otherField = field("Beside it", this.other);
    this.buttons = h("div", { class: "buttons" }, this.back, this.play, this.next);
    this.controls = h("div", { class: "bar" }, field("Access", this.access), this.whichField, this.otherField, this.buttons);
    this.node = h("section", { class: "banks" }, h("h2", {}, "Banks"), this.problem, this.controls, h("div", { class: "row start" }, this.label, this.code), this.said, this.maps);
    state.listen((changed) => {
      if (["t", "s", "d"].some((key) => changed.has(key))) return; // the explorer shows the new subject
      if (["a", "w", "o", "g"].some((key) => changed.has(key))) this.refresh();
      else if (changed.has("n")) this.showPhase();
    });
  }

  show(subject) {
    this.subject = subject;
    this.known = new Map();
    this.refresh();
  }

  /** An access of the spec brings the buffer that it touches. */
  choose(a) {
    const own = this.exampleNow()?.accesses.find((one) => one.key === a);
    const brings = own?.layout && this.state.get("p") !== own.preset;
    this.state.set({ a, w: "0", n: own ? "1" : "", ...(brings ? stateOf(own.layout) : {}) });
  }

  refresh() {
    if (!this.subject) return;
    this.stop();
    const example = this.exampleNow();
    const isOn = isShared(this.subject.places);
    this.own = example?.accesses.find((one) => one.key === this.state.get("a") && (!one.layout || one.preset === this.state.get("p"))) ?? null;
    const options = [...(isOn ? [{ group: "of the tile", options: Object.entries(NAMES) }] : [["", "none"]]), ...(example ? [{ group: `of ${example.name}`, options: example.accesses.map((one) => [one.key, one.name]) }] : [])];
    fill(this.access, options, this.own?.key ?? (isOn ? (this.pattern) : ""));
    this.other.value = this.state.get("o");
    const found = this.own || isOn ? this.find() : { problem: "Banks are of shared memory: this layout places on other axes." };
    this.problem.textContent = found.problem ?? "";
    this.controls.hidden = !isOn && !example;
    this.whichField.hidden = !found.sides || Boolean(this.own);
    this.otherField.hidden = !found.sides || Boolean(this.own && (!this.own.layout || this.own.chunks.length));
    this.code.hidden = !this.own || !this.hasCode;
    this.tables = found.sides ?? [];
    this.maps.replaceChildren(...this.tables.map(sideNode));
    this.label.textContent = found.label ?? "";
    this.cells = found.cells ?? [];
    this.buttons.hidden = !this.phaseCount;
    this.showPhase();
  }

  get pattern() {
    return NAMES[this.state.get("a")] ? this.state.get("a") : "column";
  }

  /** {label, cells: elements of each lane, sides: [{title, figure, isOver, note, node, phases, refused}]} or {problem}. */
  find() {
    try {
      return this.own ? this.ofSpec(this.own) : this.ofTile();
    } catch (error) {
      if (!(error instanceof LayoutError)) throw error;
      return { problem: error.message };
    }
  }

  ofTile() {
    const { subject } = this;
    const of = (places) => accessesOf(bytesOf(places, subject.shape, subject.bits), subject.bits, this.pattern);
    const mine = this.keep(`${this.pattern} as it is`, () => summed(of(subject.places)));
    if (!mine.length) return { problem: `The tile is too small for ${NAMES[this.pattern]}.` };
    const at = Math.min(Number(this.state.get("w")) || 0, mine.length - 1);
    this.which.max = String(mine.length - 1);
    this.which.value = String(at);
    const side = (title, all) => ({ title, note: all.note, ...tabled(all.list[at]) });
    const sides = [side(subject.text, mine)];
    const other = otherLayout(subject, this.state.get("o"));
    if (other) {
      try {
        const beside = side(other.title, this.keep(`${this.pattern} ${this.state.get("o")}`, () => summed(of(placeAll(other.layout, subject.shape)))));
        if (other.before) sides.unshift(beside);
        else sides.push(beside);
      } catch (error) {
        if (!(error instanceof LayoutError)) throw error;
        sides.push({ title: other.title, refused: error.message });
      }
    }
    const { elements, span = 1, label } = mine.list[at];
    const cells = elements.map((e) => (e < 0 ? [] : Array.from({ length: span }, (_, k) => e + k)));
    return { label: `${label}; ${count(mine.length, "such access", "such accesses")} cover the tile`, cells, sides };
  }

  /** What was found of this subject before, else ``make()``: the slider moves over accesses that stay. */
  keep(key, make) {
    if (!this.known.has(key)) this.known.set(key, make());
    return this.known.get(key);
  }

  /** An access of a spec's op: its bytes are Python's; in another layout they are those of the same elements. */
  ofSpec(own) {
    if (!own.layout) return { label: own.label, cells: [], sides: [{ title: `${own.buffer} in ${own.space} memory`, ...drawAccess(own) }] };
    const { bits } = this.subject;
    const found = elementsOf(own, bits);
    const drawn = (title) => ({ title, ...drawAccess(own) });
    const moved = (title, places) => {
      const offsets = isShared(places) ? movedOffsets(own, found, places, bits) : null;
      return offsets ? { title, ...drawAccess({ ...own, offsets, isMoved: true }) } : { title, refused: `its ${own.width} bytes a lane do not lie together and aligned there` };
    };
    const isWritten = this.subject.text === own.layout.text && this.subject.places.count === found.at.size;
    const sides = [isWritten || own.chunks.length ? drawn(own.layout.text) : moved(this.subject.text, this.subject.places)];
    if (!isWritten && !own.chunks.length) sides.unshift(drawn(`${own.layout.text}, as in the spec`));
    const other = isWritten && !own.chunks.length ? otherLayout(this.subject, this.state.get("o")) : null;
    if (other) {
      const side = moved(other.title, placeAll(other.layout, this.subject.shape));
      if (other.before) sides.unshift(side);
      else sides.push(side);
    }
    return { label: own.label, cells: found.cells, sides };
  }

  // ---------------------------------------------------------------- phases, one after the other
  get phaseCount() {
    return Math.max(0, ...this.tables.map((side) => side.phases?.length ?? 0));
  }

  step(by) {
    const many = this.phaseCount;
    if (!many) return;
    const now = Number(this.state.get("n")) || 0; // from 1; 0 before the first
    this.state.set({ n: String(now || by > 0 ? ((now - 1 + by + many) % many) + 1 : many) });
  }

  /** Marks the lanes of the phase in the maps, and in the explorer with the others of the access. */
  showPhase() {
    const at = Math.min(Number(this.state.get("n")) || 0, this.phaseCount) - 1;
    this.maps.querySelectorAll("tbody[data-phase]").forEach((body) => body.classList.toggle("now", Number(body.dataset.phase) === at));
    const phases = this.tables.filter((side) => side.phases?.length).map((side) => side.phases[at]);
    const who = this.own?.chunks.length ? "chunk" : "lane";
    const said = phases.map((phase) => (phase ? sayPhase(phase, who) : "nothing"));
    this.said.replaceChildren(...(at >= 0 ? [swatch("var(--accent)"), `Phase ${at + 1} of ${this.phaseCount}: ${said.join("; beside it ")}`] : []));
    const lanes = new Set(phases[0]?.lanes ?? []);
    const cells = (wanted) => this.cells.flatMap((own, lane) => (lanes.has(lane) === wanted ? own.map((e) => [e, String(lane)]) : []));
    const mark = (found, kind) => ({ cells: found.map(([e]) => e), texts: found.map(([, text]) => text), kind });
    this.mark(at >= 0 ? [mark(cells(false), "access"), mark(cells(true), "phase")] : []);
  }

  toggle() {
    if (this.timer) {
      this.stop();
      return;
    }
    this.step(1);
    if (wantsStillness()) return; // a step for each press
    this.play.textContent = "Stop";
    this.timer = setInterval(() => this.step(1), BEAT);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    this.play.textContent = "Play the phases";
  }
}

/** What the state says where a buffer of a spec is looked at. */
export const stateOf = (layout) => ({ p: layout.key, t: layout.text, s: layout.shape.join(", "), d: layout.dtype, c: "auto", q: "", k: "", w: "0" });

const sayPhase = ({ lanes, wavefronts }, who) => `${count(lanes.length, who)} ${lanes.length === 1 ? "takes" : "take"} ${count(wavefronts, "wavefront")}`;

const summed = (list) => ({ list, length: list.length, note: sayWhole(sumUp(list)) });

const sayWhole = ({ count: many, sum, floor }) => `the whole tile: ${count(many, "access", "accesses")}, ${count(sum, "wavefront")}, ${floor} at best`;

function tabled({ kind, width, offsets }) {
  const table = bankTable(kind, width, offsets);
  const total = table.phases.reduce((sum, phase) => sum + phase.wavefronts, 0);
  return { figure: sayWavefronts(total, table), isOver: total > table.phases.length, node: phaseTable(table), phases: table.phases };
}

/** A figure: the layout, what the access costs in it, the map. */
export function sideNode({ title, refused, figure, isOver, note, node }) {
  if (refused) return h("figure", {}, h("figcaption", {}, h("code", {}, title)), h("p", { class: "note" }, refused));
  const [first] = /^(\d+ \w+)?/.exec(figure);
  return h("figure", {}, h("figcaption", {}, h("code", {}, title), h("p", { class: "figure" }, h("strong", { class: isOver ? "bad" : "good" }, first), figure.slice(first.length)), note ? h("p", { class: "note" }, note) : null), node);
}

/** The layout beside: {layout, title, before}; null for none. */
function otherLayout(subject, wanted) {
  const { layout, bits, shape } = subject;
  const isTile = layout.kind === "tile";
  const changed = isTile ? Boolean(layout.swizzle) : Boolean(layout.pads);
  const choice = wanted === "auto" ? (changed ? "plain" : "128") : wanted;
  if (choice === "none") return null;
  const plain = isTile ? makeTile(layout.shard, layout.replica, layout.offset, null, layout.shape) : { ...layout, pads: null };
  if (choice === "plain") return changed ? { layout: plain, title: layout.pads ? "without padding" : "without the swizzle", before: true } : null;
  if (choice === "pitch") {
    const more = Math.floor(128 / bits);
    const columns = shape.at(-1);
    let stride = 1;
    const shard = [...shape].reverse().map((extent, k) => {
      const iter = { extent, stride, axis: "m" };
      stride *= k ? extent : columns + more;
      return iter;
    }).reverse();
    return { layout: makeTile(shard), title: `rows of ${columns + more} elements` };
  }
  if (!isTile || Object.keys(layout.offset).length || layout.replica.length) return null;
  const swizzle = swizzleOfMode(Number(choice), bits);
  if (swizzle.per < 0 || !Number.isInteger(swizzle.per)) return null;
  return { layout: makeTile(layout.shard, [], {}, swizzle, layout.shape), title: `${spellSwizzle(swizzle)} o the same tile` };
}
