// One part: the matrices that it is computed from and its numbers. The pointer or the arrow keys choose a number; what
// it was computed from is framed, and said in a sentence.

import { isDark } from "../../chart/colors.js";
import { button, element } from "../../chart/elements.js";
import { isPlain, STEPS } from "../../chart/keys.js";
import { fixed } from "../../chart/number.js";
import { _ } from "../../chart/words.js";
import { setSymbol, symbolText } from "../symbols.js";
import { context } from "./dom.js";
import { nextWordTable } from "./next_word.js";
import { greatestColored, operands, sentence, written } from "./numbers.js";
import { cellUnder, rowNames, View } from "./view.js";

const SIGNS = { linear: "×", rotation: "", add: "+", scores: "·", softmax: "", norm: "", "weighted sum": "×", concat: "", product: "·", input: "" };

/**
 * @typedef {{ values: (number | null)[][], canvas: HTMLCanvasElement, frame: HTMLElement, marks: HTMLElement, width: number,
 *   height: number, index: number }} Grid index: of the sources, −1 the weight, −2 the result
 */

/** @extends {View<import("./types").PartPicture>} */
export class PartView extends View {
  /** @param {import("./types").Shown<import("./types").PartPicture>} given */
  constructor(...given) {
    super(...given);
    const { picture, room } = this;
    this.caption = `${picture.caption} ${_("Point at a number to see where it comes from.")}`;
    /** @type {Grid[]} */
    this.grids = [];
    this.cursor = [0, 0];
    const hasWeight = Boolean(picture.weight?.values && picture.operation === "linear");
    if (hasWeight) this.shares = picture.presenting ? { source: 0.2, weight: 0.13, result: 0.54 } : { source: 0.26, weight: 0.22, result: 0.43 };
    else if (picture.sources.length > 1) this.shares = { source: 0.62 / picture.sources.length - 0.03, weight: 0.3, result: 0.32 };
    else this.shares = { source: 0.34, weight: 0.34, result: 0.5 };
    if (room.vertical) this.shares = { source: 0.95, weight: 0.95, result: 1.45 }; // which scrolls, so that it can be read
    this.smallest = picture.presenting ? 20 : 9.5; // letters in a cell, in pixels
    const numbers = picture.operation === "input" ? [] : (picture.result.values ?? []);
    this.largest = numbers.map((row) => row.indexOf(Math.max(...row.map((one) => one ?? -Infinity)))); // the column of each step
    this.steps = this.largest.map((column, i) => {
      const title = _("Row {number}, “{token}”", { number: i + 1, token: picture.result.rows[i] });
      return { title, caption: `${sentence(picture, i, column)}.` };
    });
    const formula = setSymbol(element("p", "path-formula"), picture.formula);
    const flow = element("div", "path-equation attnviz-row");
    const sign = SIGNS[picture.operation];
    const shown = picture.operation === "concat" ? picture.sources.slice(0, 12) : picture.sources;
    shown.forEach((source, i) => {
      if (i && sign) flow.append(element("span", "path-sign", sign));
      flow.append(this.#matrix(source, i, room.width * (picture.operation === "concat" ? 0.9 / shown.length : this.shares.source)));
    });
    if (picture.weight) {
      flow.append(element("span", "path-sign", picture.operation === "norm" ? "· γ" : sign));
      flow.append(this.#weight(picture.weight));
    }
    if (picture.bias) flow.append(element("span", "path-sign", picture.operation === "norm" ? "+ β" : "+ b"));
    if (picture.sources.length) flow.append(element("span", "path-sign", arrow(picture)));
    flow.append(this.#matrix(picture.result, -2, room.width * this.shares.result));
    const addresses = picture.links.map(({ title, address }) => Object.assign(element("a", "", title), { href: address }));
    const links = element("nav", "path-links attnviz-row", ...addresses);
    links.setAttribute("aria-label", _("More about this head"));
    links.hidden = !picture.links.length;
    this.host.append(formula, links, flow);
    if (picture.next) this.host.append(nextWordTable(picture.next, this.draw, true));
    if (picture.sources.length) this.#light(0, this.largest[0] ?? 0, false);
  }

  /** @type {View<any>["reveal"]} */
  reveal(step, share) {
    const result = this.grids.find(({ index }) => index === -2);
    result?.frame.querySelector(".path-cover")?.remove();
    if (step === null || !result) return;
    const rows = this.steps.length;
    const cover = element("span", "path-cover");
    const done = (step + (share >= 1 ? 1 : share)) / rows;
    Object.assign(cover.style, { top: `${done * 100}%`, height: `${(1 - done) * 100}%` });
    result.frame.append(cover);
    this.#light(step, this.largest[step], false);
  }

  /**
   * @param {import("./types").Matrix} matrix
   * @param {number} index
   * @param {number} most its greatest width in pixels
   */
  #matrix(matrix, index, most) {
    const figure = this.#figure(matrix.symbol, matrix.about, matrix.shape);
    if (index >= 0 && matrix.name !== this.picture.result.name && this.picture.operation !== "concat") {
      const link = button(_("where from?"), "path-go", () => this.open(matrix.name));
      link.dataset.open = matrix.name;
      link.setAttribute("aria-label", _("where from? Open {symbol}, {about}", { symbol: symbolText(matrix.symbol), about: matrix.about }));
      figure.querySelector("figcaption")?.append(link);
    }
    if (!matrix.values) {
      figure.append(element("span", "path-large", _("{shape} numbers: too many to be drawn", { shape: matrix.shape })));
      return figure;
    }
    const { letter } = this.room;
    const columns = matrix.values[0].length;
    const asNumbers = columns <= 16 || Boolean(matrix.map);
    const names = Math.min(Math.max(...matrix.rows.map((one) => one.length)), 12) * letter * 0.55 + 8;
    if (!asNumbers) most = Math.min(most, this.room.width * 0.97);
    const cell = asNumbers ? Math.max(Math.min(letter * 5, (most - names) / columns), 8) : Math.max(0.5, Math.min(letter * 0.5, (most - names) / columns));
    const row = Math.min(letter * (columns <= 12 ? 3 : 2.4), Math.max(letter * 1.15, (this.room.height - letter * 12) / matrix.rows.length));
    const grid = this.#grid(matrix.values, index, cell, row, matrix.map, asNumbers && cell >= this.smallest * 2.6);
    const head = matrix.columns.length > 0 && columnNames(matrix.columns, cell, names);
    const body = element("div", "path-matrix-body attnviz-row", head, rowNames(matrix.rows, names, row), grid);
    body.style.width = `${Math.ceil(names + cell * columns) + 1}px`;
    figure.append(body);
    return figure;
  }

  /** @param {import("./types").Weight} weight */
  #weight(weight) {
    const figure = this.#figure(weight.symbol, weight.about, weight.shape);
    if (!weight.values) {
      figure.append(element("span", "path-large", _("{shape} learned numbers: too many to be drawn", { shape: weight.shape })));
      return figure;
    }
    const [rows, columns] = [weight.values.length, weight.values[0].length];
    const { letter, width, height } = this.room;
    const cell = Math.max(0.5, Math.min(letter * 0.8, (width * this.shares.weight) / columns));
    const row = rows === 1 ? letter * 1.5 : Math.max(0.5, Math.min(letter * 0.45, (height - letter * 10) / rows));
    figure.append(this.#grid(weight.values, -1, cell, row, "", false));
    return figure;
  }

  /**
   * @param {string} symbol
   * @param {string} about
   * @param {string} shape
   */
  #figure(symbol, about, shape) {
    const parts = [setSymbol(element("b"), symbol), element("span", "", about), element("small", "", shape)];
    return element("figure", "path-matrix", element("figcaption", "attnviz-row", ...parts));
  }

  /**
   * @param {(number | null)[][]} values
   * @param {number} index
   * @param {number} cell
   * @param {number} row
   * @param {"" | "scores" | "weights"} map
   * @param {boolean} asNumbers
   */
  #grid(values, index, cell, row, map, asNumbers) {
    const { palette, picture } = this;
    const [width, height] = [cell * values[0].length, row * values.length];
    const frame = element("div", "path-grid");
    Object.assign(frame.style, { width: `${width}px`, height: `${height}px` });
    const canvas = element("canvas");
    const drawing = context(canvas, width, height);
    const greatest = greatestColored(values);
    const inset = asNumbers || map ? 1 : row > 6 ? Math.min(2, row * 0.1) : 0;
    drawing.font = `${Math.max(this.smallest, Math.min(this.room.letter * 0.95, row * 0.7, cell * 0.37))}px ${getComputedStyle(document.body).fontFamily}`;
    drawing.textAlign = "center";
    drawing.textBaseline = "middle";
    values.forEach((numbers, i) =>
      numbers.forEach((value, j) => {
        // Half as strong behind letters, so that they can be read.
        const color = value === null ? palette.masked : map === "weights" ? palette.weight(asNumbers ? value * 0.9 : value) : palette.change(Math.max(-1, Math.min(1, value / greatest)) * (asNumbers ? 0.55 : 1));
        drawing.fillStyle = color;
        drawing.fillRect(j * cell, i * row + inset / 2, Math.max(cell - (asNumbers ? 1 : 0), Math.min(cell, 0.6)) + (cell < 4 ? 0.3 : 0), row - inset);
        if (!asNumbers) return;
        drawing.fillStyle = isDark(color) ? "#ffffff" : "#11151d";
        drawing.fillText(value === null ? "−∞" : fixed(value), (j + 0.5) * cell, (i + 0.5) * row + 0.5);
      }),
    );
    const marks = element("div", "path-marks");
    frame.append(canvas, marks);
    const grid = { values, canvas, frame, marks, width, height, index };
    this.grids.push(grid);
    if (index === -2) {
      canvas.tabIndex = 0;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", _("{about}: {shape} numbers. The arrow keys go from number to number.", { about: picture.result.about, shape: picture.result.shape }));
      canvas.onkeydown = (event) => this.#key(event);
    }
    canvas.onpointermove = (event) => {
      const [place, column] = cellUnder(event, values, width, height);
      this.#point(grid, place, column);
    };
    return frame;
  }

  /**
   * @param {Grid} grid
   * @param {number} row
   * @param {number} column
   */
  #point(grid, row, column) {
    if (grid.index === -2) {
      this.#light(row, column);
      return;
    }
    const value = written(grid.values[row][column]);
    const source = this.picture.sources[grid.index];
    const name = grid.index < 0 ? `${_("A learned number")}, ${symbolText(this.picture.weight?.symbol ?? "")}[${row + 1}, ${column + 1}]` : `${symbolText(source.symbol)}[${source.rows[row]}, ${source.columns[column] ?? column + 1}]`;
    this.say(`${name} = ${value}`);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const move = STEPS[event.key];
    const values = this.picture.result.values;
    if (!move || !values || !isPlain(event)) return;
    event.preventDefault();
    event.stopPropagation();
    const [row, column] = [this.cursor[0] + move[0], this.cursor[1] + move[1]];
    if (row < 0 || column < 0 || row >= values.length || column >= values[0].length) return;
    this.#light(row, column);
  }

  /**
   * @param {number} row
   * @param {number} column
   * @param {boolean} [aloud]
   */
  #light(row, column, aloud = true) {
    this.cursor = [row, column];
    const ranges = operands(this.picture, row, column);
    for (const grid of this.grids) {
      const own = grid.index === -2 ? [{ rows: [row, row + 1], columns: [column, column + 1] }] : ranges.filter(({ matrix }) => matrix === grid.index);
      grid.marks.replaceChildren(
        ...own.map(({ rows, columns }) => {
          const mark = element("span", grid.index === -2 ? "path-chosen" : "path-operand");
          const [high, wide] = [grid.height / grid.values.length, grid.width / grid.values[0].length];
          Object.assign(mark.style, {
            left: `${columns[0] * wide - 1}px`, top: `${rows[0] * high - 1}px`,
            width: `${(columns[1] - columns[0]) * wide + 2}px`, height: `${(rows[1] - rows[0]) * high + 2}px`,
          });
          return mark;
        }),
      );
    }
    this.host.dataset.cell = `${row} ${column}`;
    if (aloud) this.say(`${sentence(this.picture, row, column)}.`);
  }
}

/**
 * @param {string[]} columns
 * @param {number} cell
 * @param {number} names
 */
function columnNames(columns, cell, names) {
  const head = element("span", "path-column-names");
  head.style.paddingLeft = `${names}px`;
  for (const name of columns) {
    const made = element("span", "", element("span", "", name));
    made.style.width = `${cell}px`;
    head.append(made);
  }
  return head;
}

/** @param {import("./types").PartPicture} picture */
function arrow({ operation, function: name }) {
  if (operation === "softmax") return "softmax →";
  if (operation === "scores") return "/ √d →";
  if (operation === "concat") return "→";
  if (operation === "rotation") return `${_("rotated")} →`;
  return operation === "linear" && name ? `→ ${name} →` : "=";
}

