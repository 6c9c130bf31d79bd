/** The explorer: a layout's text and fields on one side; its elements, their places and one of them in full beside it. */
import { LayoutError, sayError } from "../model/errors.js";
import { copiesOf, placeAll, product, sharedPlace, addressAxis, isShared, ownShape, takeShape, unflatten } from "../model/layouts.js";
import { parseLayout } from "../model/notation.js";
import { heldBy, physicalOf, say } from "../model/physical.js";
import { readElement, readShape } from "../model/shapes.js";
import { modeOf, partsOf, retypeSwizzle, spellParts, swizzleOfMode } from "../model/spelling.js";
import { colorKeys, colorScale, sayShades } from "./colors.js";
import { checkedField, field, fill, h, select, table } from "./dom.js";
import { bitsOf, DTYPES } from "./dtypes.js";
import { stateOf } from "./banks.js";
import { CellGrid } from "./grid.js";
import { keyItems, keysOf } from "./legend.js";

const MOST_HELD = 24;
const PARTS = ["shard", "replica", "offset"];

export class Explorer {
  /** ``examples``: specs whose buffers are presets; ``onchange``: told of every new subject. */
  constructor(state, presets, examples, onchange) {
    this.state = state;
    this.own = presets;
    this.examples = examples;
    this.onchange = onchange;
    this.subject = null;
    this.marked = { element: -1, held: [] };
    this.buildControls();
    this.elements = new CellGrid({
      label: "Elements of the layout", hint: "Arrow keys move from element to element, and the panel says where it lies.",
      onhover: (e) => (e < 0 ? this.rest() : this.showElement(e, false)), onselect: (e) => this.pick(e),
    });
    this.places = new CellGrid({
      label: "Places that hold the elements", hint: "Arrow keys move from place to place, and the panel says what it holds.",
      onhover: (cell) => this.showPlace(cell), onselect: (cell) => this.pickPlace(cell),
    });
    this.legend = h("p", { class: "legend" });
    this.keys = keysOf("Colours of the elements", []);
    this.placesTitle = h("h2", {}, "Places");
    this.placesNote = h("p", { class: "note" });
    this.details = h("section", { class: "details", "aria-label": "The element, or the place" });
    this.node = h("div", { class: "explorer" }, this.form,
      h("div", { class: "views" },
        h("section", {}, h("div", { class: "row" }, h("h2", {}, "Elements"), this.colorField), this.legend, this.keys, this.elements.node),
        h("section", {}, this.placesTitle, this.placesNote, this.places.node)),
      this.details);
    state.listen((changed) => this.changed(changed));
  }

  // ---------------------------------------------------------------- the form
  buildControls() {
    const { state } = this;
    const input = (key, props = {}) => h("input", { type: "text", spellcheck: "false", autocomplete: "off", ...props, oninput: (e) => this.edit(key, e.target.value) });
    this.spec = select([["", "none: the layouts below"], ...this.examples.map((one) => one.name)], state.get("g"), (g) => this.chooseSpec(g));
    this.specField = this.examples.length > 1 ? field("Spec", this.spec, `buffers of the ${this.examples.length} specs of specs/`) : null;
    this.preset = select([["", "Presets"]], "", (key) => this.choosePreset(key));
    this.text = h("textarea", { rows: "4", spellcheck: "false", oninput: () => this.write(this.text.value) });
    this.error = h("pre", { class: "error", role: "alert" });
    this.note = h("p", { class: "note" });
    this.shape = h("input", { type: "text", spellcheck: "false", oninput: () => state.set({ s: this.shape.value, q: "", k: "" }) });
    this.dtype = select(DTYPES.map(([name]) => name), state.get("d"), (d) => this.setType(d));
    this.fields = { shard: input("shard"), replica: input("replica", { placeholder: "2:4@warpid" }), offset: input("offset", { placeholder: "5@warpid" }) };
    this.mode = select([["0", "none"], ["32", "32 bytes"], ["64", "64 bytes"], ["128", "128 bytes"], ["custom", "by numbers"]], "0", (mode) => this.setMode(mode));
    const number = (label) => h("input", { type: "number", min: "0", max: "12", "aria-label": label, oninput: () => this.setNumbers() });
    this.numbers = [number("M, bits that stay"), number("B, bits that are XORed"), number("S, how far up they come from")];
    this.interval = h("input", { type: "number", min: "1", "aria-label": "elements between pads", value: "64" });
    this.padding = h("input", { type: "number", min: "1", "aria-label": "elements of a pad", value: "8" });
    const pad = h("button", { type: "button", onclick: () => this.pad() }, "Pad");
    const plain = h("button", { type: "button", onclick: () => state.set({ t: `S[(${this.subject?.shape.join(", ") ?? "8, 64"})]`, s: "" }) }, "Row-major");
    this.color = select([["auto", "automatic"]], "auto", (c) => state.set({ c }));
    this.colorField = h("label", { class: "inline" }, "Colours ", this.color);
    this.goto = h("input", { type: "text", placeholder: "5, 0", onchange: () => this.go(this.goto.value) });
    this.shapeField = checkedField("Shape", this.shape);
    this.gotoField = checkedField("Go to element", this.goto);
    this.form = h("form", { class: "panel", onsubmit: (e) => e.preventDefault() },
      this.specField, field("Preset", this.preset), this.note,
      field("Layout", this.text, "tilegen's, CuTe's or Gluon's text"), this.error,
      h("div", { class: "pair" }, this.shapeField.node, field("Type", this.dtype)),
      h("fieldset", {}, h("legend", {}, "Terms"), field("S, the shard", this.fields.shard), field("R, replicas", this.fields.replica), field("Offset", this.fields.offset)),
      h("fieldset", {}, h("legend", {}, "Swizzle"), h("div", { class: "pair" }, field("Mode", this.mode),
        h("div", { class: "field" }, h("span", { class: "label" }, "M, B, S"), h("div", { class: "numbers" }, this.numbers)))),
      h("fieldset", {}, h("legend", {}, "Padding"), h("div", { class: "numbers wrapped" }, "every", this.interval, "add", this.padding, pad, plain)),
      this.gotoField.node);
  }

  /** The spec whose buffers are presets here, or null. */
  get example() {
    return this.examples.find((one) => one.name === this.state.get("g")) ?? null;
  }

  get presets() {
    const { example } = this;
    return [...(example?.layouts.length ? [{ name: `Buffers of ${example.name}`, layouts: example.layouts }] : []), ...this.own];
  }

  get chosen() {
    return this.presets.flatMap((group) => group.layouts).find((preset) => preset.key === this.state.get("p")) ?? null;
  }

  /** Whether what is shown is no longer the preset that it began with. */
  isEdited() {
    const { chosen, state, subject } = this;
    if (!chosen) return false;
    const shape = state.get("s").trim() || subject?.shape.join(", ");
    return state.get("t") !== chosen.text || state.get("d") !== chosen.dtype || !isSameShape(shape, chosen.shape);
  }

  choosePreset(key) {
    const one = this.presets.flatMap((group) => group.layouts).find((preset) => preset.key === key);
    if (one) this.state.set({ ...stateOf(one), n: "" });
  }

  /** A spec brings its first buffer, and the first of its accesses that is drawn on it. */
  chooseSpec(g) {
    const example = this.examples.find((one) => one.name === g);
    const first = example?.layouts[0] ?? this.own[0].layouts[0];
    const access = example?.accesses.find((one) => one.preset === first.key) ?? (example?.layouts.length ? null : example?.accesses[0]);
    this.state.set({ g, ...stateOf(first), a: access?.key ?? "column", n: "" });
  }

  /** A term of the form, written into the text. */
  edit() {
    const terms = Object.fromEntries(PARTS.map((key) => [key, this.fields[key].value]));
    this.parts = { ...terms, swizzle: this.parts?.swizzle ?? null };
    this.fromField = true;
    this.write(spellParts(this.parts));
    this.fromField = false;
  }

  /** A new text; a shape that has not its size any more is dropped. */
  write(text) {
    this.state.set({ t: text, s: keepShape(text, this.state.get("s")), q: "", k: "" });
  }

  setMode(mode) {
    if (mode === "custom") return this.numbers[0].focus();
    const bytes = Number(mode);
    return this.setSwizzle(bytes ? swizzleOfMode(bytes, bitsOf(this.state.get("d"))) : null);
  }

  /** Another type, under the swizzle of the same mode. */
  setType(d) {
    const { parts, state } = this;
    const swizzle = parts ? retypeSwizzle(parts.swizzle, bitsOf(state.get("d")), bitsOf(d)) : null;
    const same = !swizzle || swizzle.per === parts.swizzle.per;
    state.set({ d, ...(same ? {} : { t: spellParts({ ...parts, swizzle }), s: this.ownShapeText() }) });
  }

  /** The shape that is shown, for a text that may not say it any more. */
  ownShapeText() {
    return this.state.get("s") || (this.subject?.shape.join(", ") ?? "");
  }

  setNumbers() {
    const [per, bits, apart] = this.numbers.map((input) => Number(input.value || 0));
    this.setSwizzle({ per, bits, apart, inner: true });
  }

  setSwizzle(swizzle) {
    if (!this.parts) return;
    this.parts = { ...this.parts, swizzle };
    this.fromField = true; // the parts stay, even where they make no layout
    this.state.set({ t: spellParts(this.parts), s: this.ownShapeText(), q: "", k: "" });
    this.fromField = false;
  }

  pad() {
    const shape = this.subject?.shape ?? [8, 64];
    const order = shape.map((_, d) => shape.length - 1 - d);
    this.state.set({ t: `PaddedSharedLayout.with_identity_for([[${this.interval.value}, ${this.padding.value}]], [${shape.join(", ")}], [${order.join(", ")}])`, s: "" });
  }

  go(text) {
    this.state.set({ q: text.trim(), k: "" });
    const { element } = this.picked();
    if (element < 0) return;
    this.elements.select(element);
    this.elements.reveal(element);
  }

  // ---------------------------------------------------------------- what is shown
  changed(changed) {
    if (["t", "s", "d"].some((key) => changed.has(key))) this.read();
    else if (changed.has("c")) this.paint();
    else if (changed.has("q") || changed.has("k")) this.rest();
    if (!changed.has("t") && (changed.has("p") || changed.has("g"))) this.fillForm();
  }

  read() {
    const [text, wanted] = [this.state.get("t"), this.state.get("s")];
    const said = { layout: "", shape: "" }; // what is wrong, at its field
    const attempt = (where, source, make) => {
      try {
        return make();
      } catch (error) {
        if (!(error instanceof LayoutError)) throw error;
        said[where] = sayError(source, error);
        return null;
      }
    };
    const given = attempt("layout", text, () => parseLayout(text));
    const shape = wanted.trim() ? attempt("shape", wanted, () => readShape(wanted)) : null;
    const ofShape = Boolean(shape) || given?.kind === "family"; // then a misfit is the shape's
    const taken = given && !said.shape ? attempt(ofShape ? "shape" : "layout", ofShape ? wanted : text, () => takeShape(given, shape)) : null;
    const places = taken ? attempt("layout", text, () => placeAll(taken.layout, taken.shape)) : null;
    this.error.textContent = said.layout;
    this.text.setAttribute("aria-invalid", String(said.layout !== ""));
    this.shapeField.say(said.shape);
    if (!places) {
      this.fillForm();
      return;
    }
    const bits = bitsOf(this.state.get("d"));
    this.subject = { given, ...taken, places, bits, text };
    this.physical = physicalOf(places, bits);
    this.fillForm();
    this.paint();
    this.onchange(this.subject);
  }

  fillForm() {
    const { state, subject } = this;
    const put = (node, value) => {
      if (document.activeElement !== node) node.value = value;
    };
    put(this.text, state.get("t"));
    put(this.shape, state.get("s") || (subject ? subject.shape.join(", ") : ""));
    this.dtype.value = state.get("d");
    this.spec.value = state.get("g");
    if (this.listed !== state.get("g")) {
      fill(this.preset, [["", "Presets"], ...this.presets.map((group) => ({ group: group.name, options: group.layouts.map((one) => [one.key, one.name]) }))], "");
      this.listed = state.get("g");
    }
    const isEdited = this.isEdited();
    this.preset.options[0].textContent = isEdited ? `${this.chosen.name}, changed` : "Presets";
    this.preset.value = isEdited ? "" : this.chosen?.key ?? "";
    const note = this.example && (this.example.layouts.includes(this.chosen) || !this.example.layouts.length) ? this.example.note : this.chosen?.note;
    this.note.textContent = isEdited ? "" : note ?? "";
    const tile = subject?.layout.kind === "tile" && subject.text === state.get("t") ? subject.layout : null;
    this.parts = tile ? partsOf(tile) : this.fromField ? this.parts : null;
    for (const key of PARTS) {
      this.fields[key].disabled = !this.parts;
      put(this.fields[key], this.parts?.[key] ?? "");
    }
    const swizzle = this.parts?.swizzle ?? null;
    const canSwizzle = Boolean(this.parts) && (!tile || Object.keys(this.subject.places.axes).every((axis) => axis === "m"));
    this.mode.disabled = !canSwizzle;
    this.mode.value = String(modeOf(swizzle, bitsOf(state.get("d"))));
    this.numbers.forEach((input, k) => {
      input.disabled = !canSwizzle;
      put(input, swizzle ? [swizzle.per, swizzle.bits, swizzle.apart][k] : "");
    });
  }

  paint() {
    const { places, shape, bits } = this.subject;
    const shared = isShared(places);
    const names = Object.keys(places.axes);
    const options = [["auto", "automatic"], ...(shared ? [["bank", "bank"], ["line", "line"]] : []), ...names.map((name) => [name, name])];
    const wanted = options.some(([key]) => key === this.state.get("c")) ? this.state.get("c") : "auto";
    fill(this.color, options, wanted);
    const key = wanted === "auto" ? defaultColor(places, shared) : wanted;
    const values = valuesOf(places, key, bits);
    const extent = key === "bank" ? 32 : values.reduce((a, b) => Math.max(a, b), 0) + 1;
    const color = colorScale(extent);
    const texts = textsOf(places, shared);
    const columns = shape.length > 1 ? shape.at(-1) : Math.min(shape[0], 16);
    const rows = Math.ceil(places.count / columns);
    const paper = "transparent";
    const rowShape = shape.slice(0, -1);
    const legend = (hasText) => {
      this.legend.textContent = `Each cell is an element${hasText ? `, its text the ${texts.legend}` : ""}, its colour the ${key === "m" && shared ? "address" : say(key)}${sayShades(extent)}.`
        + (places.copies > 1 ? ` Each element has ${places.copies} copies${hasText ? "; the first is written" : ""}.` : "");
    };
    this.elements.show({
      rows, columns, longest: Math.max(texts.of(0).length, texts.of(places.count - 1).length, texts.of(places.count >> 1).length),
      color: (e) => (e < places.count ? color(values[e]) : paper), text: (e) => (e < places.count ? texts.of(e) : ""),
      rowText: (r) => (shape.length > 1 ? unflatten(r, rowShape).join(",") : String(r * columns)), columnText: String,
      describe: (e) => (e < places.count ? this.sayElement(e) : "nothing"), painted: legend,
    });
    this.keys.replaceChildren(...keyItems([...colorKeys(extent), ...(hasEmpty(this.physical) ? [["var(--empty)", "an empty place"]] : [])]));
    this.paintPlaces(values, color, key);
    this.rest();
  }

  paintPlaces(values, color, key) {
    const grid = this.physical;
    this.places.node.hidden = !grid;
    this.placesTitle.textContent = grid ? grid.title : "Places";
    if (!grid) {
      this.placesNote.textContent = "There are too many places to draw.";
      return;
    }
    const empty = themedEmpty();
    this.placesNote.textContent = `Rows are ${grid.rowName}s, columns ${grid.columnName}s. Colours are those of the elements.`;
    this.places.show({
      rows: grid.rows, columns: grid.columns, longest: 0, least: grid.columns <= 32 ? 6 : 3,
      color: (cell) => (grid.starts[cell] < grid.starts[cell + 1] ? color(values[grid.held[grid.starts[cell]]]) : empty),
      text: () => "", rowText: grid.shortRow, columnText: grid.shortColumn, describe: (cell) => this.sayPlace(cell), key,
    });
  }

  // ---------------------------------------------------------------- one element, one place
  /** {element, problem}: the element that was chosen, -1 for none, and what is wrong where there is no such one. */
  picked() {
    const [wanted, shape] = [this.state.get("q"), this.subject?.shape];
    if (!wanted.trim() || !shape) return { element: -1, problem: "" };
    try {
      return { element: readElement(wanted, shape), problem: "" };
    } catch (error) {
      if (!(error instanceof LayoutError)) throw error;
      return { element: -1, problem: sayError(wanted, error) };
    }
  }

  pick(element) {
    if (element < this.subject.places.count) this.state.set({ q: unflatten(element, this.subject.shape).join(","), k: "" });
    this.rest();
  }

  pickPlace(cell) {
    this.state.set({ q: "", k: String(cell) });
    this.rest();
  }

  /** What is shown while nothing is hovered: the place that was chosen, or the element. */
  rest() {
    const cell = this.state.get("k") === "" ? -1 : Number(this.state.get("k"));
    const picked = this.picked();
    this.gotoField.say(picked.problem);
    if (document.activeElement !== this.goto) this.goto.value = this.state.get("q").split(",").map((word) => word.trim()).join(", ");
    if (this.physical && cell >= 0 && cell < this.physical.rows * this.physical.columns) this.showPlace(cell, true);
    else this.showElement(picked.element, true);
  }

  cellsOf(element) {
    const { places } = this.subject;
    const { cells, span } = this.physical;
    return Array.from({ length: places.copies }, (_, r) => cells[r * places.count + element])
      .flatMap((cell) => Array.from({ length: span }, (_, k) => cell + k));
  }

  showElement(element, isPicked) {
    if (!this.subject || element >= this.subject.places.count) return;
    const kind = isPicked ? "selected" : "hovered";
    this.elements.mark([...this.extraMarks(), ...(element >= 0 && isPicked ? [{ cells: [element], kind }] : [])]);
    if (this.physical) this.places.mark(element >= 0 ? [{ cells: this.cellsOf(element), kind }] : []);
    this.details.replaceChildren(...(element >= 0 ? this.elementPanel(element) : [h("p", { class: "note" }, "Click an element or a place; hover shows the other side.")]));
  }

  extraMarks() {
    return this.extra ?? [];
  }

  /** Marks of another part of the page, such as the lanes of an access, under those of the explorer. */
  setExtra(marks) {
    this.extra = marks;
    this.rest();
  }

  elementPanel(element) {
    const { places, shape, bits } = this.subject;
    const shared = addressAxis(places) !== null && !Object.keys(places.axes).some((name) => ["laneid", "lane", "tx", "tid_in_wg", "warpid", "register"].includes(name));
    const copies = copiesOf(places, element).slice(0, MOST_HELD);
    const names = Object.keys(places.axes);
    const head = ["copy", ...names, ...(shared ? ["byte", "bank", "line"] : [])];
    const rows = copies.map((place, r) => {
      const { byte, bank, line } = shared ? sharedPlace(place[addressAxis(places)], bits) : {};
      return [String(r), ...names.map((name) => String(place[name])), ...(shared ? [byte, bank, line].map(String) : [])];
    });
    const transposed = [head.slice(1), ...rows.map((row) => row.slice(1))];
    return [h("h2", {}, `Element (${unflatten(element, shape).join(", ")})`),
      h("p", { class: "note" }, `number ${element} of ${places.count}, row-major`),
      table("Where it lies", ["", ...rows.map((_, r) => (rows.length > 1 ? `copy ${r}` : "place"))],
        transposed[0].map((name, k) => [name, ...transposed.slice(1).map((row) => row[k])]), "places")];
  }

  sayElement(element) {
    const { places, shape, bits } = this.subject;
    const place = copiesOf(places, element)[0];
    const words = Object.entries(place).map(([axis, value]) => `${axis} ${value}`);
    if (isShared(places)) {
      const { byte, bank, line } = sharedPlace(place[addressAxis(places)], bits);
      words.push(`byte ${byte}`, `bank ${bank}`, `line ${line}`);
    }
    return `element ${unflatten(element, shape).join(", ")}: ${words.join(", ")}`;
  }

  heldElements(cell) {
    const { count } = this.subject.places;
    return [...new Set(heldBy(this.physical, cell).map((place) => place % count))];
  }

  sayPlace(cell) {
    const grid = this.physical;
    const found = this.heldElements(cell);
    const where = `${grid.sayRow(Math.floor(cell / grid.columns))}, ${grid.sayColumn(cell % grid.columns)}`;
    const listed = found.slice(0, 8).map((e) => `(${unflatten(e, this.subject.shape).join(", ")})`).join(" ");
    return `${where} holds ${found.length ? listed : "nothing"}`;
  }

  showPlace(cell, isPicked = false) {
    if (cell < 0) {
      this.rest();
      return;
    }
    const found = this.heldElements(cell);
    this.elements.mark([...this.extraMarks(), { cells: isPicked ? this.ownedBy(cell) : found, kind: isPicked ? "selected" : "hovered" }]);
    this.places.mark(isPicked ? [{ cells: [cell], kind: "selected" }] : []);
    this.details.replaceChildren(...this.placePanel(cell, found));
  }

  /** Of a thread all its elements, of other places those of the cell. */
  ownedBy(cell) {
    const grid = this.physical;
    if (grid.kind !== "axes") return this.heldElements(cell);
    const row = Math.floor(cell / grid.columns);
    const all = Array.from({ length: grid.columns }, (_, c) => this.heldElements(row * grid.columns + c)).flat();
    return [...new Set(all)];
  }

  placePanel(cell, found) {
    const grid = this.physical;
    const spell = (e) => `(${unflatten(e, this.subject.shape).join(", ")})`;
    const [row, column] = [Math.floor(cell / grid.columns), cell % grid.columns];
    const list = (elements) => elements.slice(0, MOST_HELD).map(spell).join(" ") + (elements.length > MOST_HELD ? ` and ${elements.length - MOST_HELD} more` : "");
    const bankHeld = () => [...new Set(Array.from({ length: grid.rows }, (_, r) => this.heldElements(r * grid.columns + column)).flat())];
    const groups = grid.kind === "shared"
      ? [[`this word`, found], [grid.sayColumn(column), bankHeld()]]
      : grid.kind === "tensor" ? [["this cell", found]] : [[grid.sayColumn(column), found], [`all of ${grid.sayRow(row)}`, this.ownedBy(cell)]];
    return [h("h2", {}, `${grid.sayRow(row)}, ${grid.sayColumn(column)}`),
      table("What it holds", ["place", "elements"], groups.map(([name, elements]) => [name, elements.length ? list(elements) : "nothing"]), "places")];
  }
}

function defaultColor(places, shared) {
  if (shared) return "bank";
  const names = Object.keys(places.axes);
  return ["laneid", "lane", "tx", "tid_in_wg", "TLane", "TCol", "warpid", "m"].find((name) => names.includes(name)) ?? names[0];
}

function valuesOf(places, key, bits) {
  if (key !== "bank" && key !== "line") return places.axes[key];
  const [bytes, count] = key === "bank" ? [4, 32] : [128, 2 ** 31];
  return places.axes[addressAxis(places)].map((m) => Math.floor(Math.floor((m * bits) / 8) / bytes) % count);
}

const OUTER = ["block", "warp", "lane", "bx", "by", "bz", "cbx", "cby", "cbz", "wgid", "warpid", "wid_in_wg", "tid_in_wg", "tx", "laneid"];

function textsOf(places, shared) {
  const moving = Object.keys(places.axes).filter((name) => places.axes[name].some((x) => x !== places.axes[name][0]));
  const names = moving.length ? moving : Object.keys(places.axes).slice(0, 1);
  const owners = OUTER.filter((name) => names.includes(name));
  const held = names.filter((name) => !owners.includes(name));
  const spell = (list, separator) => (e) => list.map((name) => places.axes[name][e]).join(separator);
  const [first, second] = [spell(owners, ":"), spell(held, ",")];
  const word = (name) => (name === "m" && shared ? "address" : say(name));
  const legend = [owners.map(word).join(":"), held.map(word).join(",")].filter(Boolean).join(".");
  if (owners.length && held.length) return { legend, of: (e) => `${first(e)}.${second(e)}` };
  return { legend, of: owners.length ? first : second };
}

/** Whether a place of a grid holds nothing. */
const hasEmpty = (grid) => Boolean(grid) && grid.starts.some((start, cell) => cell > 0 && start === grid.starts[cell - 1]);

const themedEmpty = () => getComputedStyle(document.documentElement).getPropertyValue("--empty").trim();

/** Whether a text is this shape, in any of the ways to write it. */
function isSameShape(text, shape) {
  try {
    return readShape(text).join() === shape.join();
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    return false;
  }
}

/** The shape's text if the layout can have it, else nothing: then the layout's own is taken. */
function keepShape(text, wanted) {
  try {
    const own = ownShape(parseLayout(text));
    return own === null || product(own) === product(readShape(wanted)) ? wanted : "";
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    return wanted; // one of them is no text yet
  }
}
