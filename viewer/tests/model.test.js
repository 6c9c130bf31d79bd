/** The model by hand: the chapter's own figures, notation and its errors, banks, sectors, spelling, examples. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { bankTable, chunkTable, countAccess, sectorTable } from "../src/model/access.js";
import { elementsOf, movedOffsets } from "../src/model/elements.js";
import { LayoutError, sayError } from "../src/model/errors.js";
import { readExample, unpackNumbers } from "../src/model/examples.js";
import { copiesOf, flatten, placeAll, sharedPlace, takeShape, unflatten } from "../src/model/layouts.js";
import { parseLayout } from "../src/model/notation.js";
import { accessesOf, bytesOf, sumUp } from "../src/model/patterns.js";
import { heldBy, physicalOf } from "../src/model/physical.js";
import { readElement, readOne, readShape } from "../src/model/shapes.js";
import { count, modeOf, partsOf, retypeSwizzle, spellParts, swizzleOfMode } from "../src/model/spelling.js";
import { fillCells, sayCell } from "../src/model/tensor.js";
import { colorKeys, colorScale, sayShades } from "../src/ui/colors.js";
import { bitsOf, DTYPES } from "../src/ui/dtypes.js";

const placed = (text, shape = null) => {
  const taken = takeShape(parseLayout(text), shape);
  return { ...taken, places: placeAll(taken.layout, taken.shape) };
};
const at = (text, coord, shape = null) => {
  const { places, shape: own } = placed(text, shape);
  return copiesOf(places, flatten(coord, own));
};
const lanes = (stride) => Array.from({ length: 32 }, (_, lane) => lane * stride);

test("the chapter's register tile: (i, j) is copied to warps 5 and 9, or 6 and 10", () => {
  const text = "S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid] + 5@warpid";
  assert.deepEqual(at(text, [3, 11], [8, 16]), [{ warpid: 6, laneid: 13, m: 1 }, { warpid: 10, laneid: 13, m: 1 }]);
});

test("the chapter's tensor memory: 224 columns, four copies of scale factors", () => {
  assert.deepEqual(at("S[(2, 128, 112):(112@TCol, 1@TLane, 1@TCol)]", [1, 127, 111]), [{ TLane: 127, TCol: 223 }]);
  assert.deepEqual(at("S[(32, 4):(1@TLane, 1@TCol)] + R[4:32@TLane]", [5, 3]).map((place) => place.TLane), [5, 37, 69, 101]);
});

test("the chapter's swizzle: column 0 of 8 x 64 lies in banks 0, 4, ... 28", () => {
  const { places } = placed("Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]");
  const banks = Array.from({ length: 8 }, (_, i) => sharedPlace(places.axes.m[64 * i], 16).bank);
  assert.deepEqual(banks, [0, 4, 8, 12, 16, 20, 24, 28]);
});

test("CuTe and Gluon say the same layout", () => {
  for (const other of ["(8,64):(64,1)", "row", "SwizzledSharedLayout(1, 1, 1, [1, 0])", "LinearLayout(offset=[[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0]])"]) {
    const { places } = placed(other, [8, 64]);
    assert.deepEqual([...(places.axes.m ?? places.axes.offset)], [...placed("S[(8, 64)]").places.axes.m], other);
  }
  assert.deepEqual([...placed("Swizzle<3,3,3>", [8, 64]).places.axes.m], [...placed("Swizzle(3, 3, 3) o S[(8, 64)]").places.axes.m]);
});

test("errors have their place", () => {
  const refused = (text) => {
    try {
      takeShape(parseLayout(text), null);
    } catch (error) {
      assert.ok(error instanceof LayoutError, text);
      return error;
    }
    return assert.fail(`${text} was read`);
  };
  assert.deepEqual(refused("S[(8, 2):(4@lanid, 1)]").span, [12, 17]);
  assert.match(refused("row").message, /any shape/);
  assert.match(refused("Swizzle(3, 3, 2)").message, /overlap/);
  for (const text of ["", "S[", "S[8:1] +", "Sw<3,3>", "(8,(2", "S[8:1@m@m]", "\u0000", "S[0]"]) refused(text);
});

test("a conflict takes a wavefront for each word of a bank", () => {
  assert.deepEqual(countAccess("ld", 4, lanes(4)), { wavefronts: 1, phases: 1 });
  assert.deepEqual(countAccess("ld", 4, lanes(128)), { wavefronts: 32, phases: 1 });
  assert.deepEqual(countAccess("ld", 16, lanes(16)), { wavefronts: 4, phases: 4 });
  assert.throws(() => countAccess("ld", 3, lanes(4)), RangeError);
  assert.throws(() => countAccess("ldmatrix1", 8, lanes(16)), RangeError);
  const table = bankTable("ld", 4, lanes(128));
  assert.equal(table.phases[0].banks[0].length, 32);
});

test("the count without a table is the table's", () => {
  let seed = 1;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let k = 0; k < 2000; k += 1) {
    const width = [1, 2, 4, 8, 16][random(5)];
    const offsets = Array.from({ length: 32 }, () => (random(5) ? width * random(300) : -1));
    const kind = random(2) ? "ld" : "st";
    const { phases } = bankTable(kind, width, offsets);
    assert.deepEqual(countAccess(kind, width, offsets), { wavefronts: phases.reduce((sum, phase) => sum + phase.wavefronts, 0), phases: phases.length });
  }
});

test("sectors and chunks", () => {
  assert.equal(sectorTable(4, lanes(4)).sectors, 4);
  assert.equal(sectorTable(4, lanes(400)).sectors, 32);
  assert.deepEqual(sectorTable(16, lanes(16)).lines.map(({ line }) => line), [0, 1, 2, 3]);
  const { wavefronts, lines } = chunkTable([0, 16, 144, 128], 32);
  assert.equal(wavefronts, 1);
  assert.deepEqual(lines.map(({ chunks }) => chunks.slice(0, 2)), [[0, 0], [1, 1]]);
});

test("patterns count a tile", () => {
  const { places, shape } = placed("S[(8, 64)]");
  const bytes = bytesOf(places, shape, 16);
  assert.deepEqual(sumUp(accessesOf(bytes, 16, "column")), { count: 64, least: 8, most: 8, sum: 512, floor: 64 });
  assert.throws(() => accessesOf(bytesOf(placed("S[(9, 64)]").places, [9, 64], 16), 16, "ldmatrix1"), LayoutError);
  assert.throws(() => bytesOf(placed("S[8:1@laneid]").places, [8], 16), LayoutError);
});

test("every element is held where it lies", () => {
  for (const [text, bits] of [["S[(8, 64)]", 16], ["S[(4, 8)]", 64], ["S[(8, 2, 4, 2):(4@laneid, 1@warpid, 1@laneid, 1)] + R[2:4@warpid]", 16], ["S[(32, 4):(1@TLane, 1@TCol)] + R[4:32@TLane]", 8]]) {
    const { places } = placed(text);
    const grid = physicalOf(places, bits);
    for (let place = 0; place < places.count * places.copies; place += 1) assert.ok(heldBy(grid, grid.cells[place]).includes(place), text);
  }
});

test("a layout's parts spell the layout", () => {
  for (const text of ["S[(8, 64):(64, 1)]", "Swizzle(3, 3, 3) o S[(8, 64):(64, 1)]", "Swizzle(3, 2, 3, inner=False) o S[64:1] + 8", "S[8:1@laneid] + R[2:4@warpid] + 5@warpid"]) {
    assert.equal(spellParts(partsOf(parseLayout(text))), text);
  }
  for (const bits of [8, 16, 32]) for (const bytes of [32, 64, 128]) assert.equal(modeOf(swizzleOfMode(bytes, bits), bits), bytes);
  assert.equal(modeOf(swizzleOfMode(128, 16), 32), "custom");
});

test("packed numbers", () => {
  assert.deepEqual(unpackNumbers({ add: [8, 2, 4] }), [8, 10, 12, 14]);
  assert.deepEqual(unpackNumbers({ xor: [5, 1, 2] }), [5, 4, 7, 6]);
  assert.deepEqual(unpackNumbers([3, 1]), [3, 1]);
  assert.deepEqual(unpackNumbers(undefined), []);
});

const EXAMPLE = readExample({
  name: "k", note: "", ops: ["copy tile -> Y"],
  layouts: [{ name: "tile", scope: "shared", text: "S[(8, 64)]", shape: [8, 64], dtype: "float16" }],
  accesses: [
    { op: 1, buffer: "tile", space: "shared", kind: "ld", width: 16, at: { add: [0, 128, 256, 512, 16, 32] }, where: "warp 0", wavefronts: 32, floor: 4 },
    { op: 1, buffer: "Y", space: "global", kind: "st", width: 16, at: { add: [0, 16, 32, 64, 128, 256] }, where: "warp 0", sectors: 16, floor: 16 },
  ],
});

test("an access of a spec knows its elements, and where another layout has them", () => {
  const [access, other] = EXAMPLE.accesses;
  assert.equal(access.preset, "buffer_tile");
  assert.equal(other.layout, null);
  const found = elementsOf(access, 16);
  assert.deepEqual(found.cells[9], Array.from({ length: 8 }, (_, k) => 64 + 8 + k));
  assert.deepEqual(movedOffsets(access, found, placed("S[(8, 64)]").places, 16), access.offsets);
  const swizzled = movedOffsets(access, found, placed("Swizzle(3, 3, 3) o S[(8, 64)]").places, 16);
  assert.deepEqual(countAccess("ld", 16, access.offsets), { wavefronts: 32, phases: 4 });
  assert.deepEqual(countAccess("ld", 16, swizzled), { wavefronts: 4, phases: 4 });
  assert.equal(movedOffsets(access, found, placed("S[(8, 64):(1, 8)]").places, 16), null);
  assert.equal(movedOffsets(access, found, placed("S[(8, 64):(68, 1)]").places, 16), null); // rows begin off 16 bytes
});

test("flat positions and coordinates", () => {
  for (let flat = 0; flat < 24; flat += 1) assert.equal(flatten(unflatten(flat, [2, 3, 4]), [2, 3, 4]), flat);
});

test("every access of every spec costs here what Python counted, and lies on elements of its buffer", () => {
  const examples = JSON.parse(readFileSync(new URL("../../tilegen/viewing/examples.json", import.meta.url), "utf8")).map(readExample);
  let [counted, drawn] = [0, 0];
  for (const example of examples) {
    for (const access of example.accesses) {
      const name = `${example.name} ${access.name}`;
      if (access.offsets.length && access.space === "shared") {
        const { wavefronts } = countAccess(access.kind, access.width, access.offsets);
        if (access.what.startsWith("cp.async")) assert.ok(wavefronts <= access.wavefronts, name); // as a store: the page says Python's own
        else assert.equal(wavefronts, access.wavefronts, name);
      }
      if (access.offsets.length && access.space === "global") assert.equal(sectorTable(access.width, access.offsets).sectors, access.sectors, name);
      if (access.chunks.length) assert.equal(chunkTable(access.chunks, access.width).wavefronts, access.wavefronts, name);
      counted += 1;
      if (!access.layout) continue;
      const { cells, starts } = elementsOf(access, bitsOf(access.layout.dtype));
      cells.forEach((own, k) => assert.ok(starts[k] < 0 || own.length, name));
      drawn += 1;
    }
  }
  assert.ok(counted > 500 && drawn > 200, `${counted}, ${drawn}`);
});

// ---------------------------------------------------------------- what a person writes into a field
const wrong = (make) => {
  try {
    make();
  } catch (error) {
    assert.ok(error instanceof LayoutError, error.stack);
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was wrong" });
};

test("a shape is written in several ways, and what is none has its place", () => {
  for (const text of ["8, 64", "8,64", "8 64", "8 x 64", "8x64", "8×64", "(8, 64)", "[8, 64]", "(8, 64,)", "8, 64,", "  8,  64 "]) assert.deepEqual(readShape(text), [8, 64], text);
  assert.deepEqual(readShape("(8,)"), [8]);
  for (const [text, span, said] of [
    ["8, x", [3, 4], "found 'x'"], ["8 x", [3, 4], "found the end"], ["x 8", [0, 1], "found 'x'"], ["8,, 64", [2, 3], "found ','"],
    ["8, -1", [3, 5], "found '-1'"], ["8.5", [1, 2], "found '.'"], ["8, 0", [3, 4], "at least 1"], ["(8, 64", [6, 7], "expected ')'"],
    ["8, 64)", [5, 6], "found ')'"], ["", [0, 1], "found the end"], ["8 x x 64", [4, 5], "found 'x'"], ["65536, 65536", [0, 12], "2 ** 31"],
    ["(8, 64] 3", [6, 7], "found ']'"], ["(8) 64", [4, 6], "after the numbers"],
  ]) {
    const error = wrong(() => readShape(text));
    assert.deepEqual(error.span, span, text);
    assert.match(error.message, new RegExp(said.replace(/[.*()[\]]/g, "\\$&")), text);
  }
});

test("an element outside of the layout is an error that says the shape; every element inside is found", () => {
  for (const shape of [[8, 64], [2, 3, 5], [7]]) {
    for (let e = 0; e < shape.reduce((a, b) => a * b); e += 1) assert.equal(readElement(unflatten(e, shape).join(", "), shape), e);
    for (let d = 0; d < shape.length; d += 1) {
      const coords = shape.map((n, k) => (k === d ? n : 0));
      const error = wrong(() => readElement(coords.join(","), shape));
      assert.equal(error.message, `no such element: the shape is ${shape.join(" x ")}, so coordinate ${d} is 0 to ${shape[d] - 1}`);
    }
  }
  assert.equal(wrong(() => readElement("5", [8, 64])).message, "1 coordinate, but the shape 8 x 64 has 2 dimensions");
  assert.equal(wrong(() => readElement("5, 0, 1", [8])).message, "3 coordinates, but the shape 8 has 1 dimension");
  assert.match(wrong(() => readElement("5, x", [8, 64])).hint, /8 x 64 is written as 7, 63/);
});

test("a thread is one number of those that there are", () => {
  assert.equal(readOne("31", 32, "thread"), 31);
  assert.equal(wrong(() => readOne("32", 32, "thread")).message, "there is no thread 32: threads are 0 to 31");
  for (const text of ["", "-1", "1, 2", "a"]) wrong(() => readOne(text, 32, "thread"));
});

test("a caret stands under what is wrong, and an empty text has none", () => {
  assert.equal(sayError("8, x", wrong(() => readShape("8, x"))).split("\n")[1], "   ^");
  assert.ok(!sayError("", wrong(() => readShape(""))).includes("^"));
});

test("the mode of a swizzle stays when the type changes; one by numbers, or none, stays as it is", () => {
  const widths = [...new Set(DTYPES.map(([, bits]) => bits))];
  for (const from of widths) {
    for (const to of widths) {
      for (const mode of [32, 64, 128]) assert.equal(modeOf(retypeSwizzle(swizzleOfMode(mode, from), from, to), to), mode, `${mode} bytes, ${from} to ${to} bits`);
      const own = { per: 1, bits: 2, apart: 4, inner: true };
      assert.equal(retypeSwizzle(own, from, to), own);
      assert.equal(retypeSwizzle(null, from, to), null);
    }
  }
});

test("a number has the noun that goes with it", () => {
  assert.deepEqual([count(0, "variant"), count(1, "variant"), count(2, "variant"), count(2, "access", "accesses")], ["0 variants", "1 variant", "2 variants", "2 accesses"]);
  const bare = readdirSync(new URL("../src/", import.meta.url), { recursive: true }).filter((name) => name.endsWith(".js"))
    .flatMap((name) => [...readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8").matchAll(/\$\{[^{}]*(?:length|threads|warps|wavefronts|sectors|phases|lanes|copies)\} [a-z]+s\b/g)].map(([text]) => `${name}: ${text}`));
  const several = ["model/layouts.js: ${copies} copies", "ui/explorer.js: ${places.copies} copies", "ui/explorer.js: ${this.examples.length} specs"]; // said of two or more
  assert.deepEqual(bare.sort(), several);
});

test("a legend has every value once, in the colour that the scale gives it", () => {
  globalThis.document = { documentElement: null };
  globalThis.getComputedStyle = () => ({ getPropertyValue: (name) => name });
  for (const extent of [1, 2, 7, 8, 9, 20, 32, 128, 1000]) {
    const color = colorScale(extent);
    const keys = colorKeys(extent);
    const found = keys.flatMap(([background, text]) => {
      const [first, last = first] = text.split(" to ").map(Number);
      return Array.from({ length: last - first + 1 }, (_, k) => {
        assert.ok(background.includes(color(first + k)), `${first + k} of ${extent}`);
        return first + k;
      });
    });
    assert.deepEqual(found, Array.from({ length: extent }, (_, k) => k));
    assert.equal(sayShades(extent) !== "", keys.some(([background]) => background.includes("gradient")));
  }
});

test("cells of tensor memory: packed elements, four copies, what is empty", () => {
  const memory = { lanes: 128, columns: 512, allocated: 64, buffers: [
    { name: "acc", text: "S[(2, 128, 16):(16@TCol, 1@TLane, 1@TCol)]", shape: [2, 128, 16], packed: 1, first_column: 0 },
    { name: "sf", text: "S[(32, 8):(1@TLane, 1@TCol)] + R[4:32@TLane]", shape: [32, 8], packed: 4, first_column: 32 },
  ] };
  const cells = fillCells(memory);
  const say = (lane, column) => sayCell(memory, cells, lane * 512 + column);
  assert.equal(say(5, 17), "lane 5, column 17: acc, element 1, 5, 1");
  for (const lane of [3, 35, 67, 99]) assert.equal(say(lane, 33), `lane ${lane}, column 33: sf, element 3, 4 to 3, 7`);
  assert.equal(say(0, 34), "lane 0, column 34: allocated, and empty");
  assert.equal(say(127, 64), "lane 127, column 64: free");
  assert.equal(cells.owner.filter((k) => k === 0).length, 2 * 128 * 16);
  assert.equal(cells.owner.filter((k) => k === 1).length, 4 * 32 * 2);
});
