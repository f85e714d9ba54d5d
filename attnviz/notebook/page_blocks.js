// A page as blocks, where Streamlit does not draw it. It is given where its content comes from and where its state is
// kept, so that it does not know whether Python runs.

import { Chart } from "../chart/chart.js";
import { element } from "../chart/elements.js";
import { Path } from "../ui/path/path.js";
import { PlayedText } from "./played_text.js";
import { watchTheme } from "./theme.js";

/** @typedef {import("../chart/types").Header} Header */
/**
 * @typedef {object} Node as page/nodes.py makes it
 * @property {"html" | "figure" | "path" | "written" | "columns" | "row" | "more" | "other states" | "control"} kind
 * @property {string} [html] escaped; its links begin with "?"; of a path or a written text its template
 * @property {import("../ui/path/types").AnyPicture} [picture] of a path
 * @property {Record<string, string>} [parts] the links of the names in it
 * @property {string[]} [heads] the links of its heads
 * @property {string[]} [again] the link with another random number
 * @property {boolean} [open] of what can be folded
 * @property {string} [name] of a figure
 * @property {string} [title] of what is folded
 * @property {string} [chart]
 * @property {string} [description] of a figure
 * @property {object[]} [shapes] the frame of what is shown
 * @property {number | null} [pinned] the row of a map that is marked
 * @property {(string | null)[]} [opens] the links of its rows, tiles, points or options; the last of a written text unpins
 * @property {string} [label] of a control
 * @property {string} [parameter] of the link that a control sets
 * @property {string | number | boolean | null} [value]
 * @property {[string, string][]} [options] the values of a menu, and what it shows
 * @property {number} [least]
 * @property {number} [most]
 * @property {boolean} [linked] of a menu: whether links have its value; if not, it is the row that is marked
 * @property {Node[]} [nodes]
 * @property {{ share: number, nodes: Node[] }[]} [columns]
 */
/** @typedef {{ nodes: Node[], charts: Record<string, any> }} Content with what figures and written texts are drawn from */
/**
 * @typedef {object} Source
 * @property {(link: string) => Promise<Content>} content
 * @property {(link: string) => boolean} [holds] whether there is a state; without it, all are
 * @property {(link: string, figure: string, event: "click" | "zoom", place: number[] | null) => Promise<string | undefined>} [ask] what a click on a row and a column of a figure opens, or a zoom
 * @property {() => Promise<void>} plotly loads plotly.js
 * @property {() => string | undefined} [status] what is said when nothing is computed
 */
/**
 * @typedef {object} State what is opened: a link; of some pages also the query whose row is marked in all maps, or null
 * @property {(name: string) => any} get
 * @property {(values: Record<string, any>) => void} set
 * @property {(listener: () => void) => () => void} listen calls it after each change, until the result is called
 */

export class PageBlocks {
  isClosed = false;
  isShowing = false;
  isBehind = false; // the state, or the page, is another one by now
  /** @type {string | null} the link of what is shown */
  shown = null;
  /** @type {Map<string, { holder: HTMLElement, chart: Chart }>} by the names of the figures */
  figures = new Map();
  /** @type {{ holder: HTMLElement, path: Path } | null} */
  path = null;
  /** @type {PlayedText | null} */
  written = null;

  /**
   * @param {HTMLElement} root
   * @param {string} template the HTML of a chart
   * @param {Source} source
   * @param {State} state
   */
  constructor(root, template, source, state) {
    this.root = root;
    this.template = template;
    this.source = source;
    this.state = state;
    root.classList.add("attnviz-viewer", "attnviz-page");
    this.message = element("p", "attnviz-viewer-message");
    this.message.setAttribute("role", "status");
    this.blocks = element("div", "attnviz-blocks");
    root.replaceChildren(this.message, this.blocks);
    root.addEventListener("click", (event) => this.#follow(event));
    this.unlisten = state.listen(() => (state.get("link") === this.shown ? this.#mark() : this.show()));
    this.unwatch = watchTheme(root, () => this.#redraw());
    this.show();
  }

  close() {
    this.isClosed = true;
    this.unlisten();
    this.unwatch();
    for (const { chart } of this.figures.values()) chart.close();
    this.path?.path.close();
    this.written?.close();
  }

  /** Shows what the state says; what has changed meanwhile is shown then. */
  async show() {
    this.isBehind = true;
    if (this.isShowing) return;
    this.isShowing = true;
    this.root.setAttribute("aria-busy", "true");
    if (!this.blocks.childElementCount) this.say("Computing …");
    let link = null;
    while (!this.isClosed && (this.isBehind || link !== this.state.get("link"))) {
      this.isBehind = false;
      link = this.state.get("link");
      const error = await this.#load(link).catch((/** @type {Error} */ problem) => problem);
      this.say(error?.message ?? this.source.status?.() ?? "");
    }
    this.isShowing = false;
    this.root.removeAttribute("aria-busy");
  }

  /** @param {string} link */
  async #load(link) {
    await this.source.plotly();
    const content = await this.source.content(link);
    if (this.isClosed) return;
    this.shown = link;
    this.#fill(content);
  }

  /** @param {string} text */
  say(text) {
    this.message.textContent = text;
    this.message.hidden = !text;
  }

  /** @param {Content} content */
  #fill({ nodes, charts }) {
    const before = this.figures;
    this.figures = new Map();
    /** @type {(() => void)[]} */
    const draws = [];
    /** @param {Node[]} list */
    const made = (list) => list.map((node) => this.#node(node, charts, before, draws, made)).filter((one) => one !== null);
    const active = this.blocks.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
    const attribute = active?.dataset.parameter ? "data-parameter" : "href";
    const focused = active?.getAttribute(attribute);
    const folded = [...this.blocks.querySelectorAll("details")].map(({ open }) => open);
    this.blocks.replaceChildren(...made(nodes)); // what is shown again leaves its place, and with that the focus
    for (const [name, { chart }] of before) if (!this.figures.has(name)) chart.close();
    for (const draw of draws) draw(); // where their places have a width
    for (const [i, details] of this.blocks.querySelectorAll("details").entries()) details.open = folded[i] ?? details.open;
    this.#chooseQuery();
    if (active?.isConnected) active.focus({ preventScroll: true }); // a chart, or what plays a text
    else if (focused) /** @type {HTMLElement | null} */ (this.blocks.querySelector(`[${attribute}="${CSS.escape(focused)}"]`))?.focus();
  }

  /**
   * @param {Node} node
   * @param {Record<string, Header>} charts
   * @param {typeof this.figures} before the figures that are shown, which stay where they are shown again
   * @param {(() => void)[]} draws
   * @param {(nodes: Node[]) => HTMLElement[]} made
   * @returns {HTMLElement | null}
   */
  #node(node, charts, before, draws, made) {
    const { kind, nodes = [], columns = [] } = node;
    if (kind === "html") return this.#html(node.html ?? "");
    if (kind === "figure") return this.#figure(node, charts, before, draws);
    if (kind === "path") return this.#path(node, draws);
    if (kind === "written") return this.#written(node, charts, draws);
    if (kind === "control") return this.#control(node);
    if (kind === "other states" && this.source.holds) return null;
    if (kind === "more") return Object.assign(element("details", "attnviz-more", element("summary", "", node.title), ...made(nodes)), { open: node.open });
    if (kind !== "columns") return filled(element("div", kind === "row" ? "attnviz-row" : "", ...made(nodes)));
    const parts = columns.map((column) => element("div", "attnviz-column", ...made(column.nodes)));
    const box = element("div", "attnviz-columns", ...parts);
    box.style.setProperty("--shares", columns.map(({ share }) => `minmax(0, ${share}fr)`).join(" "));
    return box;
  }

  /** @param {string} html of texts that Python has escaped */
  #html(html) {
    const box = element("div", "attnviz-text");
    box.innerHTML = html;
    const { holds } = this.source;
    if (!holds) return box;
    for (const anchor of box.querySelectorAll("a")) {
      if (holds(linkOf(anchor))) continue;
      // What is not there is not offered: of the name of a row, the name stays.
      if (anchor.closest("th")) anchor.replaceWith(element("bdi", "", anchor.textContent));
      else anchor.remove();
    }
    for (const cell of box.querySelectorAll("td")) if (cell.querySelector("a") === null && !/[\p{L}\p{N}]/u.test(cell.textContent ?? "")) cell.replaceChildren();
    for (const table of box.querySelectorAll("table")) withoutEmptyColumns(table);
    return filled(box);
  }

  /**
   * @param {Node} node
   * @param {Record<string, Header>} charts
   * @param {typeof this.figures} before
   * @param {(() => void)[]} draws
   */
  #figure({ name = "", chart: id = "", description = "", shapes = [], opens = [], pinned = null }, charts, before, draws) {
    const figure = before.get(name) ?? this.#newFigure();
    this.figures.set(name, figure);
    const { holder, chart } = figure;
    holder.dataset.name = name;
    const { figure: drawn, ...header } = charts[id];
    const shown = { ...header, description, figure: { ...drawn, layout: { ...drawn.layout, shapes } }, pinned, plotly: "" };
    const { holds } = this.source;
    const isAlone = holds && !opens.some((link) => link !== null && link !== this.shown && holds(link));
    if (isAlone && header.clicks) Object.assign(shown, { clicks: false, hint: "" });
    draws.push(() => chart.show(this.#marked(shown)));
    chart.report = (event, value) => {
      const { row, column, cells } = /** @type {any} */ (value);
      if (event === "view") this.#ask(name, "zoom", cells);
      else if (event === "click" && header.spec.mode === "heatmap" && this.#query !== undefined) this.#pin(queryAt(header.spec, row, column));
      else if (event === "click" && header.spec.mode === "heatmap" && !opens.length) this.#ask(name, "click", [row, column]);
      else if (event === "click") this.#click(header, opens, { row, column });
    };
    return holder;
  }

  /**
   * The path through a model, whose clicks open a part or a head.
   *
   * @param {Node} node
   * @param {(() => void)[]} draws
   */
  #path({ html = "", picture, parts = {}, heads = [], again = [] }, draws) {
    if (!this.path) {
      const holder = element("div", "");
      holder.innerHTML = html; // ours, without anything of the model
      this.path = { holder, path: new Path(/** @type {HTMLElement} */ (holder.firstElementChild)) };
    }
    const { holder, path } = this.path;
    path.report = (event, value) => {
      const link = event === "open" ? parts[String(value)] : event === "head" ? heads[Number(value)] : again[0];
      if (!this.#open(link)) path.stage.classList.remove("path-leaving"); // what is not there stays closed
    };
    draws.push(() => path.show(/** @type {any} */ (picture)));
    return holder;
  }

  /**
   * A text that a model has written, whose tokens pin the rows with which they were written.
   *
   * @param {Node} node
   * @param {Record<string, any>} charts
   * @param {(() => void)[]} draws
   */
  #written({ html = "", chart = "", pinned = null, opens = [] }, charts, draws) {
    const written = (this.written ??= new PlayedText(html));
    written.report = (row) => this.#open(opens.at(row ?? -1));
    written.text.read = (row) => this.#read(row);
    draws.push(() => written.show({ ...charts[chart], pinned }));
    return written.root;
  }

  /**
   * The control of a field: what is chosen or written is a state. A menu has the option that is shown, and those whose
   * states are there: it stays where it is, also where nothing else can be chosen.
   *
   * @param {Node} node
   */
  #control({ label = "", parameter = "", value = "", options, least, most, linked = true, opens = [] }) {
    const holds = linked && this.source.holds;
    const input = element(options ? "select" : "input", "");
    if (input instanceof HTMLSelectElement) {
      for (const [i, [name, text]] of (options ?? []).entries()) if (!holds || name === value || holds(opens[i] ?? "")) input.add(new Option(text, name, false, name === value));
      input.disabled = !!holds && input.length < 2;
    } else if (input instanceof HTMLInputElement) {
      input.type = typeof value === "boolean" ? "checkbox" : typeof value === "number" ? "number" : "text";
      if (typeof value === "boolean") input.checked = value;
      else input.value = String(value ?? "");
      if (least !== undefined) input.min = String(least);
      if (most !== undefined) input.max = String(most);
    }
    input.dataset.parameter = parameter;
    input.dataset.linked = String(linked);
    input.setAttribute("aria-label", label);
    input.addEventListener("change", () => {
      if (!linked && input instanceof HTMLSelectElement) return this.#pin(input.selectedIndex - 1); // the first one is none
      if (this.#open(opens[options?.findIndex(([name]) => name === input.value) ?? -1])) return;
      const link = new URLSearchParams(this.state.get("link"));
      const { type, checked, value: chosen } = /** @type {HTMLInputElement} */ (input);
      link.set(parameter, type === "checkbox" ? String(checked) : chosen);
      this.state.set({ link: link.toString() });
    });
    return element("label", "attnviz-control", label, input);
  }

  #newFigure() {
    const holder = element("div", "attnviz-viewer-chart");
    holder.innerHTML = this.template; // ours, without anything of the figure
    return { holder, chart: new Chart(/** @type {HTMLElement} */ (holder.firstElementChild)) };
  }

  /**
   * @param {Pick<Header, "spec">} header
   * @param {(string | null)[]} opens
   * @param {{ row: number, column: number }} cell
   */
  #click({ spec }, opens, { row, column }) {
    if (spec.mode === "points" || spec.mode === "heatmap" || spec.mode === "picture") this.#open(opens[row]);
    else if (spec.mode === "mosaic") this.#open(opens[Math.floor(row / spec.tileHeight) * spec.columns + Math.floor(column / spec.tileWidth)]);
  }

  /** The query whose row is marked, or null; undefined where links have it. @returns {number | null | undefined} */
  get #query() {
    return this.state.get("query");
  }

  /** @param {number} query below 0: none; again: it is no longer marked */
  #pin(query) {
    this.state.set({ query: query < 0 || query === this.#query ? null : query });
  }

  /**
   * @param {Header} header
   * @returns {Header} of a map with its marked row, if there is one; one of a long text has rows of several queries
   */
  #marked(header) {
    const { spec } = header;
    const query = this.#query;
    if (spec.mode !== "heatmap" || query === undefined) return header;
    return { ...header, clicks: true, pinned: query !== null && !spec.downsampled && query < spec.queryTokens.length ? query : null };
  }

  /** Marks the row of the query in what is shown, unless that is replaced. */
  #mark() {
    if (this.isShowing) return;
    for (const { chart } of this.figures.values()) if (chart.header?.spec.mode === "heatmap") chart.show(this.#marked(chart.header));
    this.#chooseQuery();
  }

  /**
   * Makes the map beside a picture, and so the picture, show the row of a word; null: their own.
   * @param {number | null} row
   */
  #read(row) {
    const charts = [...this.figures.values()].map(({ chart }) => chart);
    const [picture, map] = ["picture", "heatmap"].map((mode) => charts.find((chart) => chart.header?.spec.mode === mode));
    if (picture) map?.root.dispatchEvent(new CustomEvent("attnviz-read", { detail: row }));
  }

  #chooseQuery() {
    const menu = /** @type {HTMLSelectElement | null} */ (this.blocks.querySelector('select[data-linked="false"]'));
    if (menu) menu.selectedIndex = (this.#query ?? -1) + 1;
  }

  /**
   * Opens what Python says.
   *
   * @param {string} name of a figure
   * @param {"click" | "zoom"} event
   * @param {number[] | null} place a row and a column; or the first and the last row and column, null: the whole map
   */
  async #ask(name, event, place) {
    try {
      this.#open(await this.source.ask?.(this.state.get("link"), name, event, place));
    } catch (error) {
      this.say(/** @type {Error} */ (error).message);
    }
  }

  /**
   * Opens a state.
   *
   * @param {string | null | undefined} link
   * @returns {boolean} whether it is there
   */
  #open(link) {
    const isThere = typeof link === "string" && (this.source.holds?.(link) ?? true);
    if (isThere) this.state.set({ link });
    return isThere;
  }

  /** @param {MouseEvent} event */
  #follow(event) {
    const anchor = /** @type {HTMLElement} */ (event.target).closest("a");
    if (!anchor?.getAttribute("href")?.startsWith("?")) return;
    event.preventDefault();
    this.state.set({ link: linkOf(anchor) });
  }

  #redraw() {
    for (const { chart } of this.figures.values()) if (chart.header) chart.show(chart.header);
    if (this.path?.path.picture) this.path.path.show(this.path.path.picture);
    if (this.written?.content) this.written.show(this.written.content);
  }
}

/**
 * @param {import("../chart/types").HeatmapSpec} spec
 * @param {number} row
 * @param {number} column below 0: the label of the row
 * @returns {number} the query of a cell of a map, of a downsampled one that of its largest weight; −1 if there is none
 */
function queryAt({ downsampled }, row, column) {
  if (!downsampled) return row;
  return column < 0 ? -1 : downsampled.queryPositions[row][column];
}

/** @param {HTMLAnchorElement} anchor */
function linkOf(anchor) {
  return (anchor.getAttribute("href") ?? "").slice(1);
}

/**
 * @param {HTMLElement} box
 * @returns {HTMLElement | null} nothing if it is empty
 */
function filled(box) {
  return box.textContent || box.childElementCount > 1 || box.querySelector("table, .attnviz-chart") ? box : null;
}

/** @param {HTMLTableElement} table */
function withoutEmptyColumns(table) {
  const rows = [...table.rows];
  const body = rows.filter((row) => row.closest("tbody"));
  for (let i = rows[0]?.cells.length ?? 0; i-- > 0; ) if (body.every((row) => !row.cells[i]?.textContent)) for (const row of rows) row.cells[i]?.remove();
}
