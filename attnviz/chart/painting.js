// A heatmap whose cells are painted: those under a stroke become allowed, or masked where the first one was allowed.

import { HeatmapController } from "./heatmap.js";
import { follow } from "./pointer.js";

/** @typedef {{ row: number, column: number }} Painted */

export class PaintingController extends HeatmapController {
  /** @type {{ cells: Map<string, Painted>, allows: boolean, last: Painted } | null} */
  stroke = null;

  /** @param {import("./types").Header & { spec: import("./types").HeatmapSpec }} header */
  update(header) {
    super.update(header);
    this.stroke = null; // what was painted is in the new figure
  }

  /** @param {PointerEvent} down */
  press(down) {
    const first = this.cellAt(down);
    if (!first || first.column === null) return;
    down.preventDefault();
    this.#begin({ row: first.row, column: first.column });
    follow(down, () => this.#end(), (move) => {
      // A fast hand skips cells between two events.
      for (const event of move.getCoalescedEvents?.() ?? [move]) this.#extend(this.cellAt(event));
    });
  }

  /** @type {HeatmapController["act"]} */
  act(cell, key) {
    if (key !== " " || cell.column === null) return super.act(cell, key);
    this.#begin({ row: cell.row, column: cell.column });
    this.#end();
    return true;
  }

  /** @param {Painted} first */
  #begin(first) {
    this.stroke = { cells: new Map(), allows: Number.isNaN(this.weights[first.row][first.column]), last: first };
    this.#extend(first);
  }

  /** @param {import("./types").Cell | null} cell */
  #extend(cell) {
    if (!cell || cell.column === null || !this.stroke) return;
    const end = { row: cell.row, column: cell.column };
    for (const painted of line(this.stroke.last, end)) this.stroke.cells.set(`${painted.row} ${painted.column}`, painted);
    this.stroke.last = end;
    this.chart.redraw();
  }

  #end() {
    if (!this.stroke) return;
    const cells = [...this.stroke.cells.values()].flatMap(({ row, column }) => [row, column]);
    this.chart.report("stroke", { cells, value: this.stroke.allows, stamp: this.header.stamp });
  }

  /** @param {import("./types").Cell | null} cell */
  read(cell) {
    super.read(cell);
    if (!cell) this.chart.say(this.chart.hint, true); // and not what the pinned query looks at
  }

  draw() {
    super.draw();
    for (const { row, column } of this.stroke?.cells.values() ?? [])
      this.frame(row, column, { fill: this.chart.accent, "fill-opacity": this.stroke?.allows ? 0.7 : 0.25 });
  }
}

/**
 * @param {Painted} from
 * @param {Painted} to
 * @returns {Painted[]} the cells from one to the other
 */
export function line(from, to) {
  const steps = Math.max(1, Math.abs(to.row - from.row), Math.abs(to.column - from.column));
  /** @type {(start: number, end: number, step: number) => number} */
  const between = (start, end, step) => Math.round(start + ((end - start) * step) / steps);
  return Array.from({ length: steps + 1 }, (_, step) => ({
    row: between(from.row, to.row, step),
    column: between(from.column, to.column, step),
  }));
}
