/** The text of layouts: tilegen's notation, CuTe's, and Gluon's constructors; what tilegen.layouts.parse reads. */
import { isCute, parseCute } from "./cute.js";
import { LayoutError, located } from "./errors.js";
import { blocked, makeLinear, makePadded, nvmmaShared, padIdentity, swizzledShared } from "./gluon.js";
import { AXES, makeSwizzle, makeTile, rowMajor } from "./layouts.js";
import { count } from "./spelling.js";

const WORD = /(?<int>\d+)|(?<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(?<text>'[^']*'|"[^"]*")|(?<symbol>\/\/|[\][():,+*%@=-])/y;
const LIMIT = 2 ** 31;
const WORDS = { True: true, False: false, None: null, null: null };
const MOST_DEPTH = 32;

/** What takes any shape, as in a spec. */
const PLAIN = {
  row: (shape) => makeTile(rowMajor(shape), [], {}, null, shape),
  col: (shape) => makeTile(rowMajor([...shape].reverse()).reverse(), [], {}, null, shape),
};

/** name -> [arguments in order, how many are needed, build]. */
const CALLS = {
  PaddedSharedLayout: [["interval_padding_pairs", "offset_bases", "cga_layout", "shape"], 4, makePadded],
  "PaddedSharedLayout.with_identity_for": [["interval_padding_pairs", "shape", "order", "cga_layout"], 3, padIdentity],
  BlockedLayout: [["size_per_thread", "threads_per_warp", "warps_per_cta", "order", "cga_layout"], 4, blocked],
  SwizzledSharedLayout: [["vec", "per_phase", "max_phase", "order", "cga_layout"], 4, swizzledShared],
  NVMMASharedLayout: [["swizzle_byte_width", "element_bitwidth", "rank", "transposed", "fp4_padded", "cga_layout"], 2, nvmmaShared],
};
const SWIZZLE = [["per_element", "swizzle_len", "atom_len", "inner"], 3, makeSwizzle];
const ONLY_PYTHON = [
  "mma_fragment", "tiled_mma", "ldmatrix_fragment", "stmatrix_fragment", "wgmma_accumulator", "wgmma_operand_a",
  "tmem_datapath_layout", "tcgen05_atom_layout", "wg_local_layout", "swizzle_atom", "mma_shared_layout", "row_major",
  "column_major", "NVMMADistributedLayout", "DotOperandLayout", "SliceLayout", "DistributedLinearLayout", "SharedLinearLayout",
];

/** The layout that a text describes, a value of layouts.js. Throws LayoutError with the place in the text. */
export function parseLayout(text) {
  if (text.length > 4096) throw new LayoutError("a layout has at most 4096 characters", [0, text.length]);
  if (text.trim() in PLAIN) return { kind: "family", name: `'${text.trim()}'`, build: PLAIN[text.trim()] };
  return isCute(text) ? parseCute(text) : new Parser(text).read();
}

function splitWords(text) {
  const words = [];
  let at = text.length - text.trimStart().length;
  while (at < text.length) {
    WORD.lastIndex = at;
    const found = WORD.exec(text);
    if (!found) throw new LayoutError(`'${text[at]}' has no meaning in a layout`, [at, at + 1]);
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    words.push({ kind, text: found[0], start: at, end: WORD.lastIndex });
    at = WORD.lastIndex;
    at += text.slice(at).length - text.slice(at).trimStart().length;
  }
  return [...words, { kind: "end", text: "", start: text.length, end: text.length }];
}

class Parser {
  constructor(text) {
    this.words = splitWords(text);
    this.at = 0;
    this.depth = 0;
  }

  get word() {
    return this.words[this.at];
  }

  advance() {
    const word = this.word;
    this.at = Math.min(this.at + 1, this.words.length - 1);
    return word;
  }

  accept(text) {
    if (!["symbol", "name"].includes(this.word.kind) || this.word.text !== text) return false;
    this.advance();
    return true;
  }

  expect(text) {
    if (!this.accept(text)) throw this.refuse(`expected '${text}', found ${this.found()}`);
  }

  found() {
    return this.word.kind === "end" ? "the end" : `'${this.word.text}'`;
  }

  refuse(message, hint = "") {
    return new LayoutError(message, [this.word.start, Math.max(this.word.end, this.word.start + 1)], hint);
  }

  from(start) {
    return () => [start, this.words[Math.max(0, this.at - 1)].end];
  }

  read() {
    const layout = this.layout();
    if (this.word.kind !== "end") throw this.refuse(`unexpected ${this.found()} after the layout`);
    return layout;
  }

  layout() {
    const { text, start, kind } = this.word;
    if (kind === "name") {
      if (text === "S") return this.tile();
      if (text === "Swizzle" || text === "SwizzleLayout") return this.swizzled();
      if (text === "Compose" || text === "ComposeLayout") return this.composed();
      if (text === "LinearLayout") return this.linear();
      if (CALLS[text]) {
        this.advance();
        return located(this.from(start), () => this.call(text, CALLS[text]));
      }
      if (ONLY_PYTHON.includes(text)) {
        throw this.refuse(`${text}: the page reads S[...], swizzles, CuTe's and Gluon's shared, blocked and linear layouts`,
          "`tilegen view \"...\"` writes a page of any other");
      }
    }
    throw this.refuse(`expected a layout, found ${this.found()}`, "a layout starts with S[...], Swizzle(...), (shape):(stride) or a constructor");
  }

  tile(swizzle = null) {
    const start = this.word.start;
    const shard = this.iters("S");
    const replica = [];
    const offset = {};
    while (this.accept("+")) {
      if (this.word.text === "R") {
        replica.push(...this.iters("R"));
      } else {
        const value = this.term();
        const axis = this.axis();
        if (value < 0) throw new LayoutError(`an offset is at least 0, not ${value}`, this.from(start)());
        offset[axis] = (offset[axis] ?? 0) + value;
      }
    }
    return located(this.from(start), () => makeTile(shard, replica, offset, swizzle));
  }

  iters(letter) {
    const start = this.word.start;
    this.expect(letter);
    this.expect("[");
    const shape = this.items(() => this.expression());
    const strides = this.accept(":") ? this.items(() => ({ stride: this.expression(), axis: this.axis() })) : null;
    this.expect("]");
    shape.forEach((n) => {
      if (n < 1) throw new LayoutError(`an extent is at least 1, not ${n}`, this.from(start)());
    });
    if (!strides) return rowMajor(shape);
    if (strides.length !== shape.length) {
      throw new LayoutError(`${count(shape.length, "extent")} but ${count(strides.length, "stride")}`, this.from(start)());
    }
    return shape.map((extent, k) => {
      if (strides[k].stride < 0) throw new LayoutError(`a stride is at least 0, not ${strides[k].stride}`, this.from(start)());
      return { extent, ...strides[k] };
    });
  }

  axis() {
    if (!this.accept("@")) return "m";
    const word = this.word;
    if (word.kind !== "name") throw this.refuse(`expected an axis after '@', found ${this.found()}`);
    this.advance();
    if (!AXES.includes(word.text)) {
      throw new LayoutError(`there is no axis '${word.text}'`, [word.start, word.end], `axes are ${AXES.join(" ")}`);
    }
    return word.text;
  }

  items(read) {
    if (!this.opensList()) return [read()];
    this.expect("(");
    const items = [read()];
    while (this.accept(",")) {
      if (this.word.text === ")") break;
      if (items.length === 64) throw this.refuse("a layout has at most 64 iters");
      items.push(read());
    }
    this.expect(")");
    return items;
  }

  opensList() {
    let depth = 0;
    for (let at = this.at; at < this.words.length; at += 1) {
      const { text } = this.words[at];
      depth += text === "(" ? 1 : text === ")" ? -1 : 0;
      if (depth === 0) return at > this.at && [":", "]"].includes(this.words[at + 1].text);
      if (depth === 1 && text === ",") return true;
    }
    return false;
  }

  swizzle() {
    const start = this.word.start;
    if (!this.accept("SwizzleLayout")) this.expect("Swizzle");
    return located(this.from(start), () => this.call("Swizzle", SWIZZLE));
  }

  swizzled() {
    const swizzle = this.swizzle();
    return this.accept("o") ? this.under(swizzle) : { kind: "swizzle", swizzle };
  }

  composed() {
    this.advance();
    this.expect("(");
    const swizzle = this.swizzle();
    this.expect(",");
    const layout = this.under(swizzle);
    this.expect(")");
    return layout;
  }

  under(swizzle) {
    if (this.word.text !== "S") throw this.refuse(`a swizzle composes with a tile layout S[...], found ${this.found()}`);
    return this.tile(swizzle);
  }

  linear() {
    const start = this.advance().start;
    const { values, options } = this.arguments();
    if (values.length) throw new LayoutError("LinearLayout takes its bases by name", this.from(start)());
    const { shape = null, outs: _, ...inputs } = options;
    return located(this.from(start), () => makeLinear(inputs, shape));
  }

  call(name, [names, needed, build]) {
    const { values, options } = this.arguments(names);
    if (values.length > names.length) throw new LayoutError(`${name} takes at most ${count(names.length, "argument")}`);
    const given = names.map((key, k) => {
      if (k < values.length && key in options) throw new LayoutError(`${name}: ${key} stands there twice`);
      return k < values.length ? values[k] : options[key];
    });
    const missing = names.slice(0, needed).filter((_, k) => given[k] === undefined);
    if (missing.length) throw new LayoutError(`${name} needs ${missing.join(", ")}`);
    const listed = (key) => /bases|layout|pairs|shape|order|size_per|_per_warp|_per_cta/.test(key);
    given.forEach((value, k) => {
      const key = names[k];
      if (value === undefined || (key === "cga_layout" && value === null)) return;
      if (listed(key) !== Array.isArray(value)) throw new LayoutError(`${name}: ${key} is ${listed(key) ? "a list" : "one value"}`);
    });
    return build(...given.map((value, k) => (names[k] === "cga_layout" ? value ?? [] : value)));
  }

  arguments(allowed = null) {
    this.expect("(");
    const values = [];
    const options = {};
    while (this.word.text !== ")" || this.word.kind !== "symbol") {
      if (this.word.kind === "name" && this.words[this.at + 1].text === "=") {
        if ((allowed && !allowed.includes(this.word.text)) || this.word.text in options) {
          throw this.refuse(`no argument ${this.found()}`, allowed ? `arguments are ${allowed.join(", ")}` : "each argument once");
        }
        const key = this.advance().text;
        this.expect("=");
        options[key] = this.argument();
      } else if (Object.keys(options).length) {
        throw this.refuse("a positional argument after a named one");
      } else {
        values.push(this.argument());
      }
      if (!this.accept(",")) break;
    }
    this.expect(")");
    return { values, options };
  }

  argument() {
    if (this.word.kind === "text") return this.advance().text.slice(1, -1);
    if (this.word.kind === "name" && this.word.text in WORDS) return WORDS[this.advance().text];
    if (this.word.text === "[") return this.nested(() => this.list("[", "]"));
    if (this.word.text === "(" && this.isTuple()) return this.nested(() => this.list("(", ")"));
    return this.expression();
  }

  /** Whether the parenthesis here has a comma of its own. */
  isTuple() {
    let depth = 0;
    for (let at = this.at; at < this.words.length; at += 1) {
      const { text } = this.words[at];
      depth += "([".includes(text) && text ? 1 : ")]".includes(text) && text ? -1 : 0;
      if (depth === 0) return false;
      if (depth === 1 && text === ",") return true;
    }
    return false;
  }

  list(open, close) {
    const items = [];
    this.expect(open);
    while (this.word.text !== close) {
      if (items.length === 64) throw this.refuse("a list has at most 64 entries");
      items.push(this.argument());
      if (!this.accept(",")) break;
    }
    this.expect(close);
    return items;
  }

  expression() {
    let value = this.term();
    while (this.word.kind === "symbol" && ["+", "-"].includes(this.word.text)) {
      const sign = this.advance().text === "+" ? 1 : -1;
      value = this.small(value + sign * this.term());
    }
    return value;
  }

  term() {
    let value = this.factor();
    while (this.word.kind === "symbol" && ["*", "//", "%"].includes(this.word.text)) {
      const operator = this.advance();
      const other = this.factor();
      if (operator.text !== "*" && other === 0) throw new LayoutError("0 may be zero", [operator.start, operator.end]);
      if (operator.text === "*") value = this.small(value * other);
      else if (operator.text === "//") value = Math.floor(value / other);
      else value -= Math.floor(value / other) * other;
    }
    return value;
  }

  factor() {
    const word = this.word;
    if (word.kind === "int") {
      this.advance();
      return this.small(Number(word.text), word);
    }
    if (word.kind === "name") throw this.refuse(`'${word.text}' is not defined`, "names are none here");
    if (word.text === "-" && word.kind === "symbol") {
      this.advance();
      return -this.nested(() => this.factor());
    }
    if (word.text === "(" && word.kind === "symbol") {
      this.advance();
      const value = this.nested(() => this.expression());
      this.expect(")");
      return value;
    }
    throw this.refuse(`expected a number or a name, found ${this.found()}`);
  }

  nested(read) {
    this.depth += 1;
    if (this.depth > MOST_DEPTH) throw this.refuse("parentheses nest too deeply");
    const value = read();
    this.depth -= 1;
    return value;
  }

  small(value, word = this.words[Math.max(0, this.at - 1)]) {
    if (Math.abs(value) >= LIMIT) throw new LayoutError("the page counts below 2 ** 31", [word.start, word.end]);
    return value;
  }
}
