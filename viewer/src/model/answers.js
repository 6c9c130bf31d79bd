/** What the page computes of a case that Python wrote; tests hold that it is what Python computed. */
import { countAccess, sectorTable } from "./access.js";
import { copiesOf, flatten, placeAll, sharedPlace, takeShape } from "./layouts.js";
import { parseLayout } from "./notation.js";
import { accessesOf, bytesOf, sumUp } from "./patterns.js";

const ADDRESS = ["m", "offset"];

/** {shape, places, patterns} of a layout's case, or {error: true} where the layout cannot be. */
export function answerLayout({ text, shape, bits, coords, patterns }) {
  let taken;
  let places;
  try {
    taken = takeShape(parseLayout(text), shape);
    places = placeAll(taken.layout, taken.shape);
  } catch (error) {
    return { error: error.name };
  }
  const counted = patterns.map((pattern) => {
    try {
      return sumUp(accessesOf(bytesOf(places, taken.shape, bits), bits, pattern));
    } catch (error) {
      return error.name;
    }
  });
  return {
    shape: taken.shape,
    places: coords.map((coord) => copiesOf(places, flatten(coord, taken.shape)).map((place) => withBytes(place, bits))
      .map(spellPlace).sort()),
    patterns: counted,
  };
}

function withBytes(place, bits) {
  const axis = ADDRESS.find((name) => name in place);
  return axis ? { ...place, ...sharedPlace(place[axis], bits) } : place;
}

const spellPlace = (place) => Object.keys(place).sort().map((axis) => `${axis}=${place[axis]}`).join(" ");

/** {wavefronts, phases, sectors} of an access's case. */
export const answerAccess = ({ kind, width, offsets }) => ({ ...countAccess(kind, width, offsets), sectors: sectorTable(width, offsets).sectors });
