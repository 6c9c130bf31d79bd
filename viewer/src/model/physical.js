/** The places that hold elements, as rows and columns: threads and registers, lines and banks, lanes and columns. */
import { addressAxis, isShared } from "./layouts.js";

export const MOST_CELLS = 1 << 20;
const NAMES = {
  laneid: "lane", warpid: "warp", wgid: "warpgroup", tid_in_wg: "thread", tx: "thread", wid_in_wg: "warp", m: "register",
};
export const say = (axis) => NAMES[axis] ?? axis;

/**
 * {title, rows, columns, sayRow, sayColumn, cells, starts, held}: ``cells[i]`` is the first cell of place i (copy r of
 * element e at r * count + e), ``span`` how many neighbours it fills; ``held`` lists places by cell, from starts[cell].
 * null where nothing can be drawn.
 */
export function physicalOf(places, bits) {
  const grid = isShared(places) ? sharedGrid(places, bits) : axesGrid(places);
  if (!grid || grid.rows * grid.columns > MOST_CELLS) return null;
  return { ...grid, ...invert(grid) };
}

function sharedGrid(places, bits) {
  const address = places.axes[addressAxis(places)];
  const cells = address.map((m) => Math.floor((m * bits) / 32));
  const span = Math.max(1, bits / 32);
  const last = cells.reduce((a, b) => Math.max(a, b), 0) + span - 1;
  return {
    title: "Shared memory", rows: Math.floor(last / 32) + 1, columns: 32, cells, span, kind: "shared",
    rowName: "line", columnName: "bank", sayRow: (r) => `line ${r}`, sayColumn: (c) => `bank ${c}`,
    shortRow: String, shortColumn: String,
  };
}

function axesGrid(places) {
  const moving = Object.keys(places.axes).filter((name) => places.axes[name].some((x) => x !== places.axes[name][0]));
  const names = moving.length ? moving : Object.keys(places.axes).slice(-1);
  if (!names.length) return null;
  const inner = ["m", "register", "offset", "TCol", "F"].find((name) => names.includes(name));
  const column = inner && names.length > 1 ? inner : names.length > 1 ? names.at(-1) : inner;
  const outer = names.filter((name) => name !== column);
  const size = places.count * places.copies;
  const keys = new Float64Array(size);
  for (const name of outer) {
    const values = places.axes[name];
    const extent = values.reduce((a, b) => Math.max(a, b), 0) + 1;
    for (let i = 0; i < size; i += 1) keys[i] = keys[i] * extent + values[i];
  }
  const rowOf = new Map([...new Set(keys)].sort((a, b) => a - b).map((key, row) => [key, row]));
  const across = column ? places.axes[column] : new Int32Array(size);
  const columns = across.reduce((a, b) => Math.max(a, b), 0) + 1;
  if (rowOf.size * columns > MOST_CELLS) return null;
  const first = new Int32Array(rowOf.size);
  const cells = new Int32Array(size);
  for (let i = 0; i < size; i += 1) {
    const row = rowOf.get(keys[i]);
    first[row] = i;
    cells[i] = row * columns + across[i];
  }
  const owner = (r) => outer.map((name) => `${say(name)} ${places.axes[name][first[r]]}`).join(", ");
  const short = (r) => outer.map((name) => places.axes[name][first[r]]).join(":");
  const isTensor = names.includes("TLane") || names.includes("TCol");
  return {
    title: isTensor ? "Tensor memory" : "Threads and registers", rows: rowOf.size, columns, cells, span: 1,
    kind: isTensor ? "tensor" : "axes", rowName: outer.map(say).join(":") || "row", columnName: column ? say(column) : "place",
    sayRow: outer.length ? owner : () => "row 0", sayColumn: (c) => `${column ? say(column) : "place"} ${c}`,
    shortRow: outer.length ? short : () => "0", shortColumn: String,
  };
}

function invert({ rows, columns, cells, span }) {
  const starts = new Int32Array(rows * columns + 1);
  for (const cell of cells) for (let k = 0; k < span; k += 1) starts[cell + k + 1] += 1;
  for (let k = 1; k < starts.length; k += 1) starts[k] += starts[k - 1];
  const at = starts.slice();
  const held = new Int32Array(starts.at(-1));
  cells.forEach((cell, i) => {
    for (let k = 0; k < span; k += 1) {
      held[at[cell + k]] = i;
      at[cell + k] += 1;
    }
  });
  return { starts, held };
}

/** The places (see physicalOf) that a cell holds. */
export const heldBy = (grid, cell) => Array.from(grid.held.subarray(grid.starts[cell], grid.starts[cell + 1]));
