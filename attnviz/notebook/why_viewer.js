// A viewer of a sum: the questions so far, the grid of all shares, the largest terms, and the term that is shown. It is
// given where its content comes from and where its state is kept, so that it does not know whether Python runs.

import { Chart } from "../chart/chart.js";
import { button, element, header } from "../chart/elements.js";
import { framed } from "./framed_tile.js";
import { watchTheme } from "./theme.js";

/** @typedef {import("../chart/types").Header} Header */
/** @typedef {Record<string, string>} Values of the state: its trail and its term */
/** @typedef {[string, Values]} Way a text, and what it opens */
/** @typedef {{ headings: string[], rows: (string | Way[])[][] }} Table */
/**
 * @typedef {object} Content as why_content.py makes it
 * @property {[string, string, Values][]} questions with their numbers
 * @property {string} answer
 * @property {string} sum
 * @property {string} term
 * @property {{ grid: Header & { places: string[] }, [name: string]: Header }} charts
 * @property {Table} terms
 * @property {number | null} marked the row of the shown term
 * @property {number | null} tile the tile of the grid that has it
 * @property {Table | null} sources
 * @property {Way | null} next
 * @property {string} opened
 */
/**
 * @typedef {object} Source
 * @property {(trail: string, term: string) => Promise<Content>} content
 * @property {(values: Values) => boolean} [holds] whether there is a state; without it, all are
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
    const { questions, answer, sum, term, charts, terms, marked, tile, sources, next, opened } = content;
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
    this.terms.replaceChildren(this.#table(terms, marked), element("p", "attnviz-why-sum-sentence", sum));
    this.sources.replaceChildren(...(sources ? [this.#table(sources)] : []));
    this.next.replaceChildren(...(next && this.#holds(next) ? [this.#way(next, "attnviz-why-next")] : []));
    charts.grid = { ...charts.grid, ...framed(charts.grid, tile, this.root) };
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

  /** @param {Way} way */
  #holds([, values]) {
    return this.source.holds?.(values) ?? true;
  }

  /**
   * A table without the columns whose ways are all missing.
   * @param {Table} table
   * @param {number | null} [marked]
   */
  #table({ headings, rows }, marked = null) {
    const held = rows.map((row) => row.map((cell, i) => (typeof cell === "string" || !i ? cell : cell.filter((way) => this.#holds(way)))));
    const columns = headings.map((_heading, i) => i).filter((i) => held.some((row) => row[i].length));
    const contents = (/** @type {string | Way[]} */ cell) =>
      typeof cell === "string" ? [element("bdi", "", cell)] : cell.map((way) => (this.#holds(way) ? this.#way(way) : element("bdi", "", way[0])));
    const line = (/** @type {(string | Way[])[]} */ row, /** @type {number} */ i) => {
      const [first, ...others] = columns.map((column) => row[column]);
      const name = header("row", "");
      name.append(...contents(first));
      return element("tr", i === marked ? "attnviz-chosen" : "", name, ...others.map((cell) => element("td", "", ...contents(cell))));
    };
    const head = element("tr", "", ...columns.map((column) => header("col", headings[column])));
    const table = element("table", "attnviz-why-table", element("thead", "", head), element("tbody", "", ...held.map(line)));
    table.tabIndex = 0; // the keyboard scrolls a wide one
    return table;
  }

  #redraw() {
    for (const chart of Object.values(this.charts)) if (chart.header) chart.show(chart.header);
  }
}
