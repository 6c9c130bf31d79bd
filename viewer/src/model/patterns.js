/** The accesses of a warp that reads a tile in shared memory by its columns, rows or matrices: as drawing/banking.py. */
import { LayoutError } from "./errors.js";
import { LANES, countAccess } from "./access.js";
import { addressAxis, isShared, product } from "./layouts.js";

export const PATTERNS = ["row", "column", "ldmatrix1", "ldmatrix2", "ldmatrix4"];
const ROW_BYTES = 16;

/** The first byte of every element, in rows: {rows, columns, at: Float64Array}. */
export function bytesOf(places, shape, bits) {
  if (!isShared(places)) {
    throw new LayoutError(`banks are of shared memory, addresses on axis m alone; this layout places on ${Object.keys(places.axes).join(", ")}`);
  }
  const address = places.axes[addressAxis(places)];
  const columns = shape[shape.length - 1];
  const at = new Float64Array(places.count);
  for (let e = 0; e < places.count; e += 1) at[e] = Math.floor((address[e] * bits) / 8);
  return { rows: product(shape) / columns, columns, at };
}

/** [{label, kind, width, offsets, elements}] for a pattern over the tile; ``elements[lane]`` is what a lane reads. */
export function accessesOf(bytes, bits, pattern) {
  return pattern.startsWith("ldmatrix") ? matrices(bytes, bits, pattern) : lines(bytes, bits, pattern);
}

function lines({ rows, columns, at }, bits, pattern) {
  if (bits % 8) throw new LayoutError(`a lane reads whole bytes, not elements of ${bits} bits`);
  const down = pattern === "column";
  const [many, length] = down ? [columns, rows] : [rows, columns];
  const found = [];
  for (let line = 0; line < many; line += 1) {
    for (let first = 0; first < length; first += LANES) {
      const [elements, offsets] = [new Array(LANES).fill(-1), new Array(LANES).fill(-1)];
      for (let lane = 0; lane < LANES && first + lane < length; lane += 1) {
        const along = first + lane;
        elements[lane] = down ? along * columns + line : line * columns + along;
        offsets[lane] = at[elements[lane]];
      }
      const last = Math.min(first + LANES, length) - 1;
      found.push({ label: `${pattern} ${line}, ${down ? "rows" : "columns"} ${first} to ${last}`, kind: "ld", width: bits / 8, offsets, elements });
    }
  }
  return found;
}

function matrices({ rows, columns, at }, bits, pattern) {
  const elems = (8 * ROW_BYTES) / bits;
  if (rows % 8 || columns % elems) {
    throw new LayoutError(`ldmatrix reads 8 x ${elems} elements of ${bits} bits; they do not divide ${rows} x ${columns}`);
  }
  for (let e = 0; e < at.length; e += elems) {
    const together = at[e] % ROW_BYTES === 0 &&
      Array.from({ length: elems }, (_, k) => at[e + k] === at[e] + Math.floor((k * bits) / 8)).every(Boolean);
    if (!together) throw new LayoutError(`ldmatrix reads rows of 16 aligned bytes; here not all ${elems} elements of one lie together`);
  }
  const starts = [];
  for (let c = 0; c < columns; c += elems) for (let r = 0; r < rows; r += 8) starts.push([r, c]);
  const n = Number(pattern.at(-1));
  const found = [];
  for (let first = 0; first + n <= starts.length; first += n) {
    const elements = Array.from({ length: LANES }, (_, lane) => {
      if (lane >= 8 * n) return -1;
      const [r, c] = starts[first + (lane >> 3)];
      return (r + (lane & 7)) * columns + c;
    });
    const [r, c] = starts[first];
    found.push({
      label: `.x${n} from row ${r}, column ${c}`, kind: pattern, width: ROW_BYTES,
      offsets: elements.map((e) => (e < 0 ? -1 : at[e])), elements, span: elems,
    });
  }
  return found;
}

/** {count, least, most, sum, floor} over all accesses of a pattern; ``least`` is null where there are none. */
export function sumUp(accesses) {
  const total = { count: accesses.length, least: Infinity, most: 0, sum: 0, floor: 0 };
  for (const { kind, width, offsets } of accesses) {
    const { wavefronts, phases } = countAccess(kind, width, offsets);
    total.least = Math.min(total.least, wavefronts);
    total.most = Math.max(total.most, wavefronts);
    total.sum += wavefronts;
    total.floor += phases;
  }
  return accesses.length ? total : { ...total, least: null };
}
