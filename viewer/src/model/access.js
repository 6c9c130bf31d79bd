/**
 * What one warp's access of shared memory costs: the rules of tilegen/access/warp.py.
 *
 * ``offsets`` are 32 byte offsets from a base aligned to 128 bytes, one per lane, -1 where the lane is inactive; of
 * ldmatrix and stmatrix the first 8, 16 or 32 lanes give the rows.
 */
export const LANES = 32;
export const BANKS = 32;
export const BANK_BYTES = 4;
export const LINE_BYTES = 128;
export const SECTOR_BYTES = 32;
export const CHUNK_BYTES = 16;
export const MATRIX_ROWS = {
  ldmatrix1: 8, ldmatrix2: 16, ldmatrix4: 32, stmatrix1: 8, stmatrix2: 16, stmatrix4: 32,
};
const WIDTHS = [1, 2, 4, 8, 16];

function readAccess(kind, width, offsets) {
  const rows = MATRIX_ROWS[kind];
  if (!rows && kind !== "ld" && kind !== "st") throw new RangeError(`unknown kind of access ${kind}`);
  if (rows ? width !== 16 : !WIDTHS.includes(width)) throw new RangeError(`${kind} does not move ${width} bytes per lane`);
  if (offsets.length !== LANES) throw new RangeError(`an access has 32 offsets, not ${offsets.length}`);
  const used = offsets.slice(0, rows ?? LANES);
  for (const x of used) {
    if (x < -1 || (x >= 0 && x % width)) throw new RangeError(`byte offset ${x} is not a multiple of ${width}`);
  }
  if (rows && used.some((x) => x < 0) !== used.every((x) => x < 0)) {
    throw new RangeError(`${kind} needs the row addresses of lanes 0 to ${rows - 1}: all active, or none`);
  }
  return used;
}

/** A load of 8 or 16 bytes whose lanes all agree with lane ^ 1, or all with lane ^ 2, takes two phases as one. */
function merges(kind, width, offsets) {
  if (kind !== "ld" || width < 8) return false;
  return [1, 2].some((apart) => offsets.every((x, lane) => {
    const other = offsets[lane ^ apart];
    return x === other || x < 0 || other < 0;
  }));
}

/**
 * Phases with an active lane: {merged, phases: [{lanes, wavefronts, banks: [[{word, lanes}]]}]}; ``banks[b]`` are the
 * distinct words that the phase touches in bank b.
 */
export function bankTable(kind, width, offsets) {
  const used = readAccess(kind, width, offsets);
  const merged = merges(kind, width, used);
  const size = Math.min(LANES, LINE_BYTES / width) * (merged ? 2 : 1);
  const phases = [];
  for (let first = 0; first < used.length; first += size) {
    const lanes = [];
    for (let lane = first; lane < first + size; lane += 1) if (used[lane] >= 0) lanes.push(lane);
    if (lanes.length) phases.push(makePhase(lanes, used, width));
  }
  return { kind, width, merged, phases };
}

function makePhase(lanes, offsets, width) {
  const touched = new Map();
  for (const lane of lanes) {
    const last = Math.floor((offsets[lane] + width - 1) / BANK_BYTES);
    for (let word = Math.floor(offsets[lane] / BANK_BYTES); word <= last; word += 1) {
      if (!touched.has(word)) touched.set(word, []);
      touched.get(word).push(lane);
    }
  }
  const banks = Array.from({ length: BANKS }, () => []);
  for (const word of [...touched.keys()].sort((a, b) => a - b)) banks[word % BANKS].push({ word, lanes: touched.get(word) });
  return { lanes, banks, wavefronts: Math.max(...banks.map((words) => words.length)) };
}

const held = Array.from({ length: BANKS }, () => new Float64Array(LANES)); // the words of each bank in one phase
const filled = new Int32Array(BANKS);

/** {wavefronts, phases}: what an access takes, and its floor; bankTable without the table, for tiles of many accesses. */
export function countAccess(kind, width, offsets) {
  const used = readAccess(kind, width, offsets);
  const size = Math.min(LANES, LINE_BYTES / width) * (merges(kind, width, used) ? 2 : 1);
  let [wavefronts, phases] = [0, 0];
  for (let first = 0; first < used.length; first += size) {
    const most = countPhase(used, width, first, first + size);
    wavefronts += most;
    phases += most ? 1 : 0;
  }
  return { wavefronts, phases };
}

/** The most words that the lanes of a phase touch in one bank; 0 where none is active. */
function countPhase(offsets, width, first, end) {
  filled.fill(0);
  let most = 0;
  for (let lane = first; lane < end; lane += 1) {
    if (offsets[lane] < 0) continue;
    const last = Math.floor((offsets[lane] + width - 1) / BANK_BYTES);
    for (let word = Math.floor(offsets[lane] / BANK_BYTES); word <= last; word += 1) {
      const bank = word % BANKS;
      const words = held[bank];
      let k = 0;
      while (k < filled[bank] && words[k] !== word) k += 1;
      if (k < filled[bank]) continue;
      words[k] = word;
      filled[bank] += 1;
      if (filled[bank] > most) most = filled[bank];
    }
  }
  return most;
}

/** 32-byte sectors of memory that a global access touches: {sectors, lines: [{line, words: [[lane]]}]}, 32 words a line. */
export function sectorTable(width, offsets) {
  const sectors = new Set();
  const lines = new Map();
  offsets.forEach((offset, lane) => {
    if (offset < 0) return;
    for (let byte = offset - (offset % BANK_BYTES); byte < offset + width; byte += BANK_BYTES) {
      sectors.add(Math.floor(byte / SECTOR_BYTES));
      const line = Math.floor(byte / LINE_BYTES);
      if (!lines.has(line)) lines.set(line, Array.from({ length: LINE_BYTES / BANK_BYTES }, () => []));
      lines.get(line)[(byte % LINE_BYTES) / BANK_BYTES].push(lane);
    }
  });
  return { sectors: sectors.size, lines: [...lines].sort((a, b) => a[0] - b[0]).map(([line, words]) => ({ line, words })) };
}

/**
 * Where a box of TMA or a matrix of wgmma lies, in chunks of 16 bytes: {lines: [{line, chunks: [row | null]}]}, 8 chunks
 * a line of 128 bytes, each with the row of the box that it holds a part of. They have no conflicts: 128 bytes are one
 * wavefront.
 */
export function chunkTable(chunks, width) {
  const lines = new Map();
  chunks.forEach((byte, k) => {
    const line = Math.floor(byte / LINE_BYTES);
    if (!lines.has(line)) lines.set(line, Array(LINE_BYTES / CHUNK_BYTES).fill(null));
    lines.get(line)[(byte % LINE_BYTES) / CHUNK_BYTES] = Math.floor((k * CHUNK_BYTES) / width);
  });
  return { wavefronts: Math.ceil((chunks.length * CHUNK_BYTES) / LINE_BYTES), lines: [...lines].sort((a, b) => a[0] - b[0]).map(([line, held]) => ({ line, chunks: held })) };
}
