/**
 * A grid of cells on a canvas, which stays smooth at 128 x 256: the cells are drawn once, marks on a second canvas.
 * The mouse hovers and selects, arrow keys move the selection; ``describe`` says a cell to a screen reader.
 */
import { h, themed, newId } from "./dom.js";

const LABEL_PIXELS = 7; // of one character
const MARGIN = { left: 44, top: 18 };
const LEAST = 3;
const THINNEST = { width: 1, height: 2 }; // of a cell where the grid would not fit otherwise

export class CellGrid {
  constructor({ label, hint, onhover = () => {}, onselect = () => {} }) {
    this.onhover = onhover;
    this.onselect = onselect;
    this.base = h("canvas", { "aria-hidden": "true" });
    this.overlay = h("canvas", { "aria-hidden": "true", class: "overlay" });
    this.stack = h("div", { class: "stack" }, this.base, this.overlay);
    const hintId = newId("hint");
    this.frame = h("div", { class: "grid-frame", tabindex: "0", role: "application", "aria-label": label, "aria-describedby": hintId }, this.stack);
    this.live = h("p", { class: "visually-hidden", "aria-live": "polite" });
    this.node = h("div", { class: "grid" }, this.frame, h("p", { id: hintId, class: "visually-hidden" }, hint), this.live);
    this.overlay.addEventListener("pointermove", (event) => this.hover(this.cellAt(event)));
    this.overlay.addEventListener("pointerleave", () => this.hover(-1));
    this.overlay.addEventListener("click", (event) => this.select(this.cellAt(event)));
    this.frame.addEventListener("keydown", (event) => this.press(event));
    this.hovered = -1;
    this.cursor = 0;
    this.marks = [];
    new ResizeObserver(() => this.resized()).observe(this.frame);
  }

  /** {rows, columns, color(cell), text(cell), rowText, columnText, describe(cell), lines: {rows, columns}, painted(hasText)}. */
  show(content) {
    this.content = content;
    this.cursor = Math.min(this.cursor, content.rows * content.columns - 1);
    this.width = 0;
    this.resized();
  }

  resized() {
    const width = this.frame.clientWidth;
    if (!this.content || !width || width === this.width) return;
    this.width = width;
    this.paint();
  }

  measure() {
    const { columns, rows, longest = 0 } = this.content;
    const room = Math.max(120, this.width - MARGIN.left - 4);
    const wanted = longest ? longest * LABEL_PIXELS + 6 : 14;
    const fits = fit(room / columns);
    const least = Math.min(this.content.least ?? LEAST, Math.max(fits, THINNEST.width));
    this.cw = Math.max(least, Math.min(fits >= wanted ? Math.max(wanted, Math.min(fits, 34)) : fits, 64));
    const low = rows > 400 ? Math.min(LEAST, this.cw) : least;
    this.ch = Math.max(low, Math.min(this.cw, 22, Math.max(low, Math.floor(2200 / rows))));
    this.hasText = longest > 0 && this.cw >= longest * LABEL_PIXELS && this.ch >= 12;
    const tall = fit((this.frameHeight() - MARGIN.top - 1) / rows);
    if (!this.hasText && tall >= THINNEST.height) this.ch = Math.min(this.ch, tall); // all of it in sight at once
  }

  /** The pixels that the frame is high at most. */
  frameHeight() {
    const most = parseFloat(getComputedStyle(this.frame).maxHeight);
    return Number.isFinite(most) ? most : Infinity;
  }

  paint() {
    this.measure();
    const { rows, columns, color, text } = this.content;
    const [width, height] = [MARGIN.left + columns * this.cw + 1, MARGIN.top + rows * this.ch + 1];
    const ratio = Math.min(2, devicePixelRatio || 1, 16000 / Math.max(width, height));
    for (const canvas of [this.base, this.overlay]) {
      canvas.width = Math.ceil(width * ratio);
      canvas.height = Math.ceil(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    const g = this.base.getContext("2d");
    const gap = this.cw >= 8 && this.ch >= 8 ? 1 : 0;
    const cellInk = themed("--cell-ink");
    g.font = "11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
    g.textAlign = "center";
    g.textBaseline = "middle";
    this.paintCells(g, rows, columns, color);
    if (gap) this.paintGaps(g, rows, columns);
    g.fillStyle = cellInk;
    for (let cell = 0; this.hasText && cell < rows * columns; cell += 1) {
      const [x, y] = this.corner(cell);
      g.fillText(text(cell), x + (this.cw - gap) / 2, y + (this.ch - gap) / 2 + 0.5);
    }
    this.paintLabels(g);
    this.paintMarks();
    this.content.painted?.(this.hasText);
  }

  /** All cells at once: an image of one pixel each, blown up. */
  paintCells(g, rows, columns, color) {
    const pixels = new ImageData(columns, rows);
    const words = new Uint32Array(pixels.data.buffer);
    for (let cell = 0; cell < words.length; cell += 1) words[cell] = pixelOf(color(cell));
    const small = new OffscreenCanvas(columns, rows);
    small.getContext("2d").putImageData(pixels, 0, 0);
    g.imageSmoothingEnabled = false;
    g.drawImage(small, MARGIN.left, MARGIN.top, columns * this.cw, rows * this.ch);
  }

  paintGaps(g, rows, columns) {
    const [width, height] = [columns * this.cw, rows * this.ch];
    g.fillStyle = themed("--paper");
    for (let c = 1; c <= columns; c += 1) g.fillRect(MARGIN.left + c * this.cw - 1, MARGIN.top, 1, height);
    for (let r = 1; r <= rows; r += 1) g.fillRect(MARGIN.left, MARGIN.top + r * this.ch - 1, width, 1);
  }

  paintLabels(g) {
    const { rows, columns, rowText, columnText, lines } = this.content;
    g.fillStyle = themed("--muted");
    const across = Math.max(1, 2 ** Math.ceil(Math.log2((String(columnText(columns - 1)).length * LABEL_PIXELS + 8) / this.cw)));
    for (let c = 0; c < columns; c += across) g.fillText(columnText(c), MARGIN.left + (c + 0.5) * this.cw, MARGIN.top / 2, across * this.cw);
    g.textAlign = "right";
    const down = Math.max(1, 2 ** Math.ceil(Math.log2(13 / this.ch)));
    for (let r = 0; r < rows; r += down) g.fillText(rowText(r), MARGIN.left - 6, MARGIN.top + (r + 0.5) * this.ch, MARGIN.left - 8);
    g.strokeStyle = themed("--ink");
    g.lineWidth = 1.5;
    for (let c = lines?.columns; c < columns; c += lines.columns) stroke(g, MARGIN.left + c * this.cw, MARGIN.top, MARGIN.left + c * this.cw, MARGIN.top + rows * this.ch);
    for (let r = lines?.rows; r < rows; r += lines.rows) stroke(g, MARGIN.left, MARGIN.top + r * this.ch, MARGIN.left + columns * this.cw, MARGIN.top + r * this.ch);
  }

  /** Marks: [{cells, kind: "selected" | "hovered" | "phase" | "access", texts, boxes}]; of a phase or an access also whole boxes, [row, rows, column, columns]. */
  mark(marks) {
    this.marks = marks;
    this.paintMarks();
  }

  paintMarks() {
    if (!this.content || !this.cw) return;
    const g = this.overlay.getContext("2d");
    g.clearRect(0, 0, this.overlay.width, this.overlay.height);
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.font = "bold 11px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
    const touching = this.marks.filter(({ kind }) => kind === "phase" || kind === "access");
    this.dim(g, touching.flatMap(({ cells }) => cells), touching.flatMap(({ boxes = [] }) => boxes));
    for (const { cells, kind, texts, boxes = [] } of this.marks) {
      g.fillStyle = themed("--accent");
      if (kind === "phase") for (const box of boxes) g.fillRect(...this.boxed(box));
      cells.forEach((cell, k) => {
        if (!this.holds(cell)) return;
        const [x, y] = this.corner(cell);
        if (kind === "selected" || kind === "hovered") this.outline(g, x, y, kind);
        else this.mark1(g, x, y, kind === "phase", texts?.[k] ?? "");
      });
    }
    if (this.hovered >= 0) this.outline(g, ...this.corner(this.hovered), "hovered");
  }

  holds(cell) {
    return cell >= 0 && cell < this.content.rows * this.content.columns;
  }

  /** Left, top, width and height of a box of cells. */
  boxed([row, rows, column, columns]) {
    return [MARGIN.left + column * this.cw, MARGIN.top + row * this.ch, columns * this.cw, rows * this.ch];
  }

  /** Fades what is not among the cells, nor in a box. */
  dim(g, cells, boxes) {
    if (!cells.length && !boxes.length) return;
    const { rows, columns } = this.content;
    g.globalAlpha = 0.78;
    g.fillStyle = themed("--paper");
    g.fillRect(MARGIN.left, MARGIN.top, columns * this.cw, rows * this.ch);
    g.globalAlpha = 1;
    for (const cell of cells) if (this.holds(cell)) g.clearRect(...this.corner(cell), this.cw, this.ch);
    for (const box of boxes) g.clearRect(...this.boxed(box));
  }

  /** A cell of an access: of the phase that is played in the accent's colour, with its lane where there is room. */
  mark1(g, x, y, isNow, text) {
    if (isNow) {
      g.fillStyle = themed("--accent");
      g.fillRect(x, y, this.cw, this.ch);
    }
    if (this.cw < 16 || this.ch < 12) return;
    g.fillStyle = themed(isNow ? "--accent-ink" : "--cell-ink");
    if (!this.hasText || isNow) g.fillText(text, x + this.cw / 2, y + this.ch / 2 + 0.5);
  }

  outline(g, x, y, kind) {
    const grow = this.cw < 8 ? 2 : 0;
    g.lineWidth = kind === "selected" ? 2.5 : 1.5;
    g.strokeStyle = themed("--paper");
    g.strokeRect(x - 1 - grow, y - 1 - grow, this.cw + 1 + 2 * grow, this.ch + 1 + 2 * grow);
    g.strokeStyle = themed(kind === "selected" ? "--ink" : "--accent");
    g.strokeRect(x + 0.5 - grow, y + 0.5 - grow, this.cw - 2 + 2 * grow, this.ch - 2 + 2 * grow);
  }

  corner(cell) {
    const row = Math.floor(cell / this.content.columns);
    return [MARGIN.left + (cell % this.content.columns) * this.cw, MARGIN.top + row * this.ch];
  }

  cellAt(event) {
    const box = this.overlay.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - MARGIN.left) / this.cw);
    const row = Math.floor((event.clientY - box.top - MARGIN.top) / this.ch);
    const { rows, columns } = this.content;
    return column >= 0 && column < columns && row >= 0 && row < rows ? row * columns + column : -1;
  }

  hover(cell) {
    if (cell === this.hovered) return;
    this.hovered = cell;
    this.onhover(cell);
    this.paintMarks();
  }

  select(cell) {
    if (cell < 0) return;
    this.cursor = cell;
    this.onselect(cell);
    this.live.textContent = this.content.describe(cell);
  }

  press(event) {
    if (!this.content) return;
    const { rows, columns } = this.content;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageUp: -8 * columns, PageDown: 8 * columns };
    let next = null;
    if (event.key in moves) next = this.cursor + moves[event.key];
    else if (event.key === "Home") next = event.ctrlKey ? 0 : this.cursor - (this.cursor % columns);
    else if (event.key === "End") next = event.ctrlKey ? rows * columns - 1 : this.cursor - (this.cursor % columns) + columns - 1;
    else if (event.key === "Enter" || event.key === " ") next = this.cursor;
    if (next === null || event.altKey || event.metaKey) return;
    event.preventDefault();
    if ((event.key === "ArrowLeft" && this.cursor % columns === 0) || (event.key === "ArrowRight" && next % columns === 0)) return;
    if (next < 0 || next >= rows * columns) return;
    this.select(next);
    this.reveal(next);
  }

  reveal(cell) {
    const [x, y] = this.corner(cell);
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.frame;
    if (x < scrollLeft + MARGIN.left || x + this.cw > scrollLeft + clientWidth) this.frame.scrollLeft = x - clientWidth / 2;
    if (y < scrollTop || y + this.ch > scrollTop + clientHeight) this.frame.scrollTop = y - clientHeight / 2;
  }
}

/** A cell of whole pixels, of a part of one where there is no room for three. */
const fit = (pixels) => (pixels < LEAST ? pixels : Math.floor(pixels));

const pixels = new Map(); // "#rrggbb" -> a pixel as canvases have it, little-endian

function pixelOf(color) {
  let pixel = pixels.get(color);
  if (pixel === undefined) {
    const value = parseInt(color.slice(1), 16);
    pixel = color.startsWith("#") ? ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0 : 0;
    pixels.set(color, pixel);
  }
  return pixel;
}

function stroke(g, ...ends) {
  g.beginPath();
  g.moveTo(ends[0], ends[1]);
  g.lineTo(ends[2], ends[3]);
  g.stroke();
}
