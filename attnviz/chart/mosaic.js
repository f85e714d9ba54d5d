// Many heads in one picture: the head under the pointer has a frame, and its name above.

import { NamingController } from "./controller.js";

/** @typedef {import("./types").Cell} Cell */

const AXES = 46; // pixels of the labels at the left and above
const WIDEST_TILE = 1.6; // a tile's width for its height

/** @extends {NamingController<import("./types").MosaicSpec>} */
export class MosaicController extends NamingController {
  isOverview = true;

  /** @type {NamingController<any>["fit"]} */
  fit(width, height) {
    const { rows, columns, least, leastWidth } = this.spec;
    if (!least) return super.fit(Math.max(width, leastWidth && leastWidth * columns + AXES), height);
    const high = Math.max(least, (height - AXES) / rows);
    const wide = Math.min(Math.max(least, (width - AXES) / columns), WIDEST_TILE * high);
    return { width: wide * columns + AXES, height: Math.min(high, wide) * rows + AXES };
  }

  get #cells() {
    return this.header.figure.data[0].z ?? [];
  }

  /** @param {Cell} cell */
  nameOf({ row, column }) {
    const { tileHeight, tileWidth, columns, names } = this.spec;
    return names[Math.floor(row / tileHeight) * columns + Math.floor((column ?? 0) / tileWidth)];
  }

  /** @param {Cell} cell */
  has(cell) {
    return cell.row < this.#cells.length && (cell.column ?? 0) < this.#cells[0].length && super.has(cell);
  }

  /** @param {PointerEvent} event */
  cellAt(event) {
    if (!this.chart.graph.hasAxes) return null;
    const [column, row] = this.chart.graph.point(this.chart.pixelsOf(event)).map(Math.round);
    const cell = { row, column };
    return row >= 0 && column >= 0 && this.has(cell) ? cell : null;
  }

  first() {
    return { row: this.spec.tileHeight - this.spec.height, column: 0 };
  }

  /** @type {NamingController<any>["next"]} */
  next({ row, column }, [down, right]) {
    const { tileHeight, tileWidth } = this.spec;
    const [bottom, last] = [this.#cells.length - 1, this.#cells[0].length - 1];
    return {
      row: Math.max(0, Math.min(bottom, row + down * tileHeight)),
      column: Math.max(0, Math.min(last, (column ?? 0) + right * tileWidth)),
    };
  }

  /** @type {NamingController<any>["end"]} */
  end({ row }, last) {
    return { row, column: last ? this.#cells[0].length - 1 : 0 };
  }

  async drawn() {
    await super.drawn();
    const [frame] = /** @type {any[]} */ (this.header.figure.layout.shapes ?? []);
    if (frame) this.#reveal([[frame.x0, frame.y0], [frame.x1, frame.y1]]);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    super.key(event);
    if (this.cursor) this.#reveal(this.#corners(this.cursor));
  }

  draw() {
    if (!this.cursor) return;
    const [[x, y], [right, below]] = this.#corners(this.cursor).map((corner) => this.chart.graph.pixels(corner));
    const style = { fill: "none", stroke: this.chart.accent, "stroke-width": 2 };
    this.chart.add("rect", { x, y, width: right - x, height: below - y, ...style });
  }

  /**
   * @param {Cell} cell
   * @returns {[[number, number], [number, number]]} the upper left and the lower right of its head, on the axes
   */
  #corners({ row, column }) {
    const { tileHeight, tileWidth, height, width } = this.spec;
    const bottom = (Math.floor(row / tileHeight) + 1) * tileHeight;
    const left = Math.floor((column ?? 0) / tileWidth) * tileWidth;
    return [[left - 0.5, bottom - height - 0.5], [left + width - 0.5, bottom - 0.5]];
  }

  /** @param {import("./types").Pair[]} corners */
  #reveal(corners) {
    const [[x, y], [right, below]] = corners.map((corner) => this.chart.graph.pixels(corner));
    this.chart.reveal(x, y, right, below);
  }
}
