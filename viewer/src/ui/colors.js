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

/** The colours below ``extent`` as [background, text] of a legend: those of one group with the range of its values. */
export function colorKeys(extent) {
  const group = Math.max(1, Math.ceil(extent / COLORS));
  return Array.from({ length: Math.ceil(extent / group) }, (_, k) => {
    const [first, last] = [k * group, Math.min(extent, (k + 1) * group) - 1];
    const shades = `linear-gradient(90deg, var(--c${k}) 50%, var(--c${k}b) 50%)`;
    return [group > 1 ? shades : `var(--c${k})`, first === last ? String(first) : `${first} to ${last}`];
  });
}

/** What a legend of ``colorKeys`` says beside it: where a group has two shades. */
export const sayShades = (extent) => (extent > COLORS ? "; the darker shade is that of odd numbers" : "");
