// A picture as a model saw it: the weights of the query that a linked map shows lie over its patches, or turned round
// those of all queries on one key. The pointer reads a patch in the map, and a click pins its query there. Where a region
// is marked, a drag adds a rectangle to it, or takes it out.

import { ReadingController } from "./controller.js";
import { button, element } from "./elements.js";
import { followers, linkedMap } from "./heatmap.js";
import { number } from "./number.js";
import { follow } from "./pointer.js";
import { _ } from "./words.js";

/** @typedef {import("./types").Cell} Cell */
/** @typedef {import("./types").PictureSpec} PictureSpec */

const STEPS = 4; // from the picture alone to black where a patch has no weight
const BUTTONS = 34; // pixels above the picture
const SAME = 1e-6; // fractions of a picture

/** How the weights lie over the pictures of a page, which all look alike: how much of a patch without weight is covered. */
const look = { cover: 0.75, isSmooth: false };

/** A cell is a patch, its number as the row. @extends {ReadingController<PictureSpec>} */
export class PictureController extends ReadingController {
  isTurned = false; // to who looks at a patch
  /** @type {number | null} the pinned row of the map that was shown last */
  pinned = null;
  /** @type {{ first: number, last: number } | null} */
  stroke = null; // from a patch to another one

  /**
   * @param {import("./chart.js").Chart} chart
   * @param {import("./types").Header & { spec: PictureSpec }} header
   */
  constructor(chart, header) {
    super(chart, header);
    followers.add(this);
    this.turn = button(_("Who looks at it"), "", () => this.#turn());
    this.turn.setAttribute("aria-pressed", "false");
    this.smooth = button(_("Smooth"), "attnviz-look", () => this.#look({ isSmooth: !look.isSmooth }));
    this.smooth.title = _("Smooth between the middles of patches, for the eye; numbers stay those of patches.");
    this.cover = element("input", "attnviz-look");
    Object.assign(this.cover, { type: "range", min: "0", max: "1", step: String(1 / STEPS), title: _("How dark patches without weight are") });
    this.cover.setAttribute("aria-label", this.cover.title);
    this.cover.oninput = () => this.#look({ cover: Number(this.cover.value) });
    chart.tools.append(this.turn, this.smooth, this.cover);
    this.#look({});
    this.update(header);
  }

  /** @param {import("./types").Header & { spec: PictureSpec }} header */
  update(header) {
    super.update(header);
    this.stroke = null; // what was marked is in the new figure
    this.turn.hidden = header.spec.row !== null || !header.spec.patches.some(({ row }) => row >= 0);
  }

  close() {
    super.close();
    followers.delete(this);
    for (const one of [this.turn, this.smooth, this.cover]) one.remove();
  }

  /** @param {Partial<typeof look>} change of how the weights lie over all pictures */
  #look(change) {
    Object.assign(look, change);
    for (const one of followers)
      if (one instanceof PictureController) {
        one.smooth.setAttribute("aria-pressed", String(look.isSmooth));
        one.cover.value = String(look.cover);
        one.chart.redraw();
      }
  }

  #turn() {
    this.isTurned = !this.isTurned;
    this.turn.setAttribute("aria-pressed", String(this.isTurned));
    this.follow();
  }

  get map() {
    return linkedMap(this.spec.link);
  }

  get size() {
    return { rows: this.spec.patches.length, columns: 1 };
  }

  get isSmall() {
    return true; // the sentence has the whole width
  }

  /** @param {import("./types").Layout} layout */
  arrange(layout) {
    layout.margin.t = BUTTONS;
  }

  async drawn() {
    await super.drawn();
    this.follow();
  }

  /** Shows what the map shows. */
  follow() {
    if (!this.chart.drawn) return;
    const pinned = this.map?.rest?.row ?? null;
    if (pinned !== this.pinned) {
      this.pinned = pinned;
      if (this.cursor) return this.map?.readAll(null); // what has been pinned is shown while the pointer rests
    }
    this.#tell();
    this.chart.redraw();
  }

  /**
   * The numbers that lie over the patches: those of the row that is shown, or turned round those of a column.
   * @returns {{ row: number, column: number | null, weights: number[] } | null} NaN where there is none
   */
  get shown() {
    const { map, spec, cursor } = this;
    if (spec.row) return { row: NaN, column: cursor && spec.patches[cursor.row].column, weights: [...spec.row.weights] };
    const cell = map && (map.cursor ?? map.rest);
    if (!map || !cell) return null;
    if (!this.isTurned) return { ...cell, weights: spec.patches.map(({ column }) => map.weights[cell.row][column] ?? NaN) };
    const column = cell.column ?? this.#columnOf(cell.row);
    if (column < 0) return null;
    return { row: cell.row, column, weights: spec.patches.map(({ row }) => map.weights[row]?.[column] ?? NaN) };
  }

  /**
   * The column of the token of a row, -1 if there is none.
   * @param {number} row
   */
  #columnOf(row) {
    const { queryTokens, keyTokens } = /** @type {import("./types").HeatmapSpec} */ (this.map?.spec);
    const patch = this.spec.patches.find((one) => one.row === row);
    return patch?.column ?? (String(queryTokens) === String(keyTokens) ? row : -1);
  }

  /**
   * A name at the beginning of a sentence: that of a patch has a capital letter, a token stays what it is.
   * @param {string} name
   */
  #subject(name) {
    return this.spec.patches.some((patch) => patch.name === name) ? name.charAt(0).toUpperCase() + name.slice(1) : name;
  }

  /** Says the cell that is read, or where the weights of the row go. */
  #tell() {
    const { map, spec, shown, chart, cursor } = this;
    const { patches } = spec;
    if (spec.row && shown) {
      const { weights, sentence } = spec.row, query = this.#subject(spec.row.query);
      if (cursor) return chart.say(sentence, false, { query, key: patches[cursor.row].name, weight: number(weights[cursor.row]) });
      return chart.say(spec.rowSentence, false, { query, share: number(sumOf(shown.weights)) });
    }
    if (!map || !shown) return chart.say(chart.hint, true);
    /** @type {(side: "row" | "column", place: number, tokens: string[]) => string} */
    const name = (side, place, tokens) => patches.find((patch) => patch[side] === place)?.name ?? tokens[place];
    const query = this.#subject(name("row", shown.row, map.spec.queryTokens));
    const key = shown.column === null ? "" : name("column", shown.column, map.spec.keyTokens);
    if (this.isTurned) return chart.say(spec.turnedSentence, false, { key });
    if (key) return chart.say(map.spec.sentences.allowed, false, { query, key, weight: number(map.weights[shown.row][shown.column ?? 0]) });
    chart.say(spec.rowSentence, false, { query, share: number(sumOf(shown.weights)) });
  }

  // Reading and clicking -------------------------------------------------------------------------------------------

  /** @param {PointerEvent} event */
  cellAt(event) {
    const { graph } = this.chart;
    if (!graph.hasAxes || !graph.area) return null;
    const [x, y] = graph.point(this.chart.pixelsOf(event));
    const row = this.spec.patches.findIndex(({ box: [left, top, right, bottom] }) => x >= left && x < right && y >= top && y < bottom);
    return row < 0 ? null : { row, column: null };
  }

  /** @param {Cell | null} cell a patch */
  read(cell) {
    this.cursor = cell;
    const { map } = this;
    if (map && !this.spec.row && (cell || map.cursor)) map.readAll(cell && this.#cellOf(cell.row));
    else this.follow();
  }

  /**
   * The cell of the map that a patch reads: what the shown query gives to it; without such a query, or turned round, its
   * own row.
   * @param {number} patch
   * @returns {Cell | null}
   */
  #cellOf(patch) {
    const { row, column } = this.spec.patches[patch];
    const pinned = this.map?.rest?.row ?? null;
    if (!this.isTurned && pinned !== null && column >= 0) return { row: pinned, column };
    if (row >= 0) return { row, column: this.isTurned && column >= 0 ? column : null };
    return null;
  }

  /** @type {ReadingController<any>["click"]} */
  click({ row }) {
    const query = this.spec.patches[row].row;
    if (query < 0) return;
    if (this.spec.row) super.click({ row });
    else this.map?.click({ row: query });
  }

  /** @param {PointerEvent} down */
  press(down) {
    const first = this.header.paints && this.cellAt(down);
    if (!first) return super.press(down);
    down.preventDefault();
    this.#mark(first.row, first.row);
    follow(down, (up) => (up.type === "pointercancel" ? this.#drop() : this.#markEnd()), (move) => {
      const last = this.cellAt(move);
      if (last) this.#mark(first.row, last.row);
    });
  }

  /** @type {ReadingController<any>["act"]} */
  act(cell, key) {
    if (key !== " " || !this.header.paints) return super.act(cell, key);
    this.#mark(cell.row, cell.row);
    this.#markEnd();
    return true;
  }

  /**
   * @param {number} first a patch
   * @param {number} last
   */
  #mark(first, last) {
    this.stroke = { first, last };
    this.chart.redraw();
  }

  /** Of a finger that scrolls the page. */
  #drop() {
    this.stroke = null;
    this.chart.redraw();
  }

  #markEnd() {
    if (!this.stroke) return;
    const value = !this.spec.region.includes(this.stroke.first);
    this.chart.report("stroke", { cells: this.marked.flatMap((patch) => [patch, 0]), value, stamp: this.header.stamp });
  }

  /** The patches of the rectangle that is being dragged. */
  get marked() {
    if (!this.stroke) return [];
    return within(this.spec.patches.map(({ box }) => box), this.stroke.first, this.stroke.last);
  }

  /** @type {ReadingController<any>["next"]} */
  next({ row }, [down, right]) {
    const { patches } = this.spec;
    const [x, y] = middle(patches[row].box);
    /** @type {(patch: number) => number} */
    const distance = (patch) => {
      const [left, top] = middle(patches[patch].box);
      const [along, across] = right ? [(left - x) * right, Math.abs(top - y)] : [(top - y) * down, Math.abs(left - x)];
      return along > SAME ? along + 4 * across : Infinity;
    };
    const nearest = patches.reduce((best, _patch, i) => (distance(i) < distance(best) ? i : best), row);
    return { row: nearest, column: null };
  }

  // Over the picture -----------------------------------------------------------------------------------------------

  draw() {
    const { shown, chart, spec: { patches, region, row: own } } = this;
    if (!shown) return;
    const { row, column, weights } = shown;
    const covers = coverOf(weights, look.cover, own?.largest);
    const grid = look.isSmooth ? gridOf(patches.map(({ box }) => box)) : null;
    if (grid) chart.add("image", { ...this.#rectangle(grid.box), href: this.#shadow(grid, covers), preserveAspectRatio: "none" });
    else
      covers.forEach((cover, i) =>
        chart.add("rect", { ...this.#rectangle(patches[i].box), fill: "#000", "fill-opacity": cover.toFixed(3), "shape-rendering": "crispEdges" }),
      );
    const half = this.#outline(halfOfMass(weights));
    for (const [style, width] of [["#1b1e2e", 4], [chart.accent, 2.2]])
      chart.add("path", { d: half, fill: "none", stroke: style, "stroke-width": width, "stroke-linejoin": "round" });
    const marked = patches.filter((patch, i) => (own ? own.marked.includes(i) : !this.isTurned && patch.row === row));
    for (const { box } of [...marked, ...patches.filter((patch) => column !== null && patch.column === column)])
      for (const [stroke, width] of [["#1b1e2e", 5], ["#fff", 2.5]]) chart.add("rect", { ...this.#rectangle(box), fill: "none", stroke, "stroke-width": width });
    this.#drawRegion(region);
    for (const patch of this.marked) chart.add("rect", { ...this.#rectangle(patches[patch].box), fill: chart.accent, "fill-opacity": 0.5 });
  }

  /**
   * Crosses patches out, with a line around them.
   * @param {number[]} region
   */
  #drawRegion(region) {
    const { chart, spec: { patches } } = this;
    const crosses = region.map((patch) => {
      const { x, y, width, height } = this.#rectangle(patches[patch].box);
      return `M${x},${y + height}L${x + width},${y}`;
    });
    for (const [stroke, width] of [["#1b1e2e", 3], ["#fff", 1.2]]) {
      chart.add("path", { d: crosses.join(""), stroke, "stroke-width": width, "stroke-opacity": 0.7 });
      chart.add("path", { d: this.#outline(region), fill: "none", stroke, "stroke-width": 1.5 * Number(width) });
    }
  }

  /**
   * What covers the patches as an image, a pixel each, which the browser smooths where it is enlarged.
   * @param {NonNullable<ReturnType<typeof gridOf>>} grid
   * @param {number[]} covers
   */
  #shadow({ rows, columns, cells }, covers) {
    const canvas = element("canvas");
    [canvas.width, canvas.height] = [columns, rows];
    const image = new ImageData(columns, rows);
    cells.forEach((cell, i) => (image.data[4 * cell + 3] = Math.round(255 * covers[i])));
    canvas.getContext("2d")?.putImageData(image, 0, 0);
    return canvas.toDataURL();
  }

  /** @param {import("./types").Box} box */
  #rectangle([left, top, right, bottom]) {
    const [[x, y], [x1, y1]] = [this.chart.graph.pixels([left, top]), this.chart.graph.pixels([right, bottom])];
    return { x, y, width: Math.max(0, x1 - x), height: Math.max(0, y1 - y) };
  }

  /**
   * The lines around some patches together.
   * @param {number[]} chosen
   */
  #outline(chosen) {
    return outline(chosen.map((i) => this.spec.patches[i].box)).map(([x0, y0, x1, y1]) => {
      const [from, to] = [this.chart.graph.pixels([x0, y0]), this.chart.graph.pixels([x1, y1])];
      return `M${from}L${to}`;
    }).join("");
  }
}

/** @param {number[]} weights NaN where there is none */
function sumOf(weights) {
  return weights.reduce((sum, weight) => sum + (weight || 0), 0);
}

/**
 * The boxes whose middles lie in the rectangle around two of them.
 * @param {import("./types").Box[]} boxes
 * @param {number} first
 * @param {number} last
 * @returns {number[]}
 */
export function within(boxes, first, last) {
  const [one, other] = [boxes[first], boxes[last]];
  const [left, top, right, bottom] = [Math.min(one[0], other[0]), Math.min(one[1], other[1]), Math.max(one[2], other[2]), Math.max(one[3], other[3])];
  return boxes.flatMap((box, i) => {
    const [x, y] = middle(box);
    return x > left && x < right && y > top && y < bottom ? [i] : [];
  });
}

/** @param {import("./types").Box} box @returns {import("./types").Pair} */
function middle([left, top, right, bottom]) {
  return [(left + right) / 2, (top + bottom) / 2];
}

/**
 * How much of each patch is covered: nothing of the one with the largest weight, `most` of those without.
 * @param {number[]} weights NaN where there is none
 * @param {number} most
 * @param {number | null} [largest]
 */
export function coverOf(weights, most, largest) {
  largest ??= Math.max(...weights.filter((weight) => weight > 0), 0);
  return weights.map((weight) => most * (1 - (largest ? Math.max(0, weight || 0) / largest : 0)));
}

/**
 * The rows and columns of boxes that fill a grid, and the cell of each; null of other boxes.
 * @param {import("./types").Box[]} boxes
 */
export function gridOf(boxes) {
  const [lefts, tops] = [0, 1].map((side) => [...new Set(boxes.map((box) => Math.round(box[side] / SAME)))].sort((a, b) => a - b));
  const cells = boxes.map(([left, top]) => tops.indexOf(Math.round(top / SAME)) * lefts.length + lefts.indexOf(Math.round(left / SAME)));
  const isFull = boxes.length > 0 && new Set(cells).size === boxes.length && boxes.length === lefts.length * tops.length;
  const [first, last] = [boxes[cells.indexOf(0)], boxes[cells.indexOf(boxes.length - 1)]];
  return isFull ? { rows: tops.length, columns: lefts.length, cells, box: /** @type {import("./types").Box} */ ([first[0], first[1], last[2], last[3]]) } : null;
}

/**
 * The fewest patches that have half of the sum of all weights.
 * @param {ArrayLike<number>} weights NaN where there is none
 * @returns {number[]}
 */
export function halfOfMass(weights) {
  const order = Array.from(weights, (_weight, i) => i).filter((i) => weights[i] > 0).sort((a, b) => weights[b] - weights[a]);
  const half = order.reduce((sum, i) => sum + weights[i], 0) / 2;
  let sum = 0;
  return order.filter((i) => {
    const isIn = sum < half;
    sum += weights[i];
    return isIn;
  });
}

/**
 * The edges of boxes of one size that no two of them share.
 * @param {import("./types").Box[]} boxes
 * @returns {import("./types").Box[]} lines, from x and y to x and y
 */
export function outline(boxes) {
  /** @type {Map<string, { line: import("./types").Box, count: number }>} */
  const edges = new Map();
  for (const [left, top, right, bottom] of boxes)
    for (const line of /** @type {import("./types").Box[]} */ ([[left, top, right, top], [left, bottom, right, bottom], [left, top, left, bottom], [right, top, right, bottom]])) {
      const key = line.map((value) => Math.round(value / SAME)).join();
      edges.set(key, { line, count: (edges.get(key)?.count ?? 0) + 1 });
    }
  return [...edges.values()].filter(({ count }) => count === 1).map(({ line }) => line);
}
