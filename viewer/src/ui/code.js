/** Spec and CUDA side by side, and a picture: an op, its lines in both, each access with its address expression and map. */
import { elementsOf } from "../model/elements.js";
import { placeAll, sharedPlace, takeShape, unflatten } from "../model/layouts.js";
import { parseLayout } from "../model/notation.js";
import { count } from "../model/spelling.js";
import { sideNode, stateOf } from "./banks.js";
import { colorKeys, colorScale, sayShades } from "./colors.js";
import { h } from "./dom.js";
import { bitsOf } from "./dtypes.js";
import { CellGrid } from "./grid.js";
import { keysOf } from "./legend.js";
import { drawAccess } from "./maps.js";

const cost = (a) => (a.space === "shared" ? `${count(a.wavefronts, "wavefront")}, ${a.floor} at best` : `${count(a.sectors, "sector")}, ${a.sectors_floor ?? "?"} at best`);

export function codeTab(spec, example, state) {
  const isWhole = spec.expanded.length > 0; // an op on whole arrays: its tile ops are a text of their own
  const texts = isWhole ? { "": spec.expanded, written: spec.yaml } : { "": spec.yaml };
  const lineOf = (op, key) => (isWhole && key === "" ? spec.expanded_lines[op.number - 1] : op.line);
  const yamls = Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, listing("Spec", text, (n) => spec.ops.filter((op) => lineOf(op, key) === n + 1))]));
  const cuda = listing("CUDA", spec.cuda, (n) => spec.ops.filter((op) => op.code.lines.includes(n)), spec.ops.flatMap((op) => op.code.spans.map((span) => ({ ...span, op: op.number }))));
  const picture = new Picture(example, state);
  const buttons = new Map(); // of ops by number, of accesses by key
  const yaml = () => yamls[state.get("z")] ?? yamls[""];
  let shown = { op: null, access: null };

  /** Marks an op in both texts, and of an access, or of all accesses of a buffer, the addresses and the picture. */
  const light = (op, access, scrolls, buffer = access?.buffer ?? null) => {
    const own = access ?? (op ? example.accesses.find((one) => one.op === op.number && (!buffer || one.buffer === buffer)) : null);
    shown = { op, access };
    for (const side of [...Object.values(yamls), cuda]) side.rows.forEach((row) => row.classList.remove("lit", "call"));
    cuda.spans.forEach(({ node }) => node.classList.remove("address"));
    buttons.forEach((node, key) => node.setAttribute("aria-pressed", String(key === `${op?.number}` || key === access?.key)));
    picture.show(own ?? null);
    if (!op) {
      if (scrolls) reveal(cuda.pre, cuda.rows[spec.kernel_line]);
      return;
    }
    const line = lineOf(op, yaml() === yamls[""] ? "" : "written") - 1;
    yaml().rows[line]?.classList.add("lit");
    op.code.lines.forEach((n) => cuda.rows[n].classList.add("lit"));
    op.code.calls.forEach((n) => cuda.rows[n].classList.add("call"));
    const spans = cuda.spans.filter((span) => span.op === op.number && (!buffer || span.buffer === buffer));
    if (buffer) spans.forEach(({ node }) => node.classList.add("address"));
    if (!scrolls) return;
    reveal(yaml().pre, yaml().rows[line]);
    reveal(cuda.pre, buffer && spans.length ? cuda.rows[spans[0].line] : cuda.rows[op.code.lines[0]]);
  };
  const picked = () => spec.ops.find((op) => String(op.number) === state.get("x")) ?? null;
  const pickedAccess = () => example.accesses.find((one) => one.key === state.get("y") && String(one.op) === state.get("x")) ?? null;
  const rest = () => light(picked(), pickedAccess(), false);
  const choose = (op, access = null) => {
    state.set({ x: String(op.number), y: access?.key ?? "" });
    light(op, access, true);
  };

  const list = h("div", { class: "ops" }, spec.ops.map((op) => {
    const main = h("button", { type: "button", class: "op-button", "aria-pressed": "false", onclick: () => choose(op) },
      h("span", { class: "note" }, `op ${op.number}, ${op.variant}${op.code.calls.length ? "" : "; with these sizes it never runs, and has no code"}`), h("code", {}, op.text));
    buttons.set(String(op.number), main);
    const chips = op.accesses.map((access) => {
      const known = example.accesses.find((one) => one.key === access.key);
      const over = access.space === "shared" ? access.wavefronts > access.floor : access.sectors > (access.sectors_floor ?? access.sectors);
      const chip = h("button", { type: "button", class: "chip", "aria-pressed": "false", onclick: () => choose(op, known),
        onpointerenter: () => light(op, known, false), onpointerleave: rest, onfocus: () => light(op, known, false), onblur: rest },
      h("code", {}, access.buffer), ` ${access.space} ${access.kind}, ${count(access.width_bytes, "byte")}; `, h("span", { class: over ? "bad" : "" }, cost(access)));
      buttons.set(access.key, chip);
      const draw = known.layout ? h("button", { type: "button", class: "small", "aria-label": `Draw access ${known.number}, ${access.buffer}`,
        onclick: () => state.set({ v: "layout", g: example.name, ...stateOf(known.layout), a: known.key, n: "1" }) }, "Draw") : null;
      return h("li", {}, chip, draw);
    });
    return h("div", { class: "op-item" }, main, chips.length ? h("ul", { class: "chips" }, chips) : null);
  }));
  for (const side of [...Object.values(yamls), cuda]) {
    const find = (row) => side.opsOf(Number(row.dataset.line));
    side.pre.addEventListener("pointerover", (event) => {
      const row = event.target.closest("[data-line]");
      const ops = row ? find(row) : [];
      const op = ops.find((one) => one === shown.op) ?? ops[0];
      if (op) light(op, null, false, event.target.closest("[data-buffer]")?.dataset.buffer ?? null);
    });
    side.pre.addEventListener("pointerleave", rest);
    side.pre.addEventListener("click", (event) => {
      const row = event.target.closest("[data-line]");
      const op = row && find(row)[0];
      const buffer = event.target.closest("[data-buffer]")?.dataset.buffer;
      if (op) choose(op, example.accesses.find((one) => one.op === op.number && one.buffer === buffer) ?? null);
    });
  }
  const pres = h("div", {}, Object.values(yamls).map((side) => side.pre));
  const isWritten = () => state.get("z") === "written";
  const written = isWhole ? h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: () => state.set({ z: isWritten() ? "" : "written" }) }, "As it was written") : null;
  const switched = () => {
    for (const side of Object.values(yamls)) side.pre.hidden = side !== yaml();
    written?.setAttribute("aria-pressed", String(isWritten()));
  };
  switched();
  state.listen((changed) => {
    if (changed.has("z")) switched();
    if (["x", "y", "z"].some((key) => changed.has(key))) light(picked(), pickedAccess(), state.get("v") === "code");
  });
  const path = isWhole ? "the tile ops that the spec is" : spec.path;
  const node = h("div", { class: "code" }, h("section", {}, h("h2", {}, "Ops and accesses"), list),
    h("section", {}, h("h2", {}, "Spec"), h("div", { class: "row" }, h("p", { class: "note" }, path), written), pres),
    h("section", {}, h("h2", {}, "CUDA"), h("p", { class: "note" }, `${spec.kernel}.cu`), codeKeys(), cuda.pre), picture.node);
  return { node, shown: () => light(picked(), pickedAccess(), true), repaint: () => picture.repaint() };
}

const codeKeys = () => keysOf("Colours of the code", [["var(--lit)", "lines of the op"], [null, "its calls", "call"], ["var(--accent)", "the address of the access"]]);

/** What an access touches: its banks or sectors, and the elements of its buffer. */
class Picture {
  constructor(example, state) {
    this.example = example;
    this.state = state;
    this.map = h("div", {});
    this.said = h("p", { class: "note" }, "Choose an op or an access, or point at one, in any of the three: the others and this picture follow.");
    this.grid = new CellGrid({ label: "Elements of the buffer that the access touches", hint: "Arrow keys move from element to element; Enter draws it with all else.",
      onselect: (cell) => this.access?.layout && state.set({ g: example.name, ...stateOf(this.access.layout), q: unflatten(cell, this.access.layout.shape).join(","), a: this.access.key, n: "1" }) });
    this.keys = keysOf("Colours of the elements", colorKeys(32));
    this.drawing = h("div", { class: "drawn" }, h("p", { class: "note" }, `Elements of the buffer that the access touches, the others faded; a colour is a bank${sayShades(32)}.`), this.keys, this.grid.node);
    this.drawing.hidden = true;
    this.node = h("section", { class: "picture", "aria-label": "Picture of the access" }, h("h2", {}, "Picture"), this.said, h("div", { class: "maps" }, this.map, this.drawing));
  }

  show(access) {
    if (access === this.access) return;
    this.access = access;
    this.map.replaceChildren(...(access ? [sideNode({ title: access.layout?.text ?? `${access.buffer} in ${access.space} memory`, ...drawAccess(access) })] : []));
    this.drawing.hidden = !access?.layout;
    if (access) this.said.textContent = access.label;
    if (!access?.layout) return;
    this.paint(access.layout);
    const { cells } = elementsOf(access, bitsOf(access.layout.dtype));
    const all = cells.flatMap((own, lane) => own.map((cell) => [cell, String(lane)]));
    this.grid.mark([{ cells: all.map(([cell]) => cell), texts: all.map(([, text]) => text), kind: "access" }]);
    if (all.length) this.grid.reveal(all[0][0]);
  }

  /** The buffer, coloured by banks; drawn anew only where it is another one, or another theme. */
  paint(preset, isNew = preset !== this.painted) {
    if (!isNew) return;
    this.painted = preset;
    const { layout, shape } = takeShape(parseLayout(preset.text), preset.shape);
    const { axes, count: many } = placeAll(layout, shape);
    const [address, bits, color, columns] = [axes.m ?? axes.offset, bitsOf(preset.dtype), colorScale(32), shape.at(-1)];
    this.grid.show({
      rows: many / columns, columns, longest: 0, color: (e) => color(sharedPlace(address[e], bits).bank), text: () => "", columnText: String,
      rowText: (r) => unflatten(r, shape.slice(0, -1)).join(","),
      describe: (e) => `element ${unflatten(e, shape).join(", ")} of ${preset.name}: bank ${sharedPlace(address[e], bits).bank}`,
    });
  }

  repaint() {
    if (this.painted) this.paint(this.painted, true);
  }
}

/** A text line by line, those of an op marked; spans are address expressions. */
function listing(name, texts, opsOf, spans = []) {
  const nodes = [];
  const rows = texts.map((text, n) => {
    const own = spans.filter((span) => span.line === n).sort((a, b) => a.start - b.start || b.end - a.end);
    const parts = [];
    let at = 0;
    for (const span of own) {
      if (span.start < at) { // the same expression of another op
        const same = nodes.find((one) => one.line === n && one.start === span.start);
        if (same) nodes.push({ ...span, node: same.node });
        continue;
      }
      const node = h("span", { "data-buffer": span.buffer }, text.slice(span.start, span.end));
      parts.push(text.slice(at, span.start), node);
      nodes.push({ ...span, node });
      at = span.end;
    }
    parts.push(text.slice(at));
    return h("span", { class: `line${opsOf(n).length ? " linked" : ""}`, "data-line": String(n) }, h("span", { class: "number", "aria-hidden": "true" }, String(n + 1)), h("span", { class: "text" }, parts), "\n");
  });
  return { pre: h("pre", { class: "listing", tabindex: "0", role: "group", "aria-label": name }, rows), rows, spans: nodes, opsOf };
}

function reveal(pre, row) {
  if (row) requestAnimationFrame(() => pre.scrollTo({ top: row.offsetTop - pre.clientHeight / 3 })); // once it is laid out
}
