// A point that can be dragged. It moves in the browser alone, by the pointer or by the arrow keys, as an arrow from the
// origin, and is reported where it is let go.

import { Controller } from "./controller.js";
import { isPlain, STEPS } from "./keys.js";
import { keepEqual } from "./payload.js";
import { follow } from "./pointer.js";
import { project } from "./projection.js";

/** @typedef {import("./types").Pair} Pair */

const REACH = 32; // pixels around the point that a finger need not hit any better
const TAP = 8; // pixels that a finger may move

/** @extends {Controller<import("./types").PlaneSpec>} */
export class PlaneController extends Controller {
  /** @type {Pair | null} where the point is while it is dragged */
  dragged = null;
  /** @type {Pair | null} where it was dropped, until a figure knows of that */
  dropped = null;
  drops = 0;

  /**
   * @param {import("./chart.js").Chart} chart
   * @param {import("./types").Header & { spec: import("./types").PlaneSpec }} header
   */
  constructor(chart, header) {
    super(chart, header);
    const { stage } = chart;
    const { signal } = this.closed;
    /** @param {TouchEvent} event */
    const hold = (event) => chart.drawn && this.header.drags && this.#isNear(event.touches[0]) && event.preventDefault();
    stage.addEventListener("touchstart", hold, { passive: false, signal });
    for (const kind of ["keyup", "blur"]) stage.addEventListener(kind, () => this.#report(), { signal });
  }

  /** @param {import("./types").Header & { spec: import("./types").PlaneSpec }} header */
  update(header) {
    header.figure.data = keepEqual(this.header.figure.data, header.figure.data);
    super.update(header);
  }

  async drawn() {
    const { chart, header } = this;
    // Where the figure does not know of the last drop yet, or the point is under way, the point stays put.
    if (header.drop >= this.drops) this.dropped = null;
    chart.graph.setVisible(this.spec.drag, true);
    chart.clearOverlay();
    const { dragged, dropped } = this;
    const place = dragged ?? dropped;
    if (place) this.#moveTo(place);
    else {
      this.#tell(this.spec.drag.start);
      chart.say(chart.hint, true);
    }
    this.dragged = dragged;
  }

  read() {}

  /** @param {PointerEvent} down */
  press(down) {
    if (!this.chart.drawn || !this.header.drags) return;
    // A finger scrolls the page, unless it goes down on the point, or is lifted where it went down.
    if (down.pointerType === "touch" && !this.#isNear(down)) return this.#follow(down, true);
    down.preventDefault();
    this.chart.stage.focus({ preventScroll: true });
    this.#moveTo(this.#pointAt(down));
    this.#follow(down, false);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = STEPS[event.key];
    if (!step || !this.header.drags || event.target !== this.chart.stage || !isPlain(event)) return;
    event.preventDefault();
    const [x, y] = this.#place;
    const far = this.spec.drag.step * (event.shiftKey ? 5 : 1);
    this.#moveTo([x + step[1] * far, y - step[0] * far]);
  }

  /** Where the point is. */
  get #place() {
    return this.dragged ?? this.dropped ?? this.spec.drag.start;
  }

  /** @param {{ clientX: number, clientY: number }} pointer */
  #pointAt(pointer) {
    return this.chart.graph.point(this.chart.pixelsOf(pointer));
  }

  /** @param {{ clientX: number, clientY: number }} pointer */
  #isNear(pointer) {
    const [left, top] = this.chart.pixelsOf(pointer);
    const [x, y] = this.chart.graph.pixels(this.#place);
    return Math.hypot(left - x, top - y) <= REACH;
  }

  /**
   * Follows one pointer until it is lifted. A tap moves the point only then.
   * @param {PointerEvent} down
   * @param {boolean} tap
   */
  #follow(down, tap) {
    let frame = 0;
    const end = (/** @type {PointerEvent} */ up) => {
      cancelAnimationFrame(frame);
      const isMeant = !tap || Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY) < TAP;
      if (up.type === "pointerup" && isMeant) this.#moveTo(this.#pointAt(up));
      this.#report();
    };
    follow(down, end, (move) => {
      if (tap || frame) return;
      frame = requestAnimationFrame(() => {
        frame = 0;
        this.#moveTo(this.#pointAt(move));
      });
    });
  }

  /** @param {Pair} point */
  #moveTo(point) {
    this.dragged = /** @type {Pair} */ (point.map((value) => snap(value, this.spec.drag)));
    this.chart.graph.setVisible(this.spec.drag, false);
    this.#drawArrows(this.dragged);
    this.#tell(this.dragged);
    const [x, y] = this.dragged.map((value) => String(value).replace("-", "−"));
    this.chart.say(this.spec.drag.sentence, false, { x, y });
  }

  /**
   * Tells other parts of the page where the point is drawn.
   * @param {Pair} place
   */
  #tell(place) {
    const detail = { key: this.header.key, place };
    this.chart.root.dispatchEvent(new CustomEvent("attnviz-drag", { detail, bubbles: true }));
  }

  /** @param {Pair} tip */
  #drawArrows(tip) {
    const { chart } = this;
    const { color, matrix } = this.spec.drag;
    chart.clearOverlay();
    if (matrix) {
      this.#drawArrow(project(matrix, tip), color, 2.5);
      const [[x1, y1], [x2, y2]] = [tip, project(matrix, tip)].map((point) => chart.graph.pixels(/** @type {Pair} */ (point)));
      chart.add("line", { x1, y1, x2, y2, stroke: color, "stroke-width": 2.5, "stroke-dasharray": "2 5" });
    }
    const end = this.#drawArrow(tip, color, 5);
    chart.add("circle", { cx: end[0], cy: end[1], r: 12, fill: "none", stroke: color, "stroke-width": 3 });
  }

  /**
   * An arrow from the origin.
   * @param {Pair} tip
   * @param {string} color
   * @param {number} width
   * @returns {Pair} the pixels of its tip
   */
  #drawArrow(tip, color, width) {
    const { chart } = this;
    const [[x0, y0], [x1, y1]] = [chart.graph.pixels([0, 0]), chart.graph.pixels(tip)];
    const length = Math.hypot(x1 - x0, y1 - y0);
    const [along, up] = length ? [(x1 - x0) / length, (y1 - y0) / length] : [0, 0];
    const [back, wide] = [Math.min(16, length), 7];
    const [x, y] = [x1 - back * along, y1 - back * up];
    const head = `M${x1} ${y1}L${x - wide * up} ${y + wide * along}L${x + wide * up} ${y - wide * along}Z`;
    chart.add("line", { x1: x0, y1: y0, x2: x, y2: y, stroke: color, "stroke-width": width });
    chart.add("path", { d: head, fill: color });
    return [x1, y1];
  }

  #report() {
    const { dragged: point, dropped, chart, header } = this;
    if (!point) return;
    this.dragged = null;
    chart.announce();
    if (!dropped && String(point) === String(this.spec.drag.start)) return void chart.show(header); // as it was
    this.dropped = point;
    this.drops = Math.max(this.drops, header.drop) + 1;
    chart.report("drag", { x: point[0], y: point[1], drop: this.drops, stamp: header.dragStamp });
  }
}

/**
 * @param {number} value
 * @param {{ limits: Pair, step: number }} drag
 * @returns {number} the value within the limits, rounded to the step
 */
export function snap(value, { limits, step }) {
  const inside = Math.max(limits[0], Math.min(limits[1], value));
  return Number((Math.round(inside / step) * step).toFixed(6)) + 0; // no −0
}
