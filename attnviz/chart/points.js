// Points or bars of the first trace, each with a sentence.

import { NamingController } from "./controller.js";

/** @typedef {import("./types").Cell} Cell */

const NEAR = 40; // pixels from the pointer to a point that is meant

/** @extends {NamingController<import("./types").PointsSpec>} */
export class PointsController extends NamingController {
  get size() {
    return { rows: this.spec.sentences.length, columns: 1 };
  }

  /** @param {Cell} cell */
  nameOf(cell) {
    return this.spec.sentences[cell.row];
  }

  /** Where the points are, in pixels; NaN where one has no place. */
  places() {
    const { x, y } = this.header.figure.data[0];
    return this.spec.sentences.map((_, i) => this.chart.graph.pixels([x?.[i] ?? NaN, y?.[i] ?? NaN]));
  }

  /** @param {PointerEvent} event */
  cellAt(event) {
    const { graph } = this.chart;
    if (!graph.hasAxes || !graph.area) return null;
    const { l, t, w, h } = graph.area;
    const [left, top] = this.chart.pixelsOf(event);
    const { bars } = this.spec;
    if (bars && (left < l || left > l + w || top < t || top > t + h)) return null;
    const distances = this.places().map(([x, y]) => Math.hypot(x - left, bars ? 0 : y - top));
    const row = distances.reduce((best, distance, i) => (distance < (distances[best] ?? NEAR) ? i : best), -1);
    return row < 0 ? null : { row, column: 0 };
  }

  first() {
    return this.#move(-1, 1, 0);
  }

  /** @type {NamingController<any>["next"]} */
  next({ row }, [down, right]) {
    return this.#move(row, right || down, right ? 0 : 1);
  }

  /**
   * @param {number} row
   * @param {number} step
   * @param {0 | 1} axis
   * @returns {Cell} the point that many places on, in the order along an axis
   */
  #move(row, step, axis) {
    const places = this.places();
    const order = places.map((_, i) => i).filter((i) => !places[i].some(Number.isNaN));
    order.sort((a, b) => places[a][axis] - places[b][axis]);
    const place = Math.max(0, Math.min(order.length - 1, order.indexOf(row) + step));
    return { row: order[place] ?? 0, column: 0 };
  }

  draw() {
    const [cx, cy] = this.cursor ? this.places()[this.cursor.row] : [NaN, NaN];
    if (!Number.isNaN(cx + cy))
      this.chart.add("circle", { cx, cy, r: 9, fill: "none", stroke: this.chart.accent, "stroke-width": 3 });
  }
}
