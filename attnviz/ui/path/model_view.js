// The whole model: stages from left to right (down on a phone), attention as lines whose widths are weights.

import { button as makeButton, element } from "../../chart/elements.js";
import { curve, svg } from "../../chart/svg.js";
import { _ } from "../../chart/words.js";
import { context, drawCells, setBox } from "./dom.js";
import { modelLayout, rowAt } from "./layout.js";
import { nextWordTable } from "./next_word.js";
import { written } from "./numbers.js";
import { eased, nextWordStep, opacity, View } from "./view.js";

const DOTS = 10; // that run along the lines of a step

/** @extends {View<import("./types").ModelPicture>} */
export class ModelView extends View {
  caption = _("Every bar is a vector, a row of numbers: blue above 0, brown below. Lines are attention, the mean of all heads. Click a layer to open it.");

  /** @param {import("./types").Shown<import("./types").ModelPicture>} given */
  constructor(...given) {
    super(...given);
    const { picture, room } = this;
    const slim = picture.stages.filter(({ kind }) => kind === "slim").length;
    if (slim) this.caption += ` ${_("Of {count} layers, only the vectors after them are shown.", { count: slim })}`;
    this.lit = ""; // the row under the pointer
    this.layout = modelLayout(picture, room);
    /** @type {import("./types").Step[]} */
    this.steps = picture.stages.map(({ kind, title, caption }, i) => {
      const isShort = kind === "slim";
      return { title: isShort ? title : this.#frameTitle(i) + title, caption, isShort };
    });
    if (picture.next) this.steps.push(nextWordStep(picture.next));
    const { layout } = this;
    this.host.classList.add("path-model");
    Object.assign(this.host.style, { width: `${layout.width}px`, height: `${layout.height}px` });
    this.host.append(...this.#frames());
    this.links = picture.stages.map((_none, i) => this.#link(i));
    this.columns = picture.stages.map((_none, i) => this.#column(i));
    this.rails = this.#layer(layout.rails);
    for (const { from, to } of layout.rails) this.rails.append(svg("path", { d: curve(from, to), class: "path-rail" }));
    this.host.append(this.rails, ...this.links.map((one) => one.layer), ...this.columns, ...this.#texts());
    this.next = this.#next();
    this.dots = Array.from({ length: DOTS }, () => element("i", "path-dot"));
    this.host.append(...this.dots);
    this.out = this.#layer([this.layout.out]);
    if (this.next) {
      const { from, to } = this.layout.out;
      this.out.append(svg("path", { d: curve(from, to, room.vertical), class: "path-out" }));
      this.host.append(this.out, this.next);
    }
    this.host.onpointermove = (event) => {
      const { left, top } = this.host.getBoundingClientRect();
      this.#light(rowAt(layout, event.clientX - left, event.clientY - top));
    };
    this.host.onpointerleave = () => this.#light(null);
  }

  /** @type {View<any>["reveal"]} */
  reveal(step, share) {
    const now = eased(share);
    const opacityOf = (/** @type {number} */ i) => opacity(i, step, now);
    this.columns.forEach((column, i) => {
      column.style.opacity = opacity(i, step, (now - 0.6) / 0.4);
      const shift = i === step && this.picture.stages[i].source < 0 ? (1 - now) * -10 : 0;
      column.style.transform = this.room.vertical ? `translateY(${shift}px)` : `translateX(${shift}px)`;
    });
    this.links.forEach(({ layer }, i) => (layer.style.opacity = opacityOf(i)));
    const moving = step === null || share >= 1 ? [] : (this.links[step]?.moving ?? []);
    const along = Math.min(1, share / 0.75);
    this.dots.forEach((dot, i) => {
      dot.style.opacity = moving[i] ? String(Math.min(1, along * 5, (1 - share) * 5)) : "0";
      if (!moving[i]) return;
      dot.style.offset = `path("${curve(moving[i].from, moving[i].to, this.room.vertical)}") ${along * 100}% 0deg`;
      dot.className = `path-dot path-${this.picture.stages[step ?? 0].kind}`;
    });
    this.out.style.opacity = opacityOf(this.picture.stages.length);
    this.rails.style.opacity = opacityOf(this.picture.stages.findIndex(({ kind }) => kind === "memory"));
    if (!this.next) return;
    const isLater = step !== null && step < this.picture.stages.length;
    this.next.style.visibility = isLater ? "hidden" : ""; // one can think of a word before it is shown
    this.next.style.opacity = isLater ? "0" : opacityOf(this.picture.stages.length);
  }

  /** @param {number} stage */
  #frameTitle(stage) {
    const frame = this.picture.frames.find((one) => one.first <= stage && stage <= one.last);
    const { kind, stack } = this.picture.stages[stage];
    return `${kind === "embedding" ? this.picture.bands.find((one) => one.stack === stack)?.title : frame?.about}, `;
  }

  #frames() {
    return this.picture.frames.map((frame, i) => {
      const button = makeButton("", `path-frame path-${this.picture.stages[frame.first].kind}`, () => this.open(frame.open));
      button.dataset.open = frame.open;
      button.append(element("span", "", frame.title));
      button.setAttribute("aria-label", _("{title}: open {part}", { title: frame.title, part: frame.about }));
      button.title = _("Open {part}", { part: frame.about });
      return setBox(button, this.layout.frames[i]);
    });
  }

  /** @param {import("./types").Line[]} lines that it has to hold: small layers are quick to be shown */
  #layer(lines) {
    const ends = lines.flatMap(({ from, to }) => [from, to]);
    const pad = this.layout.thickness;
    const [x, y] = [0, 1].map((axis) => Math.min(...ends.map((end) => end[axis]), Infinity) - pad);
    const [right, bottom] = [0, 1].map((axis) => Math.max(...ends.map((end) => end[axis]), -Infinity) + pad);
    const [width, height] = ends.length ? [right - x, bottom - y] : [0, 0];
    const layer = svg("svg", { width, height, viewBox: ends.length ? `${x} ${y} ${width} ${height}` : "0 0 1 1", "aria-hidden": "true", class: "path-layer" });
    if (ends.length) Object.assign(layer.style, { left: `${x}px`, top: `${y}px` });
    return layer;
  }

  /** @param {number} stage */
  #link(stage) {
    const { lines, straight } = this.layout.columns[stage].link;
    const { kind } = this.picture.stages[stage];
    const layer = this.#layer([...lines, ...straight]);
    layer.classList.add(`path-${kind}`);
    for (const { from, to } of straight) layer.append(svg("path", { d: curve(from, to, this.room.vertical), class: "path-residual" }));
    const last = this.picture.next && kind === "cross" ? this.picture.stages[stage].cells.length - 1 : null;
    const paths = lines.map((line) => {
      const made = svg("path", {
        d: curve(line.from, line.to, this.room.vertical),
        "stroke-width": Math.max(0.8, line.weight * this.layout.thickness * 0.75),
        opacity: lineOpacity(line, last),
        class: "path-line",
      });
      layer.append(made);
      return { made, line };
    });
    const moving = lines.length ? [...lines].sort((a, b) => b.weight - a.weight).slice(0, DOTS) : straight.slice(0, DOTS);
    return { layer, paths, moving, last };
  }

  /** @param {number} stage */
  #column(stage) {
    const { box, rows } = this.layout.columns[stage];
    const canvas = element("canvas", "path-column");
    canvas.setAttribute("aria-hidden", "true");
    const drawing = context(canvas, box.w, box.h);
    const color = (/** @type {number | null} */ value) => this.palette.change((value ?? 0) / 100);
    rows.forEach((row, i) => drawCells(drawing, { ...row, x: row.x - box.x, y: row.y - box.y }, this.picture.stages[stage].cells[i], color, this.room.vertical));
    Object.assign(canvas.style, { left: `${box.x}px`, top: `${box.y}px` });
    return canvas;
  }

  #texts() {
    const { layout, picture } = this;
    const tokens = layout.tokens.map(({ band, row, x, y }) => {
      const made = element("span", "path-token", picture.bands[band].tokens[row]);
      Object.assign(made.style, { left: `${x}px`, top: `${y}px` });
      if (picture.next && band === picture.bands.length - 1 && row === picture.bands[band].tokens.length - 1) made.classList.add("path-current");
      return made;
    });
    const titles = layout.titles.map(({ x, y }, i) => {
      const made = element("span", "path-band", picture.bands[i].title);
      Object.assign(made.style, { left: `${x}px`, top: `${y}px` });
      return made;
    });
    const labels = picture.stages.flatMap((stage, i) => {
      const place = layout.columns[i].link.label;
      if (!place || this.room.vertical || stage.kind === "memory") return [];
      const made = element("span", `path-label path-${stage.kind}`, stage.label);
      Object.assign(made.style, { left: `${place.x}px`, top: `${place.y}px` });
      return [made];
    });
    return [...titles, ...tokens, ...labels];
  }

  #next() {
    const { next } = this.picture;
    if (!next) return null;
    const button = makeButton(_("All scores"), "path-open", () => this.open(next.open));
    button.dataset.open = next.open;
    button.title = _("Open the scores of the next word");
    const table = nextWordTable(next, this.draw);
    table.querySelector(".path-actions")?.append(button);
    return setBox(element("div", "path-outcome", table), this.layout.next);
  }

  /** @param {{ stage: number, row: number } | null} place */
  #light(place) {
    const name = place ? `${place.stage} ${place.row}` : "";
    if (name === this.lit) return;
    this.lit = name;
    this.links.forEach(({ paths, last }, i) => {
      for (const { made, line } of paths) {
        const opacity = !place || place.stage !== i ? lineOpacity(line, last) : line.row === place.row ? 1 : 0.04;
        made.setAttribute("opacity", String(opacity));
      }
    });
    this.say(place ? this.#sentence(place) : "");
  }

  /** @param {{ stage: number, row: number }} place */
  #sentence({ stage, row }) {
    const one = this.picture.stages[stage];
    const band = this.picture.bands.find(({ stack }) => stack === one.stack);
    const token = band?.tokens[row] ?? "";
    if (!one.weights) {
      if (one.kind === "slim") return _("“{token}” after this layer. Click it to see what attention and the MLP add.", { token });
      if (one.kind === "embedding" && !one.hasPositions) return _("“{token}” at position {row}: its learned vector.", { token, row });
      if (one.kind === "embedding") return _("“{token}” at position {row}: its learned vector, and that of its position.", { token, row });
      if (one.kind === "memory") return _("The memory of “{token}”: its last vector, normalized.", { token });
      return _("“{token}” after the MLP: its vector from the left, and what the MLP adds to it.", { token });
    }
    const keys = one.kind === "cross" ? this.picture.bands[0].tokens : (band?.tokens ?? []);
    const weights = one.weights[row].map((weight, key) => ({ weight: weight ?? 0, key })).sort((a, b) => b.weight - a.weight);
    const some = weights.filter(({ weight }) => weight > 0).slice(0, 3).map(({ weight, key }) => _("{weight} to “{key}”", { weight: written(weight), key: keys[key] }));
    return _("“{token}” gives {shares} (mean of all heads), and takes as much of their values.", { token, shares: some.join(", ") });
  }
}

/**
 * @param {import("./types").Line} line
 * @param {number | null} last the row that the next word comes from; the others are paler
 */
function lineOpacity({ weight, row }, last) {
  const strong = 0.12 + 0.75 * Math.sqrt(weight);
  return last === null || row === last ? strong : strong * 0.3;
}
