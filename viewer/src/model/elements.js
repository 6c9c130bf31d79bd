/** Which elements of a buffer an access of a spec touches, and what the same access would touch in another layout. */
import { addressAxis, placeAll, takeShape } from "./layouts.js";
import { parseLayout } from "./notation.js";

/** Element of each byte address: {byte: element}, first copies. */
function elementsByByte(places, bits) {
  const address = places.axes[addressAxis(places)];
  const found = new Map();
  for (let e = places.count - 1; e >= 0; e -= 1) found.set(Math.floor((address[e] * bits) / 8), e);
  return found;
}

/** {starts, cells: [the elements of each lane or chunk], at: {byte: element}} of an access, by the layout of its spec. */
export function elementsOf(access, bits) {
  const { layout, shape } = takeShape(parseLayout(access.layout.text), access.layout.shape);
  const at = elementsByByte(placeAll(layout, shape), bits);
  const starts = access.chunks.length ? access.chunks : access.offsets;
  const bytes = access.chunks.length ? 16 : access.width;
  const span = Math.max(1, Math.floor((bytes * 8) / bits));
  const cells = starts.map((byte) => (byte < 0 ? [] : Array.from({ length: span }, (_, k) => at.get(byte + Math.floor((k * bits) / 8))).filter((e) => e !== undefined)));
  return { starts, cells, at };
}

/** The byte offsets of the same elements in other places, null where a lane's bytes do not lie together and aligned there. */
export function movedOffsets(access, found, places, bits) {
  const address = places.axes[addressAxis(places)];
  const byteOf = (element) => Math.floor((address[element] * bits) / 8);
  const moved = [];
  for (const [lane, start] of found.starts.entries()) {
    const own = found.cells[lane];
    const byte = start < 0 ? -1 : own.length ? byteOf(own[0]) : null;
    if (byte === null || (byte >= 0 && byte % access.width)) return null;
    for (let k = 0; byte >= 0 && k < access.width; k += 1) {
      const element = found.at.get(start + k);
      if (element !== undefined && byteOf(element) !== byte + k) return null;
    }
    moved.push(byte);
  }
  return moved;
}
