/** Tensor memory of a kernel: which element of which buffer each cell of lanes and columns holds. */
import { placeAll, product, takeShape, unflatten } from "./layouts.js";
import { parseLayout } from "./notation.js";

/** {owner, element}: of each cell the buffer, by its number from 0, and its first element there; -1 where nothing lies. */
export function fillCells({ lanes, columns, buffers }) {
  const [owner, element] = [new Int16Array(lanes * columns).fill(-1), new Int32Array(lanes * columns).fill(-1)];
  [...buffers.keys()].reverse().forEach((k) => { // the first of two buffers on the same cells has them
    const { text, shape, packed, first_column: first } = buffers[k];
    const { layout, shape: taken } = takeShape(parseLayout(text), shape);
    const { axes, count, copies } = placeAll(layout, taken);
    for (let i = count * copies - 1; i >= 0; i -= 1) {
      const cell = (axes.TLane?.[i] ?? 0) * columns + first + Math.floor((axes.TCol?.[i] ?? 0) / packed);
      owner[cell] = k;
      element[cell] = i % count;
    }
  });
  return { owner, element };
}

/** A cell in words: its place, its buffer, and the element that begins it, with those that share the column. */
export function sayCell({ columns, allocated, buffers }, { owner, element }, cell) {
  const [lane, column] = [Math.floor(cell / columns), cell % columns];
  const place = `lane ${lane}, column ${column}`;
  const buffer = buffers[owner[cell]];
  if (!buffer) return `${place}: ${column < allocated ? "allocated, and empty" : "free"}`;
  const { name, shape, packed } = buffer;
  const last = Math.min(element[cell] + packed, product(shape)) - 1;
  const at = (e) => unflatten(e, shape).join(", ");
  return `${place}: ${name}, element ${at(element[cell])}${last > element[cell] ? ` to ${at(last)}` : ""}`;
}
