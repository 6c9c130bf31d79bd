/** What an access touches, drawn: banks phase by phase, sectors of memory, or the lines of a box that no lane moves. */
import { bankTable, chunkTable, sectorTable } from "../model/access.js";
import { count } from "../model/spelling.js";
import { h } from "./dom.js";
import { keysOf } from "./legend.js";

const BANKS = Array.from({ length: 32 }, (_, bank) => bank);
const MOST_LINES = 64; // of a box or of scattered lanes

/** {figure, isOver, node, phases} of an access of a spec; ``phases`` are there where lanes are served in some. */
export function drawAccess(access) {
  if (access.chunks.length) return drawBox(access);
  if (!access.offsets.length) return { figure: access.rows ? sayBox(access) : "no thread is active", isOver: false, node: null, phases: [] };
  return access.space === "shared" ? drawBanks(access) : drawSectors(access);
}

function drawBanks(access) {
  const table = bankTable(access.kind, access.width, access.offsets);
  const stored = table.phases.reduce((sum, phase) => sum + phase.wavefronts, 0);
  const isCopy = access.what.startsWith("cp.async"); // Python counts it by what it brings; elsewhere it is a store's
  const total = isCopy && !access.isMoved ? access.wavefronts : stored;
  const isOver = total > (isCopy && !access.isMoved ? access.floor : table.phases.length);
  return { figure: `${sayWavefronts(total, table)}${isCopy ? ", of a store" : ""}`, isOver, node: phaseTable(table), phases: table.phases };
}

export function sayWavefronts(total, { phases, merged }) {
  return `${count(total, "wavefront")} in ${count(phases.length, "phase")}${merged ? ", two of the width served as one" : ""}`;
}

function drawSectors(access) {
  const { sectors, lines } = sectorTable(access.width, access.offsets);
  const floor = access.floor ?? sectors;
  const first = lines[0]?.line ?? 0;
  const bodies = lines.slice(0, MOST_LINES).map(({ line, words }) => h("tr", {}, h("th", { scope: "row" }, `+${(line - first) * 128}`), words.map((lanes, k) => h("td", {
    class: `${lanes.length ? "first" : ""}${k % 8 ? "" : " sector"}`, title: lanes.length ? `lanes ${lanes.join(", ")}` : null,
  }, lanes.length ? sayLanes(lanes) : ""))));
  const node = scroll("Sectors of the access", h("table", { class: "bank-table" },
    h("caption", { class: "visually-hidden" }, "A row for each line of 128 bytes, four sectors of 32 bytes in each; a cell is the lane that takes the word"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "byte"), BANKS.map((b) => h("th", { scope: "col" }, String(4 * b))))), h("tbody", {}, bodies)), keysOf("Colours of the sectors", [["var(--c0)", "a word that lanes take"], ["var(--empty)", "a word that they leave"], ["var(--strong)", "where a sector begins", "thin"]]));
  return { figure: `${count(access.sectors ?? sectors, "sector")} in ${count(lines.length, "line")} of 128 bytes; ${floor} at best`, isOver: sectors > floor, node: cut(node, lines.length), phases: [] };
}

const sayBox = (access) => `${access.space === "shared" ? count(access.wavefronts, "wavefront") : count(access.sectors, "sector")}: ${count(access.rows, "row")} of ${access.width} bytes`;

function drawBox(access) {
  const { lines } = chunkTable(access.chunks, access.width);
  const rows = lines.slice(0, MOST_LINES).map(({ line, chunks }) => h("tr", {}, h("th", { scope: "row" }, `line ${line}`), chunks.map((row) =>
    h("td", { colspan: "4", class: row === null ? "" : row % 2 ? "first" : "second" }, row === null ? "" : `row ${row}`))));
  const node = scroll("Lines of the box", h("table", { class: "bank-table" },
    h("caption", { class: "visually-hidden" }, "A row for each line of 128 bytes in shared memory, eight chunks of 16 bytes in each; a cell is the row of the box that it holds"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "bank"), BANKS.filter((b) => b % 4 === 0).map((b) => h("th", { scope: "col", colspan: "4" }, `${b}-${b + 3}`)))), h("tbody", {}, rows)), keysOf("Colours of the box", [["var(--c1)", "even rows of the box"], ["var(--c0)", "odd rows"], ["var(--empty)", "nothing of it"]]));
  const figure = `${sayBox(access)}, 128 bytes a wavefront, without conflicts`;
  const own = access.chunks.map((_, k) => k);
  const phases = Array.from({ length: Math.ceil(own.length / 8) }, (_, k) => ({ lanes: own.slice(8 * k, 8 * k + 8), wavefronts: 1 }));
  return { figure, isOver: false, node: cut(node, lines.length), phases };
}

const cut = (node, lines) => (lines > MOST_LINES ? h("div", {}, node, h("p", { class: "note" }, `and ${count(lines - MOST_LINES, "line")} more`)) : node);

const sayLanes = (lanes) => (lanes.length > 1 ? `${lanes[0]}+` : String(lanes[0]));

const scroll = (label, node, keys) => h("div", { class: "drawn" }, h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, node), keys);

/** A row for each wavefront, a cell for each bank: the lane of the word that it serves. */
export function phaseTable({ phases }) {
  const bodies = phases.map((phase, k) => {
    const row = (w) => {
      const cells = [];
      let empty = 0; // neighbours that this wavefront leaves out are one cell: a conflict of 32 has 31 of them a row
      const close = () => empty && cells.push(h("td", empty > 1 ? { colspan: String(empty) } : {}));
      for (const b of BANKS) {
        const word = phase.banks[b][w];
        if (!word) {
          empty += 1;
          continue;
        }
        close();
        empty = 0;
        cells.push(h("td", { class: w ? "more" : "first", title: `bank ${b}, word ${word.word}: lanes ${word.lanes.join(", ")}` }, sayLanes(word.lanes)));
      }
      close();
      return cells;
    };
    const rows = Array.from({ length: phase.wavefronts }, (_, w) => h("tr", {}, w ? null : h("th", { scope: "rowgroup", rowspan: String(phase.wavefronts) }, `phase ${k + 1}`), row(w)));
    return h("tbody", { "data-phase": String(k) }, rows);
  });
  return scroll("Banks of the access", h("table", { class: "bank-table" },
    h("caption", { class: "visually-hidden" }, "A row for each wavefront, a column for each bank; a cell is the lane that is served, + where lanes share the word"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "bank"), BANKS.map((b) => h("th", { scope: "col" }, String(b))))), bodies), keysOf("Colours of the banks", [
    ["var(--c0)", "the first wavefront of a phase"], ...(phases.some((phase) => phase.wavefronts > 1) ? [["var(--c5)", "further ones, of a bank conflict"]] : []), ["var(--empty)", "the bank is idle"],
  ]));
}
