// A text that a language model has written, played token by token. The last token that is shown is pinned until another
// one is chosen.

import { button, element } from "../chart/elements.js";
import { WrittenText } from "../ui/write/write.js";

/** @typedef {import("../ui/write/types").Written} Written */

const EVERY = 700; // milliseconds between two tokens
const IN_THE_APP = {
  growth: { first: 0, queryTokens: [], queryLabels: [], keyTokens: [], keyLabels: [] },
  chat: false,
  earlier: 0,
  longer: 0,
  why: null,
  looks: null,
  branches: "",
  mostBranches: 0,
};

export class PlayedText {
  /** @type {ReturnType<typeof setInterval> | undefined} */
  playing;
  /** @type {Written | null} */
  content = null;
  count = 0; // of the written tokens that are shown
  /** @type {number | null} the row of the map that is pinned */
  row = null;
  scrolled = 0; // pixels of the text
  /** @type {(row: number | null) => void} opens the state in which a row is pinned */
  report = () => {};

  /** @param {string} html that of the text */
  constructor(html) {
    this.root = element("div", "");
    this.root.innerHTML = html; // ours, without anything of the text
    this.text = new WrittenText(/** @type {HTMLElement} */ (this.root.firstElementChild));
    this.text.isFollowed = true;
    for (const one of [this.text.form, this.text.stop, this.text.on]) one.remove();
    this.text.report = (event, value) => event === "pin" && this.#pin(/** @type {any} */ (value).row);
    this.play = button("Play", "attnviz-play", () => this.toggle());
    this.step = button("Next word", "attnviz-play", () => this.#goTo(this.count + 1));
    const again = button("Start again", "attnviz-play", () => this.#goTo(0));
    this.place = Object.assign(element("input", "attnviz-place-of-play"), { type: "range", min: "0" });
    this.place.setAttribute("aria-label", "Written tokens");
    this.place.oninput = () => this.#upTo(Number(this.place.value));
    this.place.onchange = () => this.#goTo(this.count);
    this.text.text.onscroll = () => (this.scrolled = this.text.text.scrollTop);
    this.root.prepend(element("div", "attnviz-player attnviz-row", this.play, this.step, again, this.place));
  }

  close() {
    this.#halt();
    this.text.close();
  }

  get total() {
    return this.content?.steps.length ?? 0;
  }

  /** The row of the map from which the first token was written. */
  get first() {
    const { prompt = 0, queryOffset = 0 } = this.content ?? {};
    return prompt - 1 - queryOffset;
  }

  /**
   * Shows a text, and of one that is being played what has been shown.
   * @param {Written} content
   */
  show(content) {
    if (this.content?.tokens.join("\0") !== content.tokens.join("\0")) {
      this.#halt();
      this.count = content.steps.length;
    }
    this.content = content;
    if (!this.playing) this.row = content.pinned;
    if (this.row !== null && this.row >= this.first + this.count) this.count = this.row - this.first + 1; // chosen in the map
    this.text.text.scrollTop = this.scrolled; // it has been put into its new place
    this.#write();
  }

  /** Plays the text on, or again from the beginning; or stops. */
  toggle() {
    if (this.playing) return this.#goTo(this.count);
    const next = () => {
      if (this.count + 1 >= this.total) this.#halt();
      this.#show(this.count + 1);
    };
    this.playing = setInterval(next, EVERY);
    this.#show(this.count < this.total ? this.count : 0);
  }

  #halt() {
    clearInterval(this.playing);
    this.playing = undefined;
  }

  /** @param {number} count */
  #goTo(count) {
    this.#halt();
    this.#show(count);
  }

  /**
   * Shows the text up to a written token, which is pinned.
   * @param {number} count
   */
  #show(count) {
    this.#upTo(count);
    this.report(this.row);
  }

  /** @param {number} count */
  #upTo(count) {
    const { style, offsetHeight } = this.text.text;
    if (this.count === this.total) style.minHeight = `${offsetHeight}px`; // what is below stays where it is
    this.count = Math.min(count, this.total);
    if (this.count === this.total) style.minHeight = "";
    this.row = this.count ? this.first + this.count - 1 : null;
    this.#write();
  }

  /** @param {number | null} row */
  #pin(row) {
    this.#halt();
    this.row = row;
    this.report(row);
  }

  /** Writes the tokens, with the weights of the chosen head. */
  #write() {
    const { content, count, total } = this;
    if (!content) return;
    const { tokens, prompt, steps, rows, ending } = content;
    this.text.show({
      ...IN_THE_APP,
      ...content,
      tokens: tokens.slice(0, prompt + count),
      steps: steps.slice(0, count),
      rows: rows.slice(0, count),
      ending: count < total ? "" : ending,
      pinned: this.row,
      running: count < total,
    });
    this.play.textContent = this.playing ? "Pause" : "Play";
    this.step.disabled = count === total;
    this.place.max = String(total);
    this.place.value = String(count);
  }
}
