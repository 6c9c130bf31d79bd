/** A layout as text again, and its parts as the fields of a form have them; a number with its noun. */
export const count = (n, word, plural = `${word}s`) => `${n} ${n === 1 ? word : plural}`;
const list = (items) => (items.length === 1 ? String(items[0]) : `(${items.join(", ")})`);
const at = (value, axis) => (axis === "m" ? String(value) : `${value}@${axis}`);

export const spellIters = (iters) => `${list(iters.map((i) => i.extent))}:${list(iters.map((i) => at(i.stride, i.axis)))}`;
export const spellOffset = (offset) => Object.entries(offset).map(([axis, value]) => at(value, axis)).join(" + ");

export function spellSwizzle({ per, bits, apart, inner }) {
  return `Swizzle(${per}, ${bits}, ${apart}${inner ? "" : ", inner=False"})`;
}

/** The text of {shard, replica, offset, swizzle}, whose first three are texts of fields. */
export function spellParts({ shard, replica, offset, swizzle }) {
  const parts = [`S[${shard}]`];
  if (replica.trim()) parts.push(`R[${replica}]`);
  if (offset.trim()) parts.push(offset);
  return `${swizzle ? `${spellSwizzle(swizzle)} o ` : ""}${parts.join(" + ")}`;
}

export const partsOf = (tile) => ({
  shard: spellIters(tile.shard), replica: tile.replica.length ? spellIters(tile.replica) : "",
  offset: spellOffset(tile.offset), swizzle: tile.swizzle,
});

/** The swizzle of a mode (32, 64 or 128 bytes a row) for elements of so many bits: 16-byte chunks stay whole. */
export function swizzleOfMode(bytes, bits) {
  const per = Math.log2(128 / bits);
  return { per, bits: Math.log2(bytes / 16), apart: 3, inner: true };
}

/** The swizzle after a change of the type: that of the same mode; one by numbers, or none, stays. */
export function retypeSwizzle(swizzle, bits, wanted) {
  const mode = modeOf(swizzle, bits);
  return mode && mode !== "custom" ? swizzleOfMode(mode, wanted) : swizzle;
}

/** The mode whose swizzle this is: 32, 64, 128, 0 for none, or "custom". */
export function modeOf(swizzle, bits) {
  if (!swizzle) return 0;
  const same = [32, 64, 128].find((bytes) => {
    const other = swizzleOfMode(bytes, bits);
    return ["per", "bits", "apart", "inner"].every((key) => other[key] === swizzle[key]);
  });
  return same ?? "custom";
}
