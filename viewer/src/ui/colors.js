/** Eight colours that colour-blind readers tell apart (Paul Tol's "light" scheme), each in two shades. */
import { themed } from "./dom.js";

const COLORS = 8;

/** A function from a value below ``extent`` to a colour: neighbours in eight groups, odd ones a shade apart. */
export function colorScale(extent) {
  const palette = Array.from({ length: COLORS }, (_, k) => [themed(`--c${k}`), themed(`--c${k}b`)]);
  const group = Math.max(1, Math.ceil(extent / COLORS));
  return (value) => {
    const k = Math.floor(value / group) % COLORS;
    return palette[k][group > 1 ? (value % group) & 1 : 0];
  };
}
