// What all modes of a chart share. A mode without more than this is a figure that is only shown.

import { isPlain, STEPS } from "./keys.js";
import { follow } from "./pointer.js";

/** @typedef {import("./types").Cell} Cell */

const STILL = 4; // pixels that a click may move

/** @template {import("./types").Spec} S */
export class Controller {
  isOverview = false; // drawn after the others of the page, with letters that grow in a narrow column, too

  /**
   * @param {import("./chart.js").Chart} chart
   * @param {import("./types").Header & { spec: S }} header
   */
  constructor(chart, header) {
    this.chart = chart;
    this.header = header;
    this.closed = new AbortController();
  }

  get spec() {
    return this.header.spec;
  }

  close() {
    this.closed.abort();
  }

  /** @param {import("./types").Header & { spec: S }} header that of another figure of the same mode */
  update(header) {
    this.header = header;
  }

  // The picture ----------------------------------------------------------------------------------------------------

  /** @returns {{ rows: number | null, columns: number | null }} the size of the map, for those who test a page */
  get size() {
    const { rows = null, columns = null } = /** @type {any} */ (this.spec);
    return { rows, columns };
  }

  /** The greatest height in pixels to which the chart may grow. */
  get greatestHeight() {
    return 900;
  }

  /** The height in pixels that all labels need. */
  get leastHeight() {
    return 0;
  }

  /** The greatest height for the width; null where there is no limit. @returns {number | null} */
  get aspect() {
    return /** @type {any} */ (this.spec).aspect ?? null;
  }

  /**
   * The size in pixels of the picture, which scrolls where it is larger than its place.
   * @param {number} width of its place
   * @param {number} height
   */
  fit(width, height) {
    return { width, height };
  }

  /** Whether the chart has a wide line of text above a narrow picture. */
  get isSmall() {
    return false;
  }

  /** Pixels that are needed below the picture. */
  get below() {
    return 0;
  }

  /** @param {import("./types").Layout} _layout to be changed before it is drawn */
  arrange(_layout) {}

  /** Called once the figure is drawn. @returns {Promise<void>} */
  async drawn() {
    this.read(null);
  }

  /** Called when a person has zoomed. @returns {Promise<void>} */
  async zoomed() {}

  /** Shows the whole map again. */
  unzoom() {}

  /** Draws what lies over the figure. */
  draw() {}

  // Reading and clicking -------------------------------------------------------------------------------------------

  /**
   * @param {PointerEvent} _event
   * @returns {Cell | null}
   */
  cellAt(_event) {
    return null;
  }

  /** @param {Cell | null} _cell under the pointer or the arrow keys */
  read(_cell) {
    this.chart.say(this.chart.hint, true);
  }

  /** @param {Cell | null} cell to be read here and in linked charts */
  readAll(cell) {
    this.read(cell);
  }

  /** @param {PointerEvent} down */
  press(down) {
    follow(down, (up) => {
      const cell = up.type === "pointerup" ? this.cellAt(up) : null;
      if (cell && Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY) <= STILL) this.release(cell, up);
    });
  }

  /**
   * @param {Cell} cell
   * @param {PointerEvent} _up
   */
  release(cell, _up) {
    this.click(cell);
  }

  /** @param {{ row: number, column?: number | null }} cell */
  click({ row, column }) {
    // The stamp tells Python which cells were clicked; a click on those that have been replaced by then is dropped.
    this.chart.report("click", { row, column: column ?? -1, stamp: this.header.clickStamp });
  }

  /** @param {KeyboardEvent} _event */
  key(_event) {}
}

/**
 * A figure with cells that the pointer and the arrow keys read.
 * @template {import("./types").Spec} S
 * @extends {Controller<S>}
 */
export class ReadingController extends Controller {
  /** @type {Cell | null} the cell under the pointer or the arrow keys */
  cursor = null;

  /** @returns {Cell} where the arrow keys begin */
  first() {
    return { row: 0, column: 0 };
  }

  /**
   * @param {Cell} cell
   * @param {[number, number]} _step
   * @returns {Cell} the next one
   */
  next(cell, _step) {
    return cell;
  }

  /**
   * @param {Cell} cell
   * @param {boolean} _last
   * @returns {Cell} the first or the last one of its row
   */
  end(cell, _last) {
    return cell;
  }

  /**
   * @param {Cell} cell
   * @param {string} key
   * @returns {boolean} whether the key does something with the cell
   */
  act(cell, key) {
    if (key !== "Enter" && key !== " ") return false;
    this.click(cell);
    return true;
  }

  /**
   * @param {Cell} _cell
   * @returns {boolean} whether there is something to read
   */
  has(_cell) {
    return true;
  }

  async drawn() {
    this.read(this.cursor && this.has(this.cursor) ? this.cursor : null);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.target !== this.chart.stage || !isPlain(event)) return;
    const step = STEPS[event.key];
    let cell = this.cursor ?? this.first();
    if (step && this.cursor) cell = this.next(cell, step);
    else if (event.key === "Home" || event.key === "End") cell = this.end(cell, event.key === "End");
    else if (!step && !this.act(cell, event.key)) return;
    event.preventDefault();
    if (!this.has(cell)) return;
    this.readAll(cell);
    this.chart.announce();
  }
}

/**
 * Cells with a name each: heads, points or bars.
 * @template {import("./types").Spec} S
 * @extends {ReadingController<S>}
 */
export class NamingController extends ReadingController {
  /**
   * @param {Cell} _cell
   * @returns {string | undefined}
   */
  nameOf(_cell) {
    return undefined;
  }

  /** @param {Cell} cell */
  has(cell) {
    return Boolean(this.nameOf(cell));
  }

  /** @param {Cell | null} cell */
  read(cell) {
    this.cursor = cell;
    this.chart.say((cell && this.nameOf(cell)) ?? this.chart.hint, !cell);
    this.chart.stage.style.cursor = cell && this.header.clicks ? "pointer" : "";
    this.chart.redraw();
  }
}
