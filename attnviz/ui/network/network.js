// The lookup as a network: layers of nodes with their numbers, joined by edges whose width follows the numbers. While
// the query is dragged in the plane, everything is computed here, and what Python has written of another query is not
// seen; else the numbers are Python's. Texts go in as textContent only.

import { fixed, number } from "../../chart/number.js";
import { project } from "../../chart/projection.js";
import { curve, setAttributes, svg } from "../../chart/svg.js";
import { _ } from "../../chart/words.js";
import { arrange } from "./layout.js";
import { lookUp } from "./lookup.js";

/** @typedef {import("./types").Pair} Pair */
/** @typedef {import("./layout.js").Node} Node */
/** @typedef {{ text: string, bold?: boolean }[]} Line */

const QUERY = "var(--attnviz-accent)";
const [RAISES, LOWERS, NONE] = ["var(--raises)", "var(--accent)", "var(--faint)"];
const NOTHING = 5e-5; // a derivative that is written as 0
const LARGE = 1.1; // of the usual letters: in a presentation

export class Network {
  /** @type {import("./types").Data} */
  data = /** @type {any} */ (null); // until it is first shown
  /** @type {ReturnType<typeof arrange>} */
  layout = arrange(0, 0, false);
  /** @type {Pair | null} where the plane has drawn the query last */
  place = null;
  /** @type {Map<string, SVGElement>} */
  elements = new Map();
  /** @type {Set<string>} of this drawing */
  used = new Set();

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.svg = /** @type {SVGSVGElement} */ (root.querySelector("svg"));
    this.caption = /** @type {HTMLElement} */ (root.querySelector("figcaption"));
    this.closed = new AbortController();
    /** @param {any} event */
    const drag = ({ detail }) => {
      if (!this.data || detail.key !== this.data.plane) return;
      this.place = detail.place;
      this.draw();
    };
    document.addEventListener("attnviz-drag", drag, { signal: this.closed.signal });
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(root);
  }

  close() {
    this.closed.abort();
    this.resized.disconnect();
    document.documentElement.classList.remove("attnviz-moving");
  }

  /**
   * Where the query is, if it is not where Python has it.
   * @returns {Pair | null}
   */
  get moved() {
    return this.place && String(this.place) !== String(this.data.query) ? this.place : null;
  }

  /** @param {import("./types").Data} data */
  show(data) {
    this.data = data;
    setAttributes(this.svg, { role: "img", "aria-label": data.description }); // nothing to be read before it is drawn
    this.draw();
    this.root.dataset.ready = "true";
  }

  draw() {
    const { data, moved } = this;
    if (!data || !this.root.clientWidth) return;
    document.documentElement.classList.toggle("attnviz-moving", Boolean(moved));
    const numbers = moved ? lookUp(data, moved) : data.numbers;
    const large = parseFloat(getComputedStyle(document.documentElement).fontSize) > 16 * LARGE;
    const layout = arrange(this.root.clientWidth, data.words.length, large);
    this.layout = layout;
    this.svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    this.root.classList.toggle("network-backward", data.backward);
    this.caption.textContent = moved ? data.movingSentence : data.sentence;
    this.used.clear();
    if (data.backward) this.#drawGradients(numbers.gradients);
    else this.#drawNumbers(numbers, moved ?? data.query);
    for (const [key, element] of this.elements)
      if (!this.used.has(key)) {
        element.remove();
        this.elements.delete(key);
      }
  }

  // Numbers --------------------------------------------------------------------------------------------------------

  /**
   * @param {import("./types").Numbers} numbers
   * @param {Pair} query
   */
  #drawNumbers({ similarities, weights, products, result }, query) {
    const { words, colors, keys, values, score, normalizer, formulas, projects } = this.data;
    const { layers, isTall } = this.layout;
    const [inputs, compared, weighed, stored, [end]] = layers;
    const largest = greatest(similarities);
    const heaviest = greatest(products);
    words.forEach((_none, i) => {
      const strength = Math.abs(similarities[i]) / largest;
      const dash = similarities[i] < 0 ? "5 4" : "none";
      const style = { width: 1 + 4 * strength, opacity: 0.3 + 0.7 * strength, dash };
      this.#edge(`query-${i}`, inputs[0], compared[i], { ...style, color: QUERY });
      this.#edge(`key-${i}`, inputs[i + 1], compared[i], { ...style, color: colors[i] });
      words.forEach((_none, j) => {
        const own = i === j;
        if (normalizer.kind === "uniform" || (normalizer.kind === "identity" && !own)) return;
        const share = weights[j];
        const opacity = own ? 0.35 + 0.65 * share : 0.12 + 0.5 * share;
        this.#edge(`share-${j}-${i}`, compared[j], weighed[i], { width: 0.8 + 6 * share, opacity, color: colors[j] });
      });
      const weight = { width: 1 + 9 * weights[i], opacity: 0.2 + 0.8 * Math.min(1, weights[i] * 3), color: colors[i] };
      this.#edge(`weight-${i}`, weighed[i], stored[i], weight);
      const share = Math.abs(products[i]) / heaviest;
      this.#edge(`product-${i}`, stored[i], end, { width: 1 + 9 * share, opacity: 0.2 + 0.8 * share, color: colors[i] });
    });
    const projected = projects && score.kind === "bilinear" ? [[{ text: "qW", bold: true }, ...pair(project(score.matrix, query))]] : [];
    this.#node("query", inputs[0], QUERY, this.#input(_("query"), query, projected));
    words.forEach((word, i) => {
      this.#node(`key-${i}`, inputs[i + 1], colors[i], this.#input(word, keys[i]));
      this.#node(`similarity-${i}`, compared[i], colors[i], [[{ text: short(similarities[i]) }]]);
      this.#node(`weight-${i}`, weighed[i], colors[i], [[{ text: weightText(weights[i]), bold: true }]], 0.12 + 0.4 * weights[i]);
      const [value, product] = [{ text: `× ${plain(values[i])}` }, { text: `= ${short(products[i])}`, bold: true }];
      this.#node(`value-${i}`, stored[i], colors[i], isTall ? [[value], [product]] : [[value, product]]);
    });
    this.#node("result", end, "currentColor", [[{ text: result === null ? _("nothing") : short(result), bold: true }]], 0.06, "network-result");
    this.#heads([
      [_("query and keys"), projects ? _("q, qW and k") : _("q and k")],
      [_("similarity s"), formulas.similarity],
      [_("weight a"), formulas.weight],
      [_("value v"), "a × v"],
      [_("result"), "a₁v₁ + a₂v₂ + …"],
    ]);
  }

  // Gradients ------------------------------------------------------------------------------------------------------

  /** @param {import("./types").Numbers["gradients"]} gradients */
  #drawGradients({ query, keys, similarities, paths, weights, values }) {
    const { words, colors } = this.data;
    const [inputs, compared, weighed, stored, [end]] = this.layout.layers;
    const most = { inputs: greatest(keys.flat()), similarities: greatest(similarities), paths: greatest(paths.flat()), weights: greatest(weights) };
    /** @type {(derivative: number, largest: number) => object} */
    const style = (derivative, largest) => {
      if (Math.abs(derivative) < NOTHING) return { width: 1.2, opacity: 0.5, color: NONE, dash: "1 5" };
      const strength = Math.abs(derivative) / largest;
      return { width: 1 + 6 * strength, opacity: 0.25 + 0.75 * strength, color: derivative > 0 ? RAISES : LOWERS, flows: true };
    };
    words.forEach((_none, i) => {
      // From a similarity on, it is the sign of its derivative that tells which way the result goes.
      const reaches = keys[i].some((part) => Math.abs(part) >= NOTHING) || query.some((part) => Math.abs(part) >= NOTHING);
      const back = style(reaches ? similarities[i] : 0, most.similarities);
      this.#edge(`query-${i}`, inputs[0], compared[i], back);
      this.#edge(`key-${i}`, inputs[i + 1], compared[i], back);
      words.forEach((_none, j) => this.#edge(`share-${j}-${i}`, compared[j], weighed[i], style(paths[i][j], most.paths)));
      this.#edge(`weight-${i}`, weighed[i], stored[i], style(weights[i], most.weights));
      this.#edge(`product-${i}`, stored[i], end, style(weights[i], most.weights));
    });
    this.#node("query", inputs[0], QUERY, this.#input(_("query"), query));
    words.forEach((word, i) => {
      this.#node(`key-${i}`, inputs[i + 1], colors[i], this.#input(word, keys[i]));
      this.#node(`similarity-${i}`, compared[i], colors[i], [[{ text: short(similarities[i]) }]]);
      this.#node(`weight-${i}`, weighed[i], colors[i], [[{ text: short(weights[i]) }]]);
      this.#node(`value-${i}`, stored[i], colors[i], [[{ text: weightText(values[i]) }]]);
    });
    this.#node("result", end, "currentColor", [[{ text: "1", bold: true }]], 0.06, "network-result");
    this.#heads([
      [_("∂ query, keys"), _("along x, y")],
      [_("∂ similarity"), ""],
      [_("∂ weight"), _("= value")],
      [_("∂ value"), _("= weight")],
      [_("∂ result"), ""],
    ]);
  }

  // Elements -------------------------------------------------------------------------------------------------------

  /**
   * The texts of a query or a key.
   * @param {string} word
   * @param {Pair} point
   * @param {Line[]} further
   * @returns {Line[]}
   */
  #input(word, point, further = []) {
    const name = { text: cut(word, this.layout.isTall ? 8 : 7), bold: true };
    if (!this.layout.isTall) return [[name, ...pair(point)], ...further];
    return [[name], ...point.map((part) => [{ text: plain(part) }])];
  }

  /** @param {[string, string][]} heads */
  #heads(heads) {
    const { isTall, heads: places } = this.layout;
    heads.forEach(([name, formula], layer) => {
      this.#text(`head-${layer}`, places[layer], [{ text: name, bold: true }], "network-head");
      if (!isTall) this.#text(`formula-${layer}`, { ...places[layer], y: places[layer].y + 19 }, [{ text: formula }], "network-formula");
    });
  }

  /**
   * @param {string} key
   * @param {Node} from
   * @param {Node} to
   * @param {any} style
   */
  #edge(key, from, to, { width, opacity, color, dash = "none", flows = false }) {
    const { isTall } = this.layout;
    /** @type {(node: Node, side: 1 | -1) => Pair} */
    const end = ({ x, y, width, height }, side) => (isTall ? [x, y + (side * height) / 2] : [x + (side * width) / 2, y]);
    setAttributes(this.#element(`edge ${key}`, "path", "edges"), {
      d: curve(end(from, 1), end(to, -1), isTall),
      class: flows ? "network-edge network-flow" : "network-edge",
      style: `stroke:${color};stroke-width:${width.toFixed(2)};opacity:${opacity.toFixed(2)};stroke-dasharray:${flows ? "7 5" : dash}`,
    });
  }

  /**
   * @param {string} key
   * @param {Node} node
   * @param {string} color
   * @param {Line[]} lines
   * @param {number} [tint]
   * @param {string} [className]
   */
  #node(key, node, color, lines, tint = 0.12, className = "") {
    const height = !this.layout.isTall && lines.length > 1 ? 48 : node.height;
    const box = { x: node.x - node.width / 2, y: node.y - height / 2, width: node.width, height, rx: 9 };
    const tinted = `fill:${color};fill-opacity:${tint.toFixed(2)};stroke:${color};stroke-width:1.6`;
    for (const [name, style] of [["paper", "fill:var(--st-background-color)"], ["tint", tinted]])
      setAttributes(this.#element(`${name} ${key}`, "rect", "nodes"), { ...box, style });
    const letters = this.layout.letters;
    lines.forEach((line, i) => {
      const y = node.y + (i - (lines.length - 1) / 2) * letters * 1.3;
      this.#text(`${key}${i ? `-${i}` : ""}`, { x: node.x, y }, line, className);
    });
  }

  /**
   * @param {string} key
   * @param {{ x: number, y: number }} place
   * @param {Line} line
   * @param {string} [className]
   */
  #text(key, { x, y }, line, className = "") {
    const text = this.#element(`text ${key}`, "text", "texts");
    const { isTall, letters } = this.layout;
    const size = isTall && className === "network-head" ? Math.min(12, letters) : letters;
    setAttributes(text, { x: x.toFixed(1), y: y.toFixed(1), class: `network-text ${className}`, "font-size": size, "data-node": key });
    const spans = line.map(({ text: part, bold }) => svg("tspan", bold ? { "font-weight": "600" } : {}, part));
    text.replaceChildren(...spans.flatMap((span, i) => (i ? [" ", span] : [span])));
  }

  /**
   * The element of a key: the one before, so that what moves in it goes on.
   * @param {string} key
   * @param {"path" | "rect" | "text"} name
   * @param {string} group
   * @returns {SVGElement}
   */
  #element(key, name, group) {
    this.used.add(key);
    const before = this.elements.get(key);
    if (before) return before;
    const made = svg(name);
    this.svg.querySelector(`.network-${group}`)?.append(made);
    this.elements.set(key, made);
    return made;
  }
}

/** @param {number[]} numbers */
const greatest = (numbers) => Math.max(...numbers.map(Math.abs)) || 1;

/**
 * A number with two decimals, or none where it is whole.
 * @param {number} value
 */
const short = (value) => fixed(value, Number.isInteger(value) ? 0 : 2);

/** @param {number} value */
const plain = (value) => String(Number(value.toFixed(2)) + 0).replace("-", "−");

/** @param {number} weight */
const weightText = (weight) => (weight === 0 || weight === 1 ? String(weight) : number(weight));

/** @type {(point: Pair) => Line} */
const pair = (point) => [{ text: point.map(plain).join(", ") }];

/** @type {(text: string, length: number) => string} */
const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
