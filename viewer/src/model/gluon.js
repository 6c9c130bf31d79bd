/** Gluon's layouts by their own arguments, as bases: the rules of tilegen/layouts/gluon. */
import { LayoutError } from "./errors.js";
import { flatten, isPower, product, unflatten } from "./layouts.js";

const bitsOf = (n, what = "an extent") => {
  if (!isPower(n)) throw new LayoutError(`${what} is a power of two, not ${n}`);
  return Math.log2(n);
};

/** A LinearLayout: inputs {name: [[...]]}, over the smallest shape that holds all bases where none is given. */
export function makeLinear(inputs, shape = null) {
  const every = Object.values(inputs).flat();
  const rank = every.length ? every[0].length : (shape ?? []).length;
  for (const basis of every) {
    if (!Array.isArray(basis) || basis.length !== rank) throw new LayoutError("bases have one number for each dimension");
  }
  const extents = shape ?? Array.from({ length: rank }, (_, d) => {
    const top = Math.max(0, ...every.map((basis) => basis[d]));
    return top ? 2 ** (32 - Math.clz32(top)) : 1;
  });
  if (extents.length !== rank && every.length) throw new LayoutError(`bases of ${count(rank, "number")} for a shape of ${count(extents.length, "dimension")}`);
  extents.forEach((n) => bitsOf(n, "an extent of the shape"));
  for (const basis of every) {
    basis.forEach((x, d) => {
      if (!(x >= 0 && x < extents[d])) throw new LayoutError(`basis [${basis.join(", ")}] lies outside of the shape ${extents.join(" x ")}`);
    });
  }
  const columns = Object.entries(inputs).map(([name, bases]) => ({ name, columns: bases.map((basis) => flatten(basis, extents)) }));
  return { kind: "bases", inputs: columns, shape: extents, pads: null };
}

/** PaddedSharedLayout(pairs, offset_bases, cga_layout, shape). */
export function makePadded(pairs, bases, ctas, shape) {
  if (!pairs.length) throw new LayoutError("interval_padding_pairs is empty: a padded layout has at least one [interval, padding] pair");
  const seen = new Set();
  for (const [interval, padding] of pairs) {
    bitsOf(interval, "an interval");
    bitsOf(padding, "a padding");
    if (seen.has(interval)) throw new LayoutError(`the interval ${interval} stands there twice`);
    seen.add(interval);
  }
  shape.forEach((n) => bitsOf(n, "an extent of the shape"));
  const steps = shape.map(() => []);
  const tiles = shape.map(() => []);
  const read = (rows, found, may) => rows.forEach((basis) => {
    const moved = basis.map((x, d) => [x, d]).filter(([x]) => x);
    if (basis.length !== shape.length || moved.length > 1 || (!moved.length && !may)) {
      throw new LayoutError(`basis [${basis.join(", ")}]: a basis moves one dimension of ${shape.length}`);
    }
    moved.forEach(([x, d]) => found[d].push(x));
  });
  read(bases, steps, false);
  read(ctas, tiles, true);
  shape.forEach((n, d) => {
    for (const found of [steps[d], tiles[d]]) {
      if ([...found].sort((a, b) => a - b).some((x, k) => x !== 2 ** k)) throw new LayoutError(`dimension ${d} is not moved by 1, 2, 4, ... each once`);
    }
    const has = 2 ** (steps[d].length + tiles[d].length);
    if (has !== n) throw new LayoutError(`offset_bases span ${count(has, "element")} of dimension ${d}, but shape says ${n}`);
  });
  const part = shape.map((n, d) => n / 2 ** tiles[d].length);
  const inputs = [{ name: "m", columns: bases.map((basis) => flatten(basis, shape)) }];
  if (ctas.length) inputs.push({ name: "cbx", columns: ctas.map((basis) => flatten(basis.map((x, d) => x * part[d]), shape)) });
  const held = 2 ** bases.length;
  const pads = pairs.map(([interval, padding]) => ({ interval, padding })).filter((pad) => pad.interval < held);
  return { kind: "bases", inputs, shape, pads };
}

export function padIdentity(pairs, shape, order, ctas = []) {
  shape.forEach((n) => bitsOf(n, "an extent of the shape"));
  requireOrder(order, shape.length);
  const part = shape.map((n, d) => n / 2 ** ctas.filter((basis) => basis[d]).length);
  const bases = order.flatMap((d) => Array.from({ length: bitsOf(part[d]) }, (_, bit) => shape.map((_, e) => (e === d ? 2 ** bit : 0))));
  return makePadded(pairs, bases, ctas, shape);
}

function requireOrder(order, rank) {
  if ([...order].sort((a, b) => a - b).some((d, k) => d !== k) || order.length !== rank) {
    throw new LayoutError(`order is [${order.join(", ")}]: it names each of the ${rank} dimensions once, the fastest first`);
  }
}

// ---------------------------------------------------------------- families: bases once the shape is known
class Growing {
  constructor(rank, names) {
    this.bases = Object.fromEntries(names.map((name) => [name, []]));
    this.sizes = Array(rank).fill(1);
  }

  grow(name, extents, order) {
    for (const d of order) {
      for (let bit = 0; bit < bitsOf(extents[d]); bit += 1) {
        this.bases[name].push(this.sizes.map((reached, e) => (e === d ? reached : 0)));
        this.sizes[d] *= 2;
      }
    }
    return this;
  }

  growTo(name, shape, order) {
    return this.grow(name, shape.map((n, d) => Math.max(1, Math.floor(n / this.sizes[d]))), order);
  }
}

const cut = (basis, shape) => basis.map((x, d) => (x < shape[d] ? x : 0));

function partOf(shape, ctas) {
  return shape.map((n, d) => {
    const most = Math.max(0, ...ctas.map((basis) => basis[d]));
    return n / Math.min(most ? 2 ** (32 - Math.clz32(most)) : 1, n);
  });
}

function combine(tile, ctas, shape, order, drop) {
  const repeating = Object.keys(tile.bases)[0];
  const part = partOf(shape, ctas);
  const sizes = shape.map((n, d) => n / part[d]);
  tile.growTo(repeating, part, order);
  const bases = Object.fromEntries(Object.entries(tile.bases).map(([name, found]) => [name, found.map((b) => cut(b, part))]));
  if (drop) bases[repeating] = bases[repeating].filter((after, k) => after.some(Boolean) || !tile.bases[repeating][k].some(Boolean));
  bases.block = ctas.map((basis) => cut(basis, sizes).map((x, d) => x * part[d]));
  return makeLinear(bases, shape);
}

function makeFamily(name, rank, build) {
  return {
    kind: "family", name,
    build(shape) {
      if (shape.length !== rank) throw new LayoutError(`${name} has rank ${rank}, shape ${shape.join(" x ")} has ${count(shape.length, "dimension")}`);
      shape.forEach((n) => bitsOf(n, "an extent of the shape"));
      return build(shape);
    },
  };
}

export function blocked(perThread, threads, warps, order, ctas = []) {
  requireOrder(order, order.length);
  for (const row of [perThread, threads, warps]) {
    if (row.length !== order.length) throw new LayoutError("lists of different lengths");
    row.forEach((n) => bitsOf(n));
  }
  return makeFamily("BlockedLayout", order.length, (shape) => {
    const tile = new Growing(order.length, ["register", "lane", "warp"]);
    tile.grow("register", perThread, order).grow("lane", threads, order).grow("warp", warps, order);
    return combine(tile, ctas, shape, order, true);
  });
}

export function swizzledShared(vec, perPhase, maxPhase, order, ctas = []) {
  requireOrder(order, order.length);
  [vec, perPhase, maxPhase].forEach((n) => bitsOf(n, "vec, per_phase or max_phase"));
  return makeFamily("SwizzledSharedLayout", order.length, (shape) => {
    const linear = combine(new Growing(order.length, ["offset"]), ctas, shape, order, false);
    if (order.length === 1) return linear;
    const [column, row] = order;
    const offset = linear.inputs[0].columns.map((flat) => unflatten(flat, shape));
    const columns = Math.max(0, ...offset.map((basis) => basis[column])) * 2 || 1;
    for (const basis of offset) basis[column] ^= (vec * (Math.floor(basis[row] / perPhase) % maxPhase)) % columns;
    return makeLinear({ offset, block: linear.inputs[1].columns.map((flat) => unflatten(flat, shape)) }, shape);
  });
}

export function nvmmaShared(width, bits, rank = 2, transposed = false, fp4 = false, ctas = []) {
  if (![0, 32, 64, 128].includes(width) || ![8, 16, 32, 64].includes(bits)) {
    throw new LayoutError("swizzle_byte_width is 0, 32, 64 or 128, element_bitwidth 8, 16, 32 or 64");
  }
  if (fp4) throw new LayoutError("the page does not draw fp4_padded; `tilegen layout` does");
  return makeFamily("NVMMASharedLayout", rank, (shape) => {
    const part = partOf(shape, ctas);
    const box = part.map((n) => Math.min(n, 256));
    if (!width) {
      const order = Array.from({ length: rank }, (_, k) => rank - 1 - k);
      const rotated = transposed ? [0, ...order.slice(0, -1)] : order;
      return combine(new Growing(rank, ["offset"]).grow("offset", box, rotated), ctas, shape, order, false);
    }
    const contiguous = transposed ? 0 : rank - 1;
    const wide = (8 * width) / bits;
    if (rank < 2 || part[contiguous] < wide) throw new LayoutError(`NVMMASharedLayout needs ${wide} elements along dimension ${contiguous}, not ${part[contiguous]}`);
    box[contiguous] = wide;
    const rows = product(transposed ? box.slice(1) : box.slice(0, -1));
    if (rows < 8) throw new LayoutError(`NVMMASharedLayout needs 8 rows, not ${rows}`);
    const atom = new Growing(2, ["offset"]).grow("offset", { 1: wide, 0: 8 }, [1, 0]);
    for (const basis of atom.bases.offset) basis[1] ^= (128 / bits) * (Math.floor(basis[0] / (128 / width)) % (width / 16));
    atom.growTo("offset", [rows, wide], [0, 1]);
    const unfold = (flat) => {
      if (!transposed) return unflatten(flat, box);
      const rotated = unflatten(flat, [...box.slice(1), box[0]]);
      return [rotated.at(-1), ...rotated.slice(0, -1)];
    };
    const tile = new Growing(rank, ["offset"]);
    tile.sizes = box;
    tile.bases.offset = atom.bases.offset.map((basis) => unfold(flatten(basis, [rows, wide])));
    return combine(tile, ctas, shape, Array.from({ length: rank }, (_, d) => d), false);
  });
}
