// A viewer of a sum: the questions so far, the grid of all shares, the largest terms, and the term that is shown. It is
// given where its content comes from and where its state is kept, so that it does not know whether Python runs.

import { Chart } from "../chart/chart.js";
import { button, element, header } from "../chart/elements.js";
import { watchTheme } from "./theme.js";

/** @typedef {import("../chart/types").Header} Header */
/** @typedef {Record<string, string>} Values of the state: its trail and its term */
/** @typedef {[string, Values]} Way a text, and what it opens */
/** @typedef {{ headings: string[], rows: (string | Way[])[][], marked: number | null }} Table */
/**
 * @typedef {object} Content as why_content.py makes it
 * @property {[string, string, Values][]} questions with their numbers
 * @property {string} answer
 * @property {string} sum
 * @property {string} term
 * @property {{ grid: Header & { places: string[] }, [name: string]: Header }} charts
 * @property {Table} terms
 * @property {Table | null} sources
 * @property {Way | null} next
 * @property {string} opened
 */
/**
 * @typedef {object} Source
 * @property {(trail: string, term: string) => Promise<Content>} content
 * @property {() => Promise<void>} plotly loads plotly.js
 */
/**
 * @typedef {object} State what is opened: trail and term
 * @property {(name: string) => any} get
 * @property {(values: Values) => void} set
 * @property {(listener: () => void) => () => void} listen calls it after each change, until the result is called
 */

const CHARTS = ["grid", "sum", "words", "term", "drawing"];

export class WhyViewer {
  runs = 0;

  /**
   * @param {HTMLElement} root
   * @param {string} template the HTML of a chart
   * @param {Source} source
   * @param {State} state
   */
  constructor(root, template, source, state) {
    this.root = root;
    this.source = source;
    this.state = state;
    root.classList.add("attnviz-viewer", "attnviz-why");
    this.questions = element("ol", "attnviz-why-questions");
    this.answer = element("p", "attnviz-why-answer");
    this.answer.setAttribute("role", "status");
    this.message = element("p", "attnviz-viewer-message");
    this.message.setAttribute("role", "status");
    this.terms = element("div", "attnviz-why-terms");
    this.sources = element("div", "attnviz-why-sources");
    this.term = element("p", "attnviz-why-about");
    this.next = element("div");
    /** @type {Record<string, HTMLElement>} */
    this.places = {};
    /** @type {Record<string, Chart>} */
    this.charts = {};
    for (const name of CHARTS) {
      const holder = element("div", `attnviz-viewer-chart attnviz-why-${name}`);
      holder.innerHTML = template; // ours, without anything of the figure
      this.places[name] = holder;
      this.charts[name] = new Chart(/** @type {HTMLElement} */ (holder.firstElementChild));
    }
    const { grid, sum, words, term, drawing } = this.places;
    const largest = element("div", "", this.terms);
    const opened = element("div", "", this.term, term, this.sources, this.next);
    root.replaceChildren(
      this.message,
      this.questions,
      this.answer,
      grid,
      element("div", "attnviz-why-pair attnviz-stack", sum, words),
      element("div", "attnviz-why-pair attnviz-stack", largest, opened),
      drawing,
    );
    this.unlisten = state.listen(() => this.show());
    this.unwatch = watchTheme(root, () => this.#redraw());
    this.ready = this.show();
  }

  close() {
    this.runs++;
    this.unlisten();
    this.unwatch();
    for (const chart of Object.values(this.charts)) chart.close();
  }

  /** Shows what the state says. */
  async show() {
    const run = ++this.runs;
    this.root.setAttribute("aria-busy", "true");
    try {
      if (!this.answer.textContent) this.say("Computing …");
      await this.source.plotly();
      const content = await this.source.content(this.state.get("trail"), this.state.get("term"));
      if (run !== this.runs) return;
      this.#fill(content);
      this.say("");
    } catch (error) {
      if (run === this.runs) this.say(/** @type {Error} */ (error).message);
    }
    if (run === this.runs) this.root.removeAttribute("aria-busy");
  }

  /** @param {string} text */
  say(text) {
    this.message.textContent = text;
    this.message.hidden = !text;
  }

  /** @param {Content} content */
  #fill(content) {
    const { questions, answer, sum, term, charts, terms, sources, next, opened } = content;
    this.questions.setAttribute("aria-label", opened);
    this.questions.replaceChildren(
      ...questions.map(([text, number, values], i) => {
        const isShown = i === questions.length - 1;
        const item = element("li", "", isShown ? text : this.#way([text, values]), " ", element("b", "", number));
        if (isShown) item.setAttribute("aria-current", "step");
        return item;
      }),
    );
    this.answer.textContent = answer;
    this.term.textContent = term;
    this.terms.replaceChildren(this.#table(terms), element("p", "attnviz-why-sum-sentence", sum));
    this.sources.replaceChildren(...(sources ? [this.#table(sources)] : []));
    this.next.replaceChildren(...(next ? [this.#way(next, "attnviz-why-next")] : []));
    for (const name of CHARTS) {
      const chart = charts[name];
      this.places[name].hidden = !chart;
      if (chart) this.charts[name].show({ ...chart, pinned: null, plotly: "" });
    }
    this.charts.grid.report = (event, value) => event === "click" && this.#open(content, /** @type {any} */ (value));
  }

  /**
   * Opens the largest term of a cell, if it has one.
   * @param {Content} content
   * @param {{ row: number, column: number }} cell
   */
  #open({ charts: { grid }, questions }, { row, column }) {
    const term = grid.spec.mode === "mosaic" && grid.places[row * grid.spec.columns + column];
    if (term) this.state.set({ ...questions[questions.length - 1][2], term });
  }

  /**
   * @param {Way} way
   * @param {string} [className]
   */
  #way([text, values], className = "attnviz-why-way") {
    return button(text, className, () => this.state.set(values));
  }

  /** @param {Table} table */
  #table({ headings, rows, marked }) {
    const contents = (/** @type {string | Way[]} */ cell) => (typeof cell === "string" ? [element("bdi", "", cell)] : cell.map((way) => this.#way(way)));
    const line = (/** @type {(string | Way[])[]} */ [first, ...others], /** @type {number} */ i) => {
      const name = header("row", "");
      name.append(...contents(first));
      return element("tr", i === marked ? "attnviz-chosen" : "", name, ...others.map((cell) => element("td", "", ...contents(cell))));
    };
    const head = element("tr", "", ...headings.map((heading) => header("col", heading)));
    const body = rows.map(line);
    const table = element("table", "attnviz-why-table", element("thead", "", head), element("tbody", "", ...body));
    table.tabIndex = 0; // the keyboard scrolls a wide one
    return table;
  }

  #redraw() {
    for (const chart of Object.values(this.charts)) if (chart.header) chart.show(chart.header);
  }
}
