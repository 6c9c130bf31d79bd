/**
 * Where every element lies: the rules of tilegen/layouts, over plain values.
 *
 *   tile    {kind, shard: [Iter], replica: [Iter], offset: {axis: n}, swizzle: Swizzle | null, shape: [n] | null}
 *   swizzle {kind, swizzle}: acts on the row-major address of any shape
 *   bases   {kind, inputs: [{name, columns}], shape, pads}: element = XOR of the columns at the ones of each place
 *   family  {kind, name, build}: bases once the shape is known
 *
 * An Iter is {extent, stride, axis}, a Swizzle {per, bits, apart, inner}, a pad {interval, padding}. Numbers are exact
 * below 2 ** 31; what goes beyond is refused.
 */
import { LayoutError } from "./errors.js";
import { count } from "./spelling.js";

export const AXES = [
  "bx", "by", "bz", "cbx", "cby", "cbz", "tx", "warpid", "laneid", "wgid", "tid_in_wg", "wid_in_wg",
  "m", "P", "F", "Bank", "TLane", "TCol",
];
const CTA_AXES = ["bx", "by", "bz", "cbx", "cby", "cbz", "block", "warp"]; // whose memories are not told apart here
export const MEMORY_AXES = ["m", "P", "F", "Bank", "TLane", "TCol", "offset", "register"];
export const MOST_ELEMENTS = 1 << 20;
export const MOST_PLACES = 1 << 22; // elements times copies
const LIMIT = 2 ** 31;

export const product = (numbers) => numbers.reduce((a, b) => a * b, 1);
export const isPower = (n) => Number.isInteger(n) && n > 0 && Number.isInteger(Math.log2(n));

export function makeSwizzle(per, bits, apart, inner = true) {
  for (const n of [per, bits, apart]) {
    if (!Number.isInteger(n) || n < 0) throw new LayoutError("a swizzle takes three numbers of bits, each at least 0");
  }
  if (apart < bits) {
    throw new LayoutError(`atom_len ${apart} is less than swizzle_len ${bits}: the bit groups would overlap`, null,
      `atom_len is at least ${bits}`);
  }
  if (per + bits + apart > 30) throw new LayoutError("the page swizzles addresses of at most 30 bits");
  return { per, bits, apart, inner };
}

/** x ^ (((x >> source) % 2**count) << target). */
export function permute(swizzle, address) {
  const low = swizzle.per;
  const high = swizzle.per + swizzle.apart;
  const [source, target] = swizzle.inner ? [high, low] : [low, high];
  return address ^ (((address >> source) & ((1 << swizzle.bits) - 1)) << target);
}

export const periodOf = (swizzle) => 2 ** (swizzle.per + swizzle.bits + swizzle.apart);

export function rowMajor(extents) {
  let stride = 1;
  return extents.map((_, k) => extents.length - 1 - k).map((k) => {
    const iter = { extent: extents[k], stride, axis: "m" };
    stride *= extents[k];
    return iter;
  }).reverse();
}

export function makeTile(shard, replica = [], offset = {}, swizzle = null, shape = null) {
  if (!shard.length) throw new LayoutError("a TileLayout has at least one shard iter");
  const kept = Object.fromEntries(Object.entries(offset).filter(([, value]) => value));
  const tile = { kind: "tile", shard, replica, offset: kept, swizzle, shape };
  if (swizzle) {
    const other = [...new Set(axesOf(tile))].filter((axis) => axis !== "m").sort();
    if (other.length) {
      throw new LayoutError(`a swizzle permutes addresses on axis m, but the tile also maps to ${other.join(", ")}`);
    }
  }
  return tile;
}

/** The axes of a layout, in the order of the table of axes; of bases in the order of their inputs. */
export function axesOf(layout) {
  if (layout.kind === "swizzle") return ["m"];
  if (layout.kind === "bases") return layout.inputs.map((input) => input.name);
  const named = new Set([...layout.shard, ...layout.replica].map((iter) => iter.axis));
  Object.keys(layout.offset).forEach((axis) => named.add(axis));
  return AXES.filter((axis) => named.has(axis));
}

/** The shape that a layout has by itself, null where it takes any. */
export function ownShape(layout) {
  if (layout.kind === "family") return null;
  if (layout.kind === "swizzle") return [periodOf(layout.swizzle)];
  return layout.shape ?? layout.shard.map((iter) => iter.extent);
}

/** The layout over a shape: {layout: tile or bases, shape}. Throws LayoutError for a shape of another size. */
export function takeShape(layout, wanted) {
  if (layout.kind === "family" && !wanted) {
    throw new LayoutError(`${layout.name} places a tensor of any shape: say which`);
  }
  const own = ownShape(layout);
  const shape = wanted ?? own;
  if (product(shape) > MOST_ELEMENTS) {
    throw new LayoutError(`${shape.join(" x ")} are more than ${MOST_ELEMENTS} elements, too many to look at each`);
  }
  if (layout.kind === "family") return { layout: layout.build(shape), shape };
  if (layout.kind === "swizzle") return { layout: makeTile(rowMajor(shape), [], {}, layout.swizzle), shape };
  if (product(shape) !== product(own)) {
    throw new LayoutError(`shape ${shape.join(" x ")} has ${count(product(shape), "element")}, the layout has ${product(own)}`);
  }
  return { layout, shape };
}

/**
 * Every place of every element: {count, copies, axes: {name: Int32Array}}; copy r of element e stands at r * count + e,
 * elements in row-major order.
 */
export function placeAll(layout, shape) {
  return layout.kind === "bases" ? placeByBases(layout, shape) : placeByIters(layout, shape);
}

function placeByIters(layout, shape) {
  const count = product(shape);
  const copies = product(layout.replica.map((iter) => iter.extent));
  if (count * copies > MOST_PLACES) throw new LayoutError(`${copies} copies of ${count} elements are too many to look at`);
  const axes = {};
  for (const name of axesOf(layout)) {
    const reach = [...layout.shard, ...layout.replica].filter((iter) => iter.axis === name)
      .reduce((sum, iter) => sum + (iter.extent - 1) * iter.stride, layout.offset[name] ?? 0);
    if (reach >= LIMIT) throw new LayoutError(`${name} reaches ${reach}: the page counts below 2 ** 31`);
    axes[name] = new Int32Array(count * copies).fill(layout.offset[name] ?? 0);
  }
  const step = (iters, values, first, repeat) => {
    // component k of position i is (i // below) % extent, the slowest not reduced: inside the range that is the same
    let below = repeat;
    for (let k = iters.length - 1; k >= 0; below *= iters[k].extent, k -= 1) {
      const { extent, stride, axis } = iters[k];
      const target = axes[axis];
      for (let i = 0; i < values; i += 1) target[first + i] += (Math.floor(i / below) % extent) * stride;
    }
  };
  step(layout.shard, count, 0, 1);
  if (copies > 1) {
    for (const values of Object.values(axes)) for (let r = 1; r < copies; r += 1) values.copyWithin(r * count, 0, count);
    step(layout.replica, count * copies, 0, count);
  }
  if (layout.swizzle) {
    const m = axes.m;
    for (let i = 0; i < m.length; i += 1) m[i] = permute(layout.swizzle, m[i]);
  }
  return { count, copies, axes };
}

function placeByBases(layout, shape) {
  const count = product(layout.shape);
  if (count !== product(shape)) throw new LayoutError(`the layout has ${count} elements`);
  const widths = layout.inputs.map((input) => input.columns.length);
  const bits = widths.reduce((a, b) => a + b, 0);
  if (2 ** bits > MOST_PLACES) throw new LayoutError(`2 ** ${bits} places are too many to look at`);
  const columns = layout.inputs.flatMap((input) => input.columns);
  const filled = new Int32Array(count);
  const places = 2 ** bits;
  const elements = new Int32Array(places);
  for (let place = 1; place < places; place += 1) {
    const top = 31 - Math.clz32(place);
    elements[place] = elements[place ^ (1 << top)] ^ columns[top];
  }
  for (const element of elements) filled[element] += 1;
  const copies = places / count >= 1 ? places / count : 1;
  const empty = filled.indexOf(0);
  if (empty >= 0) throw new LayoutError(`element ${unflatten(empty, layout.shape).join(", ")} is held nowhere`);
  filled.fill(0);
  const at = new Int32Array(count * copies);
  elements.forEach((element, place) => {
    at[filled[element] * count + element] = place;
    filled[element] += 1;
  });
  const axes = {};
  let low = 0;
  layout.inputs.forEach((input, k) => {
    const [shift, mask] = [low, (1 << widths[k]) - 1];
    axes[input.name] = at.map((place) => (place >> shift) & mask);
    low += widths[k];
  });
  if (layout.pads) {
    const linear = axes.m;
    axes.m = linear.map((x) => x + layout.pads.reduce((sum, p) => sum + Math.floor(x / p.interval) * p.padding, 0));
  }
  return { count, copies, axes };
}

export function flatten(coords, shape) {
  return coords.reduce((flat, x, d) => flat * shape[d] + x, 0);
}

export function unflatten(flat, shape) {
  const coords = [];
  for (let d = shape.length - 1; d >= 0; d -= 1) {
    coords.unshift(flat % shape[d]);
    flat = Math.floor(flat / shape[d]);
  }
  return coords;
}

/** The axis that counts elements of a memory, or null. */
export const addressAxis = (places) => ["m", "offset"].find((axis) => axis in places.axes) ?? null;

/** Whether the layout is of shared memory: addresses, and nothing but CTAs of a grid or cluster beside them. */
export function isShared(places) {
  const address = addressAxis(places);
  return address !== null && Object.keys(places.axes).every((name) => name === address || CTA_AXES.includes(name));
}

/** Byte, bank and 128-byte line of an address in elements of so many bits. */
export function sharedPlace(address, bits) {
  const byte = Math.floor((address * bits) / 8);
  return { byte, bank: Math.floor(byte / 4) % 32, line: Math.floor(byte / 128) };
}

/** Every copy of one element: [{axis: position}]. */
export function copiesOf(places, element) {
  return Array.from({ length: places.copies }, (_, r) => Object.fromEntries(
    Object.entries(places.axes).map(([axis, values]) => [axis, values[r * places.count + element]])));
}
