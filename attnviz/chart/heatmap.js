// A map of queries and keys. The pointer or the arrow keys pick a cell, which a sentence tells, and a fan has the
// weights of its query. Maps of one link share the cell and the part in view. A map can be zoomed; of a downsampled map
// a zoom asks for the figure of its viewport.

import { bottomMargin, keyTicks, LEAST, leftMargin, MOST_LABELS, shorten, ticks, widths } from "./axes.js";
import { changeOf, strongest } from "./change.js";
import { ReadingController } from "./controller.js";
import { cellAddress } from "./cell_links.js";
import { drawFan } from "./fan.js";
import { linkedCell } from "./linked_cells.js";
import { number } from "./number.js";

/** @typedef {import("./axes.js").Axis} Axis */
/** @typedef {import("./types").Cell} Cell */
/** @typedef {import("./types").Pair} Pair */
/** @typedef {import("./types").Header & { spec: import("./types").HeatmapSpec }} HeatmapHeader */

const LABEL_WIDTH = 0.26; // of a small map's chart, for the labels of its queries
const PAIR_WIDTH = 0.42; // and of labels of two words, of what goes into a decoder and what comes out
const AROUND = 120; // pixels above and below a map, for its color bar and the labels of keys
const DOUBLE_CLICK = 300; // milliseconds, as plotly has it
const REST = 250; // milliseconds after which the wheel is at rest
// Labels that leave the picture there are none: for each label plotly would look for them among all.
const OWN_MARGINS = { automargin: false, ticklabeloverflow: "allow" };
const AXES = /** @type {const} */ (["xaxis", "yaxis"]);
/** @type {Set<HeatmapController>} */
const open = new Set();
/** @type {Set<{ spec: { link: string }, follow: () => void }>} charts that show what the maps of their link show */
export const followers = new Set();

/** @extends {ReadingController<import("./types").HeatmapSpec>} */
export class HeatmapController extends ReadingController {
  zoomKey = "";
  viewed = ""; // the cells in view that were asked for last
  isRelabelling = false;
  isFollowing = false; // another chart of the link is zoomed
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  wheeling; // until the wheel is at rest
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  waiting; // a click that may be the first half of a double click
  released = 0;
  fontSize = 0; // of the labels, in pixels
  /** @type {Omit<Axis, "range">[]} of keys and queries */
  labels = [];
  /** @type {Map<string, string>} */
  cellSentences = new Map();
  /** @type {Cell | null} the cell that was clicked, in a figure with links of cells */
  clicked = null;

  /**
   * @param {import("./chart.js").Chart} chart
   * @param {HeatmapHeader} header
   */
  constructor(chart, header) {
    super(chart, header);
    open.add(this);
    this.update(header);
    chart.stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false, signal: this.closed.signal });
  }

  close() {
    super.close();
    open.delete(this);
    this.chart.root.classList.remove("attnviz-cells");
    this.chart.link.hidden = true;
    clearTimeout(this.waiting);
    clearTimeout(this.wheeling);
  }

  /** @param {HeatmapHeader} header */
  update(header) {
    if (header.stamp !== this.header.stamp) this.clicked = null;
    super.update(header);
    const { link } = this.chart, { cellLinks } = this.spec;
    link.hidden = !cellLinks;
    link.textContent = cellLinks?.text ?? "";
    this.cellSentences = new Map(this.spec.cellSentences.map(([row, column, text]) => [`${row} ${column}`, text]));
    const { row = 0, column = 0 } = this.cursor ?? {};
    if (row >= this.weights.length || (column ?? 0) >= this.weights[0].length) this.cursor = null;
    this.chart.root.classList.toggle("attnviz-cells", Boolean(this.spec.downsampled));
    this.viewed = String([0, this.size.rows - 1, 0, this.size.columns - 1]);
  }

  /**
   * Fills rows of a map that were blank, and names them and their columns; the figure stays as large as it is.
   * @param {import("./types").Growth} growth
   */
  async grow({ first, rows, ...names }) {
    const { chart, spec, header } = this;
    const [{ z: weights }, blank] = header.figure.data;
    if (!weights || !chart.drawn || first + rows.length > weights.length) return;
    rows.forEach((row, i) => {
      weights[first + i].set(row);
      blank?.z?.[first + i].fill(NaN);
    });
    for (const [name, texts] of /** @type {[keyof typeof names, string[]][]} */ (Object.entries(names))) spec[name].splice(first, texts.length, ...texts);
    const size = this.fontSize, { family } = header.themes[chart.theme].layout.font;
    const room = Math.max(...this.labels[1].widths);
    this.labels = [spec.keyLabels, spec.queryLabels].map((labels) => {
      const short = shorten(labels, widths(labels, size, family), room);
      return { labels: short, widths: widths(short, size, family) };
    });
    const ticktext = AXES.map((axis, i) => [`${axis}.ticktext`, chart.graph.tickvals(axis)?.map((tick) => this.labels[i].labels[tick])]);
    await chart.graph.update([[...weights], blank && [...(blank.z ?? [])]].filter(Boolean), Object.fromEntries(ticktext));
    this.read(this.cursor);
  }

  /** @param {number | null} row that is read elsewhere; null: none */
  readRow(row) {
    if (!this.spec.downsampled) this.readAll(row !== null && row < this.size.rows ? { row, column: null } : null);
  }

  get weights() {
    return /** @type {import("./types").Row[]} */ (this.header.figure.data[0].z);
  }

  get size() {
    return { rows: this.spec.queryTokens.length, columns: this.spec.keyTokens.length };
  }

  // The picture ----------------------------------------------------------------------------------------------------

  get greatestHeight() {
    if (this.spec.fan) return 900;
    return Math.max(this.header.height, this.chart.width, this.leastHeight); // about as wide as high
  }

  get leastHeight() {
    return this.spec.fan ? 0 : AROUND + this.chart.lineHeight * Math.min(this.size.rows, MOST_LABELS);
  }

  get isSmall() {
    return !this.spec.fan && !this.chart.isWide;
  }

  /** The fan is beside the map, or, on a narrow screen, below it. */
  get below() {
    return this.spec.fan && !this.chart.isWide ? Math.min(420, 60 + this.size.columns * this.chart.lineHeight) : 0;
  }

  /** @param {import("./types").Layout} layout */
  arrange(layout) {
    const { chart, spec } = this;
    if (spec.fan && chart.isWide) layout.margin.r = Math.max(200, Math.min(330 * chart.letters, chart.width * 0.4));
    if (spec.zoomKey === this.zoomKey && !chart.reset.hidden) this.#keepZoom(layout);
    this.zoomKey = spec.zoomKey;
    const { margin, xaxis, yaxis, font, template } = layout;
    this.fontSize = font.size;
    xaxis.title.standoff *= Math.max(1, chart.letters);
    const { family } = template.layout.font;
    this.labels = [spec.keyLabels, spec.queryLabels].map((labels) => ({ labels, widths: widths(labels, font.size, family) }));
    if (this.isSmall) {
      const [, queries] = this.labels;
      const share = queries.labels.some((label) => label.includes(" → ")) ? PAIR_WIDTH : LABEL_WIDTH;
      queries.labels = shorten(queries.labels, queries.widths, chart.width * share);
      queries.widths = widths([...queries.labels, yaxis.title.text], font.size, family);
      margin.t += 4;
    }
    const [keys, queries] = this.#axes(xaxis.range, yaxis.range);
    margin.l = leftMargin(queries, this.isSmall ? null : yaxis.title.standoff, font.size);
    const width = chart.width - margin.l - margin.r;
    Object.assign(xaxis, keyTicks(keys, width, font.size, chart.smallest || LEAST), OWN_MARGINS);
    margin.b = this.below + bottomMargin(keys, xaxis.tickangle, xaxis.title.standoff, font.size);
    Object.assign(yaxis, ticks(queries, chart.height - margin.t - margin.b, font.size, chart.smallest || LEAST), OWN_MARGINS);
    const row = (chart.height - margin.t - margin.b) / Math.abs(yaxis.range[1] - yaxis.range[0]);
    nameAxes(layout, this.below, this.isSmall, Math.max(0, (font.size - row) / 2));
  }

  /**
   * @param {Pair} x
   * @param {Pair} y
   * @returns {[Axis, Axis]} those of keys and queries
   */
  #axes(x, y) {
    const [keys, queries] = this.labels;
    return [
      { ...keys, range: x },
      { ...queries, range: y },
    ];
  }

  async drawn() {
    await this.zoomed();
    this.read(this.cursor);
    for (const peer of this.#peers()) if (peer.spec.difference) peer.read(peer.cursor); // it tells our weights
  }

  /** The other maps of the same link, of the same size or with places, once they are drawn. */
  #peers() {
    const { spec, size } = this;
    /** @param {HeatmapController} peer */
    const fits = (peer) => (spec.places ? Boolean(peer.spec.places) : String(Object.values(peer.size)) === String(Object.values(size)));
    /** @param {HeatmapController} peer */
    const isLike = (peer) => peer !== this && peer.chart.drawn && peer.spec.link === spec.link && fits(peer);
    return spec.link ? [...open].filter(isLike) : [];
  }

  // Zoom -----------------------------------------------------------------------------------------------------------

  /** Labels of the part in view, the charts that follow it, and the question for a figure of it. */
  async zoomed() {
    const { chart, spec } = this;
    const { graph } = chart;
    if (!chart.drawn) return;
    if (!this.isRelabelling) {
      const home = this.header.figure.layout;
      const isHome = AXES.every((axis) => graph.range(axis).every((end, i) => Math.abs(end - home[axis].range[i]) < 1e-6));
      chart.reset.hidden = isHome && !spec.downsampled?.viewport;
      const { w = 0, h = 0 } = graph.area ?? {};
      const [keys, queries] = this.#axes(graph.range("xaxis"), graph.range("yaxis"));
      const least = this.chart.smallest || LEAST;
      const [x, y] = [keyTicks(keys, w, this.fontSize, least), ticks(queries, h, this.fontSize, least)];
      if (String([graph.tickvals("xaxis"), graph.tickvals("yaxis")]) !== String([x.tickvals, y.tickvals])) {
        this.isRelabelling = true;
        const changes = Object.entries({ xaxis: x, yaxis: y }).flatMap(([axis, labels]) =>
          Object.entries(labels).map(([name, value]) => [`${axis}.${name}`, value]),
        );
        await graph.relayout(Object.fromEntries(changes));
        this.isRelabelling = false;
      }
      if (!spec.places) for (const peer of this.#peers()) peer.#follow(graph.range("xaxis"), graph.range("yaxis"));
    }
    this.#askForViewport();
  }

  /**
   * Zooms around the pointer by Ctrl and the wheel, or by a pinch of two fingers. Of a part the cells around it can be
   * asked for.
   * @param {WheelEvent} event
   */
  async #wheel(event) {
    const { graph, drawn } = this.chart;
    if (!drawn || !graph.area || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const home = this.header.figure.layout;
    const point = graph.point(this.chart.pixelsOf(event));
    const factor = 1.01 ** Math.max(-50, Math.min(50, event.deltaY));
    const ranges = AXES.map((axis, i) => scaled(graph.range(axis), point[i], factor, this.#most(home[axis].range)));
    clearTimeout(this.wheeling);
    this.wheeling = setTimeout(() => {
      this.wheeling = undefined;
      this.#askForViewport();
    }, REST);
    await graph.relayout({ "xaxis.range": ranges[0], "yaxis.range": ranges[1] });
  }

  /**
   * How far the map can be zoomed out: of a part, as far as a part around it that is three times as large.
   * @param {Pair} home
   * @returns {Pair}
   */
  #most([from, to]) {
    return this.spec.downsampled?.viewport ? [2 * from - to, 2 * to - from] : [from, to];
  }

  /**
   * Shows the part that another chart of the link shows.
   * @param {Pair} x
   * @param {Pair} y
   */
  async #follow(x, y) {
    const { graph } = this.chart;
    const ranges = [...graph.range("xaxis"), ...graph.range("yaxis")];
    if ([...x, ...y].every((end, i) => Math.abs(end - ranges[i]) <= 1e-6)) return;
    this.isFollowing = true; // it is the other chart that asks for the viewport
    await graph.relayout({ "xaxis.range": x, "yaxis.range": y });
    this.isFollowing = false;
  }

  /**
   * The part in view stays in view, as far as the new figure has it.
   * @param {import("./types").Layout} layout
   */
  #keepZoom(layout) {
    for (const axis of AXES) {
      const [low, high] = [Math.min(...layout[axis].range), Math.max(...layout[axis].range)];
      const [from, to] = this.chart.graph.range(axis).map((end) => Math.max(low, Math.min(high, end)));
      if (from !== to) layout[axis].range = [from, to];
    }
  }

  unzoom() {
    if (this.spec.downsampled?.viewport) return this.chart.report("view", { cells: null, stamp: this.header.stamp });
    const { xaxis, yaxis } = this.header.figure.layout;
    this.chart.graph.relayout({ "xaxis.range": [...xaxis.range], "yaxis.range": [...yaxis.range] });
  }

  async #askForViewport() {
    if (!this.header.views || this.isRelabelling || this.isFollowing || this.wheeling) return;
    const { layout } = this.header.figure;
    const cells = ["yaxis", "xaxis"].flatMap((name) => {
      const axis = /** @type {typeof AXES[number]} */ (name);
      return visibleCells(this.chart.graph.range(axis), this.#most(layout[axis].range));
    });
    if (this.viewed === String(cells)) return;
    this.viewed = String(cells);
    this.chart.report("view", { cells, stamp: this.header.stamp });
    // The picture stays until that of these cells is here, and has the same ends, so that nothing jumps then.
    const [top, bottom, left, right] = cells;
    this.isRelabelling = true;
    await this.chart.graph.relayout({ "xaxis.range": [left - 0.5, right + 0.5], "yaxis.range": [bottom + 0.5, top - 0.5] });
    this.isRelabelling = false;
  }

  // Reading and clicking -------------------------------------------------------------------------------------------

  /** @param {PointerEvent} event to the left of the map is the label of a row, without a column */
  cellAt(event) {
    const { graph, drawn } = this.chart;
    if (!drawn || !graph.area) return null;
    const pixels = this.chart.pixelsOf(event);
    const { l, t, w, h } = graph.area;
    if (pixels[1] < t || pixels[1] > t + h || pixels[0] > l + w) return null;
    const [column, row] = graph.point(pixels).map(Math.round);
    if (row < 0 || row >= this.weights.length) return null;
    if (pixels[0] < l) return { row, column: null };
    return column < 0 || column >= this.weights[0].length ? null : { row, column };
  }

  /** @type {ReadingController<any>["click"]} */
  click({ row, column = null }) {
    if (this.spec.cellLinks) this.clicked = { row, column };
    super.click({ row, column });
  }

  /** @returns {Cell | null} what is shown while no other cell is read: the clicked cell of the pinned row, or that row */
  get rest() {
    const { pinned } = this.header;
    if (pinned === null) return null;
    return this.clicked?.row === pinned ? this.clicked : { row: pinned, column: null };
  }

  /** @type {ReadingController<any>["release"]} */
  release(cell, up) {
    clearTimeout(this.waiting);
    if (this.chart.reset.hidden) return this.click(cell);
    // In a zoomed map it may be the first half of the double click that zooms out again.
    const isSecond = up.timeStamp - this.released < DOUBLE_CLICK;
    this.released = up.timeStamp;
    if (!isSecond) this.waiting = setTimeout(() => this.click(cell), DOUBLE_CLICK);
  }

  /** The first and the last row and column in view. */
  get #bounds() {
    const [[left, right], [top, bottom]] = AXES.map((axis) => {
      const range = this.chart.graph.range(axis);
      return [Math.ceil(Math.min(...range)), Math.floor(Math.max(...range))];
    });
    return { left, right, top, bottom };
  }

  first() {
    const { top, left } = this.#bounds;
    return { row: this.header.pinned ?? top, column: left };
  }

  /** @type {ReadingController<any>["next"]} */
  next({ row, column }, [down, along]) {
    const { left, right, top, bottom } = this.#bounds;
    return {
      row: Math.max(top, Math.min(bottom, row + down)),
      column: Math.max(left, Math.min(right, (column ?? 0) + along)),
    };
  }

  /** @type {ReadingController<any>["end"]} */
  end({ row }, last) {
    return { row, column: last ? this.#bounds.right : this.#bounds.left };
  }

  /** @type {ReadingController<any>["act"]} */
  act(cell, key) {
    const { pinned } = this.header;
    if (key !== "Escape" || pinned === null) return super.act(cell, key);
    this.click({ row: pinned });
    return true;
  }

  /** @param {Cell | null} cell */
  readAll(cell) {
    this.read(cell);
    for (const peer of this.#peers()) peer.read(cell && linkedCell(cell, this.spec.places, peer.spec.places));
  }

  /** @param {Cell | null} cell */
  read(cell) {
    this.cursor = cell;
    const { chart, spec } = this;
    if (!chart.drawn) return;
    const shown = cell ?? this.rest;
    if (shown === null) chart.say(chart.hint, true);
    else {
      const { row } = shown, column = this.#columnOf(shown);
      if (column === null) chart.say(spec.sentences.emptyRow, false, { query: spec.queryTokens[row] });
      else this.#tell(row, column);
    }
    chart.redraw();
  }

  /**
   * @param {Cell} cell
   * @returns {number | null} its column, or of a row that with the largest weight, if it has any
   */
  #columnOf({ row, column }) {
    const weights = this.weights[row];
    return column ?? strongest(this.spec.difference ? weights.map(Math.abs) : weights);
  }

  /**
   * The address of a page about a cell. A link is reached after the pointer has left the map: only what is shown then
   * has one.
   * @param {number} row
   * @param {number} column
   */
  #addressOf(row, column) {
    const { rest, spec: { cellLinks } } = this;
    if (!cellLinks || rest?.row !== row || this.#columnOf(rest) !== column || Number.isNaN(this.weights[row][column])) return "";
    return cellAddress(cellLinks, row, column);
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  #tell(row, column) {
    const { chart, spec } = this;
    const { sentences, downsampled, difference } = spec;
    const weight = this.weights[row][column];
    if (downsampled && !difference) return this.#tellCell(downsampled, row, column);
    const [query, key] = [spec.queryTokens[row], spec.keyTokens[column]];
    const words = { query, key, weight: spec.wholeNumbers ? String(weight) : number(weight) };
    if (!difference) {
      const template = this.cellSentences.get(`${row} ${column}`);
      const sentence = template ?? (Number.isNaN(weight) ? sentences.masked : sentences.allowed);
      return chart.say(sentence, false, words, this.#addressOf(row, column));
    }
    const peers = this.#peers();
    const [before, after] = difference.charts.map((name) => weightOf(peers.find((peer) => peer.header.key === name), { row, column }, spec.places));
    if (before === undefined || after === undefined) return chart.say("");
    const change = difference.sentences[changeOf(before, after)];
    chart.say(change, false, { ...words, before: number(before), after: number(after) });
  }

  /**
   * The cell of a downsampled map: its largest weight with the tokens that have it, and its other numbers.
   * @param {NonNullable<import("./types").HeatmapSpec["downsampled"]>} cells
   * @param {number} row
   * @param {number} column
   */
  #tellCell(cells, row, column) {
    const { sentences } = this.spec;
    const pairs = cells.allowed[row][column];
    if (!pairs) return this.chart.say(sentences.masked);
    this.chart.say(sentences.allowed + (pairs > 1 ? cells.several : ""), false, {
      query: `${cells.tokens[cells.queryTokens[row][column]]} (${cells.queryPositions[row][column]})`,
      key: `${cells.tokens[cells.keyTokens[row][column]]} (${cells.keyPositions[row][column]})`,
      weight: number(cells.maximum[row][column]),
      pairs: pairs.toLocaleString("en-US"),
      mass: number(cells.mass[row][column]),
      mean: number(cells.mean[row][column]),
    });
  }

  // Over the map ---------------------------------------------------------------------------------------------------

  draw() {
    const { chart } = this;
    const { pinned } = this.header;
    const stroke = chart.accent;
    const shown = this.cursor ?? this.rest;
    if (pinned !== null) this.frame(pinned, null, { fill: "none", stroke, "stroke-width": 3 });
    if (shown && shown.row !== pinned) this.frame(shown.row, null, { fill: "none", stroke, "stroke-width": 1.5 });
    if (shown && shown.column !== null) this.frame(shown.row, shown.column, { fill: "none", stroke, "stroke-width": 3 });
    if (this.spec.fan) drawFan(this, shown?.row ?? null, shown?.column ?? null);
    for (const one of followers) if (one.spec.link === this.spec.link) one.follow();
  }

  /**
   * A frame around a cell, or without a column around a row.
   * @param {number} row
   * @param {number | null} column
   * @param {Record<string, string | number>} style
   */
  frame(row, column, style) {
    const { graph } = this.chart;
    if (!graph.area) return;
    const { l, t, w, h } = graph.area;
    /** @type {(value: number, start: number, length: number) => number} */
    const clamp = (value, start, length) => Math.max(start, Math.min(start + length, value));
    const [x0, y0] = graph.pixels([(column ?? 0) - 0.5, row - 0.5]);
    const [x1, y1] = graph.pixels([(column ?? 0) + 0.5, row + 0.5]);
    const [left, right] = column === null ? [l, l + w] : [clamp(x0, l, w), clamp(x1, l, w)];
    let top = clamp(y0, t, h);
    let height = clamp(y1, t, h) - top;
    if (height > 0 && height < 6) [top, height] = [top - 3, height + 6]; // around a thin row, not over it
    if (height > 0 && right > left) this.chart.add("rect", { x: left, y: top, width: right - left, height, ...style });
  }
}

/**
 * Writes the names of the axes at the edges of the picture; beside a small map that of the queries stands above their
 * labels, where it takes no width. For titles of its own plotly would measure all labels, one after the other.
 * @param {import("./types").Layout} layout
 * @param {number} below pixels below the map's own margin
 * @param {boolean} isSmall
 * @param {number} raised pixels that the label of the first row is higher than the map
 */
function nameAxes(layout, below, isSmall, raised) {
  const { margin, xaxis, yaxis, font } = layout;
  const [keys, queries] = [xaxis, yaxis].map(({ title }) => ({
    text: title.text, font: { size: Math.round(1.2 * font.size) }, xref: "paper", yref: "paper", showarrow: false, borderpad: 0, borderwidth: 0,
  }));
  const left = { textangle: -90, x: 0, xanchor: "left", xshift: -margin.l, y: 0.5 };
  const above = { x: 0, xanchor: "right", xshift: -3, y: 1, yanchor: "bottom", yshift: raised, font: { size: font.size * 0.85 } }; // below the buttons
  layout.annotations = [
    ...(layout.annotations ?? []),
    { ...keys, x: 0.5, y: 0, yanchor: "bottom", yshift: below - margin.b },
    { ...queries, ...(isSmall ? above : left) },
  ];
  for (const axis of [xaxis, yaxis]) Object.assign(axis, { title: { text: "" } });
}

/**
 * A range that is larger by a factor, around a point that stays where it is.
 * @param {Pair} range
 * @param {number} point
 * @param {number} factor
 * @param {Pair} most the range within which it stays
 * @returns {Pair}
 */
export function scaled(range, point, factor, most) {
  const [low, high] = [Math.min(...most), Math.max(...most)];
  const fixed = Math.max(low, Math.min(high, point));
  const least = Math.min(1, 0.5 / Math.abs(range[1] - range[0])); // half a cell
  const [from, to] = range.map((end) => Math.max(low, Math.min(high, fixed + (end - fixed) * Math.max(factor, least))));
  return [from, to];
}

/**
 * The first and the last cell that a range shows, within those that there are.
 * @param {Pair} range
 * @param {Pair} whole
 * @returns {Pair}
 */
export function visibleCells(range, whole) {
  const from = Math.max(Math.min(...range), Math.min(...whole)) + 0.5;
  const to = Math.min(Math.max(...range), Math.max(...whole)) - 0.5;
  const [first, last] = [from, to].map((end) => Number(end.toFixed(3)));
  return [Math.floor(first), Math.max(Math.floor(first), Math.ceil(last))];
}

/**
 * The map of a link, once it is drawn.
 * @param {string} link
 */
export function linkedMap(link) {
  return [...open].find((map) => map.spec.link === link && map.chart.drawn);
}

/**
 * The weight in a linked map of a cell of another one; undefined where there is none.
 * @param {HeatmapController | undefined} map
 * @param {Cell} cell
 * @param {import("./types").HeatmapSpec["places"]} places of the map that has the cell
 */
function weightOf(map, cell, places) {
  const { row, column = null } = (map && linkedCell(cell, places, map.spec.places)) ?? {};
  return row === undefined || column === null ? undefined : map?.weights[row][column];
}
