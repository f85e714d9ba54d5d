// Many heads in one picture: the head under the pointer has a frame, and its name above.

import { NamingController } from "./controller.js";

/** @typedef {import("./types").Cell} Cell */

/** @extends {NamingController<import("./types").MosaicSpec>} */
export class MosaicController extends NamingController {
  get growsLetters() {
    return true;
  }

  get isOverview() {
    return true;
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

  /**
   * @param {Cell} cell
   * @param {[number, number]} step
   */
  next({ row, column }, [down, right]) {
    const { tileHeight, tileWidth } = this.spec;
    const [bottom, last] = [this.#cells.length - 1, this.#cells[0].length - 1];
    return {
      row: Math.max(0, Math.min(bottom, row + down * tileHeight)),
      column: Math.max(0, Math.min(last, (column ?? 0) + right * tileWidth)),
    };
  }

  /**
   * @param {Cell} cell
   * @param {boolean} last
   */
  end({ row }, last) {
    return { row, column: last ? this.#cells[0].length - 1 : 0 };
  }

  draw() {
    if (!this.cursor) return;
    const { tileHeight, tileWidth, height, width } = this.spec;
    const bottom = (Math.floor(this.cursor.row / tileHeight) + 1) * tileHeight;
    const left = Math.floor((this.cursor.column ?? 0) / tileWidth) * tileWidth;
    const [x, y] = this.chart.graph.pixels([left - 0.5, bottom - height - 0.5]);
    const [right, below] = this.chart.graph.pixels([left + width - 0.5, bottom - 0.5]);
    const style = { fill: "none", stroke: this.chart.accent, "stroke-width": 2 };
    this.chart.add("rect", { x, y, width: right - x, height: below - y, ...style });
  }
}
