// Two columns of the same words, and lines from each word to those that it looks at; one word after the other has its
// turn, until a person points at one.

import { curve, svg } from "../../chart/svg.js";

/** @typedef {{ tokens: string[], weights: number[][], sentences: string[], queries: number[], first: number }} Data */

const [WIDTH, LINE, LEFT, RIGHT] = [520, 29, 120, 400];
const TURN = 2600; // milliseconds of a word
const LEAST_WEIGHT = 0.01; // a weight that no line can show

export class Picture {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.svg = /** @type {SVGElement} */ (root.querySelector("svg"));
    this.caption = /** @type {HTMLElement} */ (root.querySelector("figcaption"));
    this.turn = 0;
    this.chosen = 0;
  }

  /** @param {Data} data */
  show(data) {
    this.data = data;
    const { tokens, weights, sentences, queries } = data;
    const place = (/** @type {number} */ i) => (i + 0.5) * LINE;
    this.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${tokens.length * LINE}`);
    this.svg.querySelectorAll("g").forEach((group) => group.remove());
    this.lines = queries.map((query) => {
      const group = this.svg.appendChild(svg("g"));
      return tokens.map((_, key) => {
        if (weights[query][key] < LEAST_WEIGHT) return null;
        return group.appendChild(svg("path", { d: curve([LEFT + 8, place(query)], [RIGHT - 8, place(key)]) }));
      });
    });
    const words = this.svg.appendChild(svg("g"));
    /** @type {(i: number, x: number, anchor: string) => SVGElement} */
    const word = (i, x, anchor) => {
      const attributes = { x, y: place(i), "text-anchor": anchor, "dominant-baseline": "central" };
      return words.appendChild(svg("text", attributes, tokens[i]));
    };
    this.queries = queries.map((query) => word(query, LEFT, "end"));
    this.keys = tokens.map((_, key) => word(key, RIGHT, "start"));
    this.svg.onpointermove = (event) => this.point(event);
    this.svg.onpointerdown = (event) => this.point(event);
    this.svg.onpointerleave = () => this.play();
    this.choose(Math.max(0, queries.indexOf(data.first)));
    /** @type {Element} */ (this.svg.querySelector("title")).textContent = queries.map((query) => sentences[query]).join(" ");
    this.svg.setAttribute("role", "img"); // nothing to be read before it is drawn
    this.play();
    this.root.dataset.ready = "true";
  }

  /** Gives each word its turn, unless the system asks for reduced motion. */
  play() {
    this.pause();
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches || !this.data) return;
    const { queries } = this.data;
    this.turn = window.setInterval(() => document.hidden || this.choose((this.chosen + 1) % queries.length), TURN);
  }

  close() {
    this.pause();
  }

  pause() {
    window.clearInterval(this.turn);
  }

  /** @param {PointerEvent} event */
  point(event) {
    if (!this.data) return;
    const { top, height } = this.svg.getBoundingClientRect();
    const row = Math.floor(((event.clientY - top) / height) * this.data.tokens.length);
    const index = this.data.queries.indexOf(row);
    this.pause();
    if (index >= 0) this.choose(index);
  }

  /** @param {number} index of the query that has its lines in color */
  choose(index) {
    if (!this.data || !this.lines || !this.queries || !this.keys) return;
    this.chosen = index;
    const { weights, queries, sentences } = this.data;
    const row = weights[queries[index]];
    this.lines.forEach((lines, i) =>
      lines.forEach((line, key) => {
        const weight = weights[queries[i]][key];
        const now = i === index;
        line?.classList.toggle("now", now);
        line?.setAttribute("style", `stroke-width: ${now ? 1 + 9 * weight : 1}; stroke-opacity: ${now ? 0.2 + 0.8 * weight : 0.12 * weight}`);
      }),
    );
    this.queries.forEach((word, i) => word.classList.toggle("now", i === index));
    this.keys.forEach((word, key) => {
      word.classList.toggle("now", row[key] === Math.max(...row));
      word.setAttribute("style", `fill-opacity: ${0.7 + 0.3 * Math.min(1, 4 * row[key])}`);
    });
    this.caption.textContent = sentences[queries[index]];
  }
}
