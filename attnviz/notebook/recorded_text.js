// A text that a language model has written, played token by token: the words, and the map of a head that grows with
// them. The last token that has been played is pinned until another one is chosen.

import { button, element } from "../chart/elements.js";
import { WrittenText } from "../ui/write/write.js";
import { Viewer } from "./viewer.js";

/** @typedef {import("../ui/write/types").Written} Written */
/**
 * @typedef {Pick<Written, "tokens" | "special" | "roles" | "hidden" | "turns" | "prompt" | "steps" | "ending" | "colors" | "queryOffset"> & { keyOffsets: number[] }} Recorded
 * as attnviz/notebook/recorded_text.py makes it
 */

const EVERY = 700; // milliseconds between two tokens
const BLANK = 0; // the code of a cell that has the color of the page, in figures/themes.py

export class RecordedText extends Viewer {
  /** @type {ReturnType<typeof setInterval> | undefined} */
  playing;

  /**
   * @param {HTMLElement} root
   * @param {import("./viewer.js").Layer[]} layers
   * @param {string} template
   * @param {import("./viewer.js").Source} source
   * @param {import("./viewer.js").State} state
   * @param {Recorded} recorded
   * @param {string} html that of the text
   */
  constructor(root, layers, template, source, state, recorded, html) {
    super(root, layers, template, source, state);
    const [bar] = root.children;
    this.recorded = recorded;
    this.count = recorded.steps.length; // of the written tokens that are shown
    const holder = element("div");
    holder.innerHTML = html; // ours, without anything of the text
    this.text = new WrittenText(/** @type {HTMLElement} */ (holder.firstElementChild));
    this.text.isFollowed = true;
    for (const one of [this.text.form, this.text.stop, this.text.on]) one.remove();
    this.text.report = (event, value) => event === "pin" && this.#pin(/** @type {any} */ (value).row);
    this.play = button("Play", "attnviz-viewer-play", () => this.toggle());
    this.step = button("Next word", "attnviz-viewer-play", () => this.#goTo(this.count + 1));
    const again = button("Start again", "attnviz-viewer-play", () => this.#goTo(0));
    this.place = element("input", "attnviz-viewer-place");
    Object.assign(this.place, { type: "range", min: "0", max: String(this.count), value: String(this.count) });
    this.place.setAttribute("aria-label", "Written tokens");
    this.place.oninput = () => this.#goTo(Number(this.place.value));
    const tools = element("div", "attnviz-viewer-player attnviz-row", this.play, this.step, again, this.place);
    root.prepend(tools, holder);
    // The map stands below the text, where it is seen to grow; the heads stand below both.
    this.text.root.querySelector(".write-main")?.append(bar, this.pictures);
    this.ready = this.ready.then(() => this.#write());
  }

  close() {
    this.#halt();
    this.text.close();
    super.close();
  }

  get isWhole() {
    return this.count >= this.recorded.steps.length;
  }

  /** The row of the map from which the last token that is shown was written. */
  get last() {
    const { prompt, queryOffset } = this.recorded;
    return prompt - 1 - queryOffset + this.count - 1;
  }

  /** Plays the text on, or again from the beginning; or stops. */
  toggle() {
    if (this.playing) return this.#goTo(this.count);
    const next = () => {
      this.#show(this.count + 1);
      if (this.isWhole) this.#halt();
    };
    this.playing = setInterval(next, EVERY);
    this.#show(this.isWhole ? 0 : this.count);
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
    const { style, offsetHeight } = this.text.text;
    if (this.isWhole) style.minHeight = `${offsetHeight}px`; // what is below stays where it is
    this.count = Math.min(count, this.recorded.steps.length);
    if (this.isWhole) style.minHeight = "";
    this.state.set({ query: this.count ? this.last : null });
  }

  /** @param {number | null} row */
  #pin(row) {
    this.#halt();
    this.state.set({ query: row });
  }

  async show() {
    const query = this.state.get("query");
    if (this.recorded && query !== null && query > this.last) return this.state.set({ query: null }); // not written yet
    await super.show();
    if (this.recorded) this.#write();
  }

  /**
   * The map without the rows and columns of tokens that are still to come; it is as large as the whole.
   * @param {import("./viewer.js").HeadMap} header
   */
  part(header) {
    if (!this.recorded || this.isWhole || header.spec.mode !== "heatmap" || header.spec.downsampled) return header;
    const { figure, spec } = header;
    const [{ z = [], ...trace }] = figure.data;
    const rows = this.last + 1;
    const named = (/** @type {string[]} */ tokens, /** @type {number} */ count) => tokens.map((text, i) => (i < count ? text : ""));
    const labelled = (/** @type {string[]} */ labels, /** @type {number} */ count) =>
      labels.map((text, i) => (i < count ? text : `<span style='color:rgba(0,0,0,0)'>${text}</span>`)); // it takes room
    const blank = { type: "heatmap", coloraxis: "coloraxis2", zsmooth: false, hoverinfo: "none" };
    const isSelf = spec.keyTokens.length === spec.queryTokens.length;
    const columns = isSelf ? rows : spec.keyTokens.length;
    const weights = z.map((row, i) => (i < rows ? row : row.map(() => NaN)));
    const codes = z.map((row, i) => row.map((_weight, j) => (i < rows && j < columns ? NaN : BLANK)));
    return {
      ...header,
      stamp: header.stamp + this.count + 1,
      figure: { data: [{ ...trace, z: weights }, { ...blank, z: codes }], layout: { ...figure.layout, coloraxis2: { cmin: 0, cmax: 255 } } },
      spec: {
        ...spec,
        queryTokens: named(spec.queryTokens, rows),
        keyTokens: named(spec.keyTokens, columns),
        queryLabels: labelled(spec.queryLabels, rows),
        keyLabels: labelled(spec.keyLabels, columns),
      },
    };
  }

  /** Writes the tokens, with the weights of the chosen head. */
  #write() {
    const { recorded, count, isWhole } = this;
    const { tokens, prompt, queryOffset, steps, ending, keyOffsets, ...same } = recorded;
    const weights = this.maps[0]?.figure.data[0].z ?? [];
    const first = prompt - 1 - queryOffset;
    this.text.show({
      ...same,
      stamp: this.layer * 1000 + this.head,
      tokens: tokens.slice(0, prompt + count),
      prompt,
      queryOffset,
      keyOffset: keyOffsets[this.layer],
      start: 0,
      steps: steps.slice(0, count),
      rows: weights.slice(first, first + count),
      ending: isWhole ? ending : "",
      pinned: this.state.get("query"),
      running: !isWhole,
      heads: false,
      chat: false,
      earlier: 0,
      longer: 0,
      why: null,
      looks: null,
      choices: "",
      branches: "",
      mostBranches: 0,
      growth: { first: 0, queryTokens: [], queryLabels: [], keyTokens: [], keyLabels: [] },
    });
    this.play.textContent = this.playing ? "Pause" : "Play";
    this.step.disabled = isWhole;
    this.place.value = String(count);
  }
}
