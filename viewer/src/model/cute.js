/** CuTe's text: shape:stride, Sw<B,M,S> and both; coordinates are kept, each mode counts its first leaf fastest. */
import { LayoutError, located } from "./errors.js";
import { makeSwizzle, makeTile, product } from "./layouts.js";

const TOKEN = /\s*(?:(?<int>-?_?\d+)|(?<word>[A-Za-z]+)|(?<symbol>[():,<>]))/y;
const MOST_DEPTH = 32;

export const isCute = (text) => /^\s*(?:Sw(?:izzle)?<|[(_0-9])/.test(text);

export function parseCute(text) {
  const parser = new Parser(text);
  const layout = parser.accept("Sw") || parser.accept("Swizzle") ? parser.swizzled() : parser.tileOf(parser.layout(), 0);
  if (parser.token.kind !== "end") throw parser.refuse("the end");
  return layout;
}

class Parser {
  constructor(text) {
    this.at = 0;
    this.tokens = [];
    const end = text.trimEnd().length;
    TOKEN.lastIndex = 0;
    let place = 0;
    while (place < end) {
      TOKEN.lastIndex = place;
      const found = TOKEN.exec(text);
      if (!found) {
        const at = place + text.slice(place).length - text.slice(place).trimStart().length;
        throw new LayoutError(`'${text[at]}' has no meaning in a CuTe layout`, [at, at + 1]);
      }
      const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
      place = TOKEN.lastIndex;
      this.tokens.push({ kind, text: found.groups[kind], start: place - found.groups[kind].length, end: place });
    }
    this.tokens.push({ kind: "end", text: "the end", start: end, end: end + 1 });
  }

  get token() {
    return this.tokens[this.at];
  }

  accept(text) {
    if (this.token.kind === "end" || this.token.text !== text) return false;
    this.at += 1;
    return true;
  }

  expect(text) {
    if (!this.accept(text)) throw this.refuse(`'${text}'`);
  }

  refuse(expected) {
    return new LayoutError(`expected ${expected}, found ${this.token.text}`, [this.token.start, this.token.end]);
  }

  swizzled() {
    const start = this.token.start;
    this.expect("<");
    const numbers = [this.integer()];
    while (this.accept(",")) numbers.push(this.integer());
    if (numbers.length !== 3) throw this.refuse("three numbers B,M,S");
    this.expect(">");
    const unit = this.accept("bytes") ? "bytes" : "elements";
    if (unit === "elements") this.accept("elements");
    const span = () => [start, this.tokens[this.at - 1].end];
    const [bits, per, shift] = numbers;
    const swizzle = located(span, () => makeSwizzle(per, bits, Math.abs(shift), shift >= 0));
    let found = { kind: "swizzle", swizzle };
    if (this.accept("o")) {
      let offset = 0;
      if (this.token.kind === "int" && this.tokens[this.at + 1].text === "o") {
        offset = this.integer();
        this.expect("o");
      }
      if (offset < 0) throw new LayoutError(`an offset is at least 0, not ${offset}`, span());
      const tile = this.layout();
      found = this.tileOf(tile, offset, swizzle);
    }
    if (unit === "bytes") {
      throw new LayoutError(`Sw<${numbers.join(",")}> bytes counts bytes, a SwizzleLayout counts elements`, span());
    }
    return found;
  }

  layout() {
    const start = this.token.start;
    const shape = this.tree();
    const stride = this.accept(":") ? this.tree() : null;
    const span = () => [start, this.tokens[this.at - 1].end];
    let step = 1;
    const leaves = (extents, strides) => {
      if (!Array.isArray(extents)) {
        if (Array.isArray(strides)) throw new LayoutError("shape and stride nest differently", span());
        if (extents < 1) throw new LayoutError(`an extent is at least 1, not ${extents}`, span());
        const apart = strides ?? step;
        if (apart < 0) throw new LayoutError(`a stride is at least 0, not ${apart}`, span());
        step *= extents;
        return [{ extent: extents, stride: apart, axis: "m" }];
      }
      if (strides !== null && (!Array.isArray(strides) || strides.length !== extents.length)) {
        throw new LayoutError("shape and stride nest differently", span());
      }
      return extents.flatMap((branch, k) => leaves(branch, strides === null ? null : strides[k]));
    };
    const modes = Array.isArray(shape) ? shape.map((mode, k) => [mode, stride === null ? null : stride[k]]) : [[shape, stride]];
    if (Array.isArray(shape) && stride !== null && (!Array.isArray(stride) || stride.length !== shape.length)) {
      throw new LayoutError("shape and stride nest differently", span());
    }
    return modes.map(([mode, strides]) => leaves(mode, strides));
  }

  tileOf(modes, offset, swizzle = null) {
    const shard = modes.flatMap((mode) => [...mode].reverse());
    const shape = modes.map((mode) => product(mode.map((iter) => iter.extent)));
    return makeTile(shard, [], { m: offset }, swizzle, shape);
  }

  tree(depth = 0) {
    if (!this.accept("(")) return this.integer();
    if (depth === MOST_DEPTH) throw this.refuse(`at most ${MOST_DEPTH} nested parentheses`);
    const branches = [this.tree(depth + 1)];
    while (this.accept(",")) {
      if (this.token.text === ")") break;
      branches.push(this.tree(depth + 1));
    }
    this.expect(")");
    return branches;
  }

  integer() {
    const { kind, text, start, end } = this.token;
    if (kind !== "int") throw this.refuse("an integer");
    this.at += 1;
    const value = Number(text.replace("_", ""));
    if (Math.abs(value) >= 2 ** 31) throw new LayoutError("the page counts below 2 ** 31", [start, end]);
    return value;
  }
}
