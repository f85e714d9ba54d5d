// One layer: a lane for each sublayer, read from left to right; a panel for each part, its rows the tokens.

import { button as makeButton, element } from "../../chart/elements.js";
import { curve, svg } from "../../chart/svg.js";
import { _ } from "../../chart/words.js";
import { setSymbol } from "../symbols.js";
import { context, drawCells } from "./dom.js";
import { panelWidths } from "./layout.js";
import { nextWordTable } from "./next_word.js";
import { written } from "./numbers.js";
import { cellUnder, eased, nextWordStep, opacity, rowNames, View } from "./view.js";

const FAN = 3; // the gap before the head output, in letters
const NARROW = 85; // letters, below which panels stand closer together
const LEAST_WEIGHT = 0.03; // of a weight that is drawn as a line

/**
 * @typedef {{ panel: import("./types").Panel, lane: number, button: HTMLElement, canvas: HTMLCanvasElement, mark: HTMLElement,
 *   row: number, width: number }} Drawn
 * @typedef {Drawn & { left: number, right: number, top: number, bottom: number, start: number }} Placed in its lane, where
 *   arrows to it end at the start
 */

/** @extends {View<import("./types").LayerPicture>} */
export class LayerView extends View {
  /** @param {import("./types").Shown<import("./types").LayerPicture>} given */
  constructor(...given) {
    super(...given);
    const { picture, room } = this;
    this.caption = picture.heads
      ? _("Head {head} of {heads} is shown. Each row is a word. Point at a row to see where it comes from; click a part to open it.", { head: picture.head ?? 0, heads: picture.heads })
      : _("Each row is a word, each part a matrix. Point at a row to see where it comes from; click a part to open it.");
    /** @type {Drawn[]} */
    this.drawn = [];
    /** @type {{ to: Drawn, shape: SVGElement }[]} */
    this.arrows = [];
    if (picture.next) this.host.classList.add("path-ends", "attnviz-row");
    this.host.append(...picture.lanes.map((lane, i) => this.#lane(lane, i)));
    if (picture.next) this.host.append(nextWordTable(picture.next, this.draw, true));
    this.computed = this.drawn.filter(({ panel }) => !panel.entering);
    this.steps = this.computed.map(({ panel, lane }) => ({ title: `${picture.lanes[lane].title}: ${panel.title}`, caption: panel.caption }));
    if (picture.next) this.steps.push(nextWordStep(picture.next));
    if (!room.vertical) for (const lane of this.host.querySelectorAll(".path-panels")) this.#connect(/** @type {HTMLElement} */ (lane));
  }

  /** @type {View<any>["reveal"]} */
  reveal(step, share) {
    const now = eased(share);
    const opacityOf = (/** @type {Drawn} */ one) => {
      // What comes in is there when its lane begins.
      const place = one.panel.entering ? this.computed.findIndex(({ lane }) => lane === one.lane) : this.computed.indexOf(one);
      return opacity(place, step, now);
    };
    const current = step === null ? null : this.computed[step];
    for (const one of this.drawn) {
      one.canvas.style.opacity = opacityOf(one);
      one.canvas.style.transform = one === current ? `translateX(${(1 - now) * -12}px)` : "";
      one.button.classList.toggle("path-now", one === current);
      one.button.classList.toggle("path-from", Boolean(current?.panel.sources.includes(one.panel.name) && one.lane === current.lane));
    }
    for (const { to, shape } of this.arrows) shape.style.opacity = opacityOf(to);
    this.host.querySelector(".path-next")?.classList.toggle("path-later", step !== null && step < this.computed.length);
  }

  /**
   * @param {import("./types").Lane} lane
   * @param {number} number
   */
  #lane(lane, number) {
    const { letter, height, vertical } = this.room;
    const width = this.picture.next && !vertical ? this.room.width * 0.6 : this.room.width;
    const all = this.picture.lanes.reduce((sum, one) => sum + Math.max(...one.panels.map(({ rows }) => rows.length), 1), 0);
    const space = height - 20 - this.picture.lanes.length * letter * 7.6;
    const row = vertical ? 18 : Math.max(letter, Math.min(letter * 2, space / all));
    const isNarrow = width < letter * NARROW;
    const gap = letter * (isNarrow ? 0.9 : 1.25);
    /** @type {string} */
    let before = "";
    const sizes = lane.panels.map((panel) => {
      const rows = panel.rows.join("\n");
      const named = vertical || rows !== before;
      before = rows;
      const longest = Math.min(Math.max(...panel.rows.map((one) => one.length)), 12);
      return { columns: panel.cells[0]?.length ?? 1, isMap: panel.kind !== "vectors", names: named ? longest * letter * 0.53 + 8 : 0 };
    });
    const fan = lane.panels.some((panel) => isHeads(panel)) ? FAN * letter : 0;
    const widths = vertical
      ? sizes.map(({ isMap, columns, names }) => (isMap ? Math.min(row * columns, width - names - 40) : (width - 30) / 2 - names - 8))
      : panelWidths(sizes, width - 12 - fan, { row, gap, least: letter * (isNarrow ? 3.4 : 4), most: letter * 15 });
    const panels = lane.panels.map((panel, i) => {
      const one = this.#panel(panel, number, { row, width: widths[i], names: sizes[i].names });
      if (!vertical && i) one.button.style.marginLeft = `${gap + (isHeads(panel) ? fan : 0)}px`;
      this.drawn.push(one);
      return one.button;
    });
    const title = element("p", "path-lane-title", element("b", "", lane.title), ` ${lane.about}`);
    return element("section", `path-lane path-${lane.kind}`, title, element("div", "path-panels", ...panels));
  }

  /**
   * @param {import("./types").Panel} panel
   * @param {number} lane
   * @param {{ row: number, width: number, names: number }} size
   * @returns {Drawn}
   */
  #panel(panel, lane, { row, width, names }) {
    const button = makeButton("", "path-panel", () => this.open(panel.name));
    button.dataset.open = panel.name;
    button.setAttribute("aria-description", panel.caption);
    const title = element("span", "path-panel-title", panel.title);
    const shape = element("span", "path-shape", panel.shape);
    const symbol = element("span", "path-panel-symbol", setSymbol(element("i"), panel.symbol), shape);
    const heading = element("span", "path-panel-heading", title, symbol);
    button.style.width = `${names + width}px`;
    const height = row * panel.rows.length;
    const list = names > 0 && rowNames(panel.rows, names, row);
    if (list) list.ariaHidden = "true"; // the tokens, which are the same in every panel
    const canvas = element("canvas");
    const mark = element("span", "path-mark");
    mark.hidden = true;
    this.#draw(canvas, panel, row, width, height);
    heading.style.paddingLeft = `${names}px`;
    button.append(heading, element("span", "path-panel-body", list, element("span", "path-cells", canvas, mark)));
    const one = { panel, lane, button, canvas, mark, row, width };
    canvas.onpointermove = (event) => {
      const [place, column] = cellUnder(event, panel.cells, width, height);
      this.#light(one, place, column);
    };
    canvas.onpointerleave = () => this.#light(null, -1, -1);
    button.onfocus = () => this.say(`${panel.title}: ${panel.caption}`);
    return one;
  }

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {import("./types").Panel} panel
   * @param {number} row
   * @param {number} width
   * @param {number} height
   */
  #draw(canvas, panel, row, width, height) {
    const drawing = context(canvas, width, height);
    const { weight, change, masked } = this.palette;
    const isMap = panel.kind !== "vectors";
    const color = (/** @type {number | null} */ value) => {
      if (value === null) return masked;
      return panel.kind === "weights" ? weight(value) : change(isMap ? value : value / 100);
    };
    const thick = isMap ? row - 1 : Math.max(2, row * 0.7);
    panel.cells.forEach((cells, i) => drawCells(drawing, { x: 0, y: i * row + (row - thick) / 2, w: width, h: thick }, cells, color));
    if (panel.slices) {
      const [slice, of] = [this.picture.head, panel.slices];
      drawing.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--attnviz-accent");
      drawing.lineWidth = 2;
      drawing.strokeRect((slice * width) / of + 1, 1, width / of - 2, height - 2);
    }
  }

  /**
   * Draws where panels come from: arrows between neighbors, curves below for those farther away, and lines from the
   * values to the head output, as wide as the weights.
   * @param {HTMLElement} lane
   */
  #connect(lane) {
    const origin = lane.getBoundingClientRect();
    const layer = svg("svg", { class: "path-arrows", width: lane.scrollWidth, height: lane.scrollHeight + 4, "aria-hidden": "true" });
    /** @type {Placed[]} */
    const own = this.drawn.filter(({ button }) => lane.contains(button)).map((one) => {
      const { x, y, width, height } = one.canvas.getBoundingClientRect();
      const [left, top] = [x - origin.x + lane.scrollLeft, y - origin.y];
      const start = left - (one.button.querySelector(".path-names")?.clientWidth ?? 0) - 3;
      return Object.assign(one, { left, right: left + width, top, bottom: top + height, start });
    });
    const floor = Math.max(...own.map(({ bottom }) => bottom)) + this.room.letter * 1.7;
    /** @type {[number, number, number][]} */
    const far = [];
    own.forEach((one, to) => {
      for (const name of one.panel.sources) {
        const from = own.findIndex(({ panel }) => panel.name === name);
        if (from < 0 || from >= to) continue;
        const weights = own.find(({ panel }) => panel.kind === "weights")?.panel.cells ?? [];
        if (isHeads(one.panel) && from === to - 1) this.#fan(layer, own[from], one, weights);
        else if (from === to - 1) {
          const y = (one.top + Math.min(own[from].bottom, one.bottom)) / 2;
          this.#arrow(layer, one, `M${own[from].right + 3} ${y}H${one.start}`, [one.start, y, 0]);
        } else far.push([from, to, 0]);
      }
    });
    // Those that overlap run below one another.
    far.sort((a, b) => a[1] - a[0] - (b[1] - b[0]));
    far.forEach((line, i) => {
      const below = far.slice(0, i).filter((other) => other[0] < line[1] && line[0] < other[1]);
      line[2] = Math.max(-1, ...below.map((other) => other[2])) + 1;
    });
    const step = this.room.letter * 0.5;
    far.forEach(([from, to, level], i) => {
      const shift = (far.filter((other, j) => j < i && (other[0] === from || other[1] === to)).length + 1) * 4;
      const [x0, x1] = [(own[from].left + own[from].right) / 2 + shift, (own[to].left + own[to].right) / 2 - shift];
      const y = floor + level * step;
      const r = Math.min(6, step);
      const d = `M${x0} ${own[from].bottom + 3}V${y - r}Q${x0} ${y} ${x0 + r} ${y}H${x1 - r}Q${x1} ${y} ${x1} ${y - r}V${own[to].bottom + 5}`;
      this.#arrow(layer, own[to], d, [x1, own[to].bottom + 4, -90]);
    });
    const levels = Math.max(-1, ...far.map((one) => one[2]));
    lane.style.paddingBottom = levels < 0 ? "6px" : `${this.room.letter * 1.7 + levels * step + 4}px`;
    layer.setAttribute("height", String(floor + (far.length + 1) * step));
    lane.append(layer);
  }

  /**
   * @param {Element} layer
   * @param {Placed} to
   * @param {string} d
   * @param {[number, number, number]} head its tip and its direction
   */
  #arrow(layer, to, d, [x, y, angle]) {
    const tip = { d: "M0 0L-5 -3.5V3.5Z", class: "path-tip", transform: `translate(${x} ${y}) rotate(${angle})` };
    const shape = svg("g", {}, svg("path", { d, class: "path-arrow" }), svg("path", tip));
    layer.append(shape);
    this.arrows.push({ to, shape });
  }

  /**
   * @param {Element} layer
   * @param {Placed} from
   * @param {Placed} to
   * @param {(number | null)[][]} weights
   */
  #fan(layer, from, to, weights) {
    const group = svg("g", { class: "path-fan" });
    weights.forEach((row, i) =>
      row.forEach((weight, j) => {
        if (weight === null || weight < LEAST_WEIGHT) return;
        const d = curve([from.right + 3, from.top + (j + 0.5) * from.row], [to.start, to.top + (i + 0.5) * to.row]);
        group.append(svg("path", { d, class: "path-line", "stroke-width": Math.max(0.8, weight * to.row * 0.5), opacity: 0.15 + 0.7 * Math.sqrt(weight), "data-row": i }));
      }),
    );
    layer.append(group);
    this.arrows.push({ to, shape: group });
  }

  /**
   * @param {Drawn | null} one
   * @param {number} row
   * @param {number} column
   */
  #light(one, row, column) {
    for (const other of this.drawn) {
      const isSource = Boolean(one && other.lane === one.lane && one.panel.sources.includes(other.panel.name));
      other.button.classList.toggle("path-source", isSource);
      /** @type {number[]} */
      let rows = [];
      if (other === one) rows = [row];
      else if (one && isSource) rows = sourceRows(one.panel, other.panel, row, column);
      other.mark.hidden = !rows.length;
      const cell = other.width / (other.panel.cells[0]?.length ?? 1);
      const isCell = rows.length && one?.panel.kind !== "vectors" && other.panel.kind !== "vectors";
      Object.assign(other.mark.style, isCell ? { left: `${column * cell - 1}px`, right: `${other.width - (column + 1) * cell - 1}px` } : { left: "", right: "" });
      if (rows.length) Object.assign(other.mark.style, { top: `${rows[0] * other.row}px`, height: `${(rows[1] ?? rows[0] + 1) * other.row - rows[0] * other.row}px` });
    }
    for (const { to, shape } of this.arrows) {
      for (const line of shape.querySelectorAll("[data-row]")) {
        const isOther = one && to === one && Number(/** @type {SVGElement} */ (line).dataset.row) !== row;
        /** @type {SVGElement} */ (line).style.visibility = isOther ? "hidden" : "";
      }
    }
    this.say(one ? this.#sentence(one, row, column) : "");
  }

  /**
   * @param {Drawn} one
   * @param {number} row
   * @param {number} column
   */
  #sentence({ panel, lane }, row, column) {
    const [token, key] = [panel.rows[row], panel.columns[column]];
    if (panel.kind === "weights") {
      const weight = panel.cells[row][column];
      if (weight === null) return _("“{token}” may not look at “{key}”.", { token, key });
      return _("“{token}” gives {weight} of its attention to “{key}”, from their score.", { token, key, weight: written(weight) });
    }
    if (panel.kind === "scores") {
      if (panel.cells[row][column] === null) return _("The mask hides “{key}” from “{token}”: the score is −∞.", { token, key });
      return _("The score of “{token}” and “{key}”: the query of the one times the key of the other.", { token, key });
    }
    if (panel.entering) return _("“{token}” as it comes in.", { token });
    const sources = panel.sources.map((name) => {
      const source = this.picture.lanes[lane].panels.find((other) => other.name === name);
      return source ? _("“{text}”", { text: source.title }) : name;
    });
    const from = sources.length ? _("from {parts}", { parts: sources.join(` ${_("and")} `) }) : _("looked up");
    return `${_("{title} of “{token}”: {count} numbers, {from}.", { title: panel.title, token, count: panel.shape.split(" × ")[1], from })} ${panel.caption}`;
  }
}

/** @param {import("./types").Panel} panel */
function isHeads(panel) {
  return panel.name.endsWith(" heads");
}

/**
 * The rows of a source that a row of a panel comes from: the first, and the one after the last.
 * @param {import("./types").Panel} panel
 * @param {import("./types").Panel} source
 * @param {number} row
 * @param {number} column
 * @returns {[number, number]}
 */
function sourceRows(panel, source, row, column) {
  if (panel.kind === "scores" && source.name.endsWith(" keys")) return [column, column + 1];
  if (isHeads(panel) && source.kind === "vectors") return [0, source.rows.length];
  return [row, row + 1];
}
