// A text below which a model writes: each word in its turn, with lines to the words that it looks at, and with the words
// that may come next. Pointing at a word gives it the turn.

import { svg } from "../../chart/svg.js";

/** @typedef {[word: string, probability: number, text: string]} Candidate */
/** @typedef {{ words: string[], read: number, weights: number[][], candidates: Candidate[][], sentences: string[], about: string }} Data */

const [WIDTH, LINE, LEFT, NEXT, BAR] = [420, 25, 100, 300, 70];
const [READING, WRITING, END] = [700, 2800, 5000]; // milliseconds of a word
const LEAST_WEIGHT = 0.01; // a weight that no line can show

/** @param {number} row */
const place = (row) => (row + 0.5) * LINE;

/** The likeliest word is in the row that it will have; the others are above and below it. @param {number} rank */
const offset = (rank) => (rank % 2 ? -1 : 1) * Math.ceil(rank / 2);

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
    this.svg.setAttribute("viewBox", `0 0 ${WIDTH} ${(data.words.length + 1) * LINE}`);
    this.svg.querySelectorAll("g").forEach((group) => group.remove());
    this.lines = this.svg.appendChild(svg("g"));
    this.next = this.svg.appendChild(svg("g"));
    this.words = data.words.map((word, row) => this.#text(word, LEFT, row, "end"));
    this.svg.append(svg("g", {}, ...this.words));
    /** @type {Element} */ (this.svg.querySelector("title")).textContent = data.about;
    this.svg.onpointermove = this.svg.onpointerdown = (event) => this.point(event);
    this.svg.onpointerleave = () => this.play();
    this.choose(data.read - 1);
    this.svg.setAttribute("role", "img"); // nothing to be read before it is drawn
    this.play();
    this.root.dataset.ready = "true";
  }

  /** Gives one word after the other its turn, unless the system asks for reduced motion. */
  play() {
    this.close();
    if (window.matchMedia("(prefers-reduced-motion: reduce)").matches || !this.data) return;
    const { words, read } = this.data;
    const time = this.chosen < read - 1 ? READING : this.chosen < words.length - 1 ? WRITING : END;
    this.turn = window.setTimeout(() => {
      if (!document.hidden) this.choose((this.chosen + 1) % words.length);
      this.play();
    }, time);
  }

  close() {
    window.clearTimeout(this.turn);
  }

  /** @param {PointerEvent} event */
  point(event) {
    if (!this.data) return;
    const { words } = this.data;
    const { top, height } = this.svg.getBoundingClientRect();
    const row = Math.floor(((event.clientY - top) / height) * (words.length + 1));
    this.close();
    this.choose(Math.min(row, words.length - 1));
    this.words?.forEach((word) => word.classList.remove("to-come"));
  }

  /** @param {number} chosen the row of the word that has the turn, the last that the model has read then */
  choose(chosen) {
    if (!this.data || !this.lines || !this.next || !this.words) return;
    this.chosen = chosen;
    const { weights, candidates, read, sentences } = this.data;
    const row = weights[chosen];
    this.words.forEach((word, i) => {
      word.classList.toggle("now", i === chosen);
      word.classList.toggle("most", row.length > 0 && row[i] === Math.max(...row));
      word.classList.toggle("to-come", i > chosen);
      word.classList.toggle("written", i >= read);
    });
    this.lines.replaceChildren(...row.flatMap((weight, key) => (weight < LEAST_WEIGHT || key === chosen ? [] : [arc(chosen, key, weight)])));
    const likeliest = candidates[chosen - read + 1] ?? [];
    this.next.replaceChildren(...likeliest.flatMap(([word, probability, text], rank) => {
      const line = chosen + 1 + offset(rank);
      const bar = svg("rect", { x: NEXT + 8, y: place(line) - 5, width: Math.max(1, BAR * probability), height: 10 });
      return [this.#text(word, NEXT, line, "end"), bar, this.#text(text, NEXT + 14 + BAR * probability, line, "start")];
    }));
    this.caption.textContent = sentences[chosen];
  }

  /** @type {(word: string, x: number, row: number, anchor: string) => SVGElement} */
  #text(word, x, row, anchor) {
    return svg("text", { x, y: place(row), "text-anchor": anchor, "dominant-baseline": "central" }, word);
  }
}

/** @type {(query: number, key: number, weight: number) => SVGElement} */
function arc(query, key, weight) {
  const [from, to, x] = [place(query), place(key), LEFT + 8];
  const side = x + 12 + 0.45 * Math.abs(from - to);
  return svg("path", { d: `M${x} ${from}C${side} ${from} ${side} ${to} ${x} ${to}`, style: `stroke-width: ${1 + 11 * weight}; stroke-opacity: ${0.25 + 0.75 * weight}` });
}
