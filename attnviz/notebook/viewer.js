// A viewer of heads: a mosaic of all of them, menus, and the chart of one, or two maps and their difference. It is given
// where the charts come from and where its state is kept, so that it does not know whether Python runs.

import { Chart } from "../chart/chart.js";
import { element } from "../chart/elements.js";
import { framed } from "./framed_tile.js";
import { watchTheme } from "./theme.js";

/** @typedef {import("../chart/types").Header} Header */
/** @typedef {{ name: string, heads: number, queries: number, keys: number, group: number }} Layer */
/** @typedef {[number, number, number, number]} Span the first query, the one after the last, and the same of the keys */
/** @typedef {Header & { places: [number, number][] }} Mosaic with the layer and the head of each tile */
/** @typedef {Header & { span?: Span }} HeadMap */
/**
 * @typedef {object} Source
 * @property {(group: number) => Promise<Mosaic>} mosaic
 * @property {(layer: number, head: number, span: Span | null) => Promise<HeadMap[]>} maps
 * @property {() => Promise<void>} plotly loads plotly.js
 */
/**
 * @typedef {object} State what is chosen: layer, head and query
 * @property {(name: string) => number | null} get
 * @property {(values: Record<string, number | null>) => void} set
 * @property {(listener: () => void) => () => void} listen calls it after each change, until the result is called
 */

const MOST_QUERIES = 1024; // in a menu
const SHARE_OF_MOSAICS = 0.2; // of the time that charts which grow take
const MOST_COLUMNS = 18; // of a mosaic beside a map

export class Viewer {
  runs = 0;
  /** @type {Mosaic | null} */
  mosaic = null;
  /** @type {HeadMap[]} */
  maps = [];
  shown = ""; // the layer, the head and the span of the maps
  group = -1; // of the mosaic
  /** @type {Span | null} */
  span = null;
  isGrowing = false; // charts are drawn again
  isBehind = false; // there are larger ones
  mosaicTime = 0; // in milliseconds, when the mosaic was drawn
  mosaicCost = 0; // milliseconds that it took
  status = ""; // what is said when nothing is computed

  /**
   * @param {HTMLElement} root
   * @param {Layer[]} layers
   * @param {string} template the HTML of a chart
   * @param {Source} source
   * @param {State} state
   */
  constructor(root, layers, template, source, state) {
    this.root = root;
    this.layers = layers;
    this.template = template;
    this.source = source;
    this.state = state;
    root.classList.add("attnviz-viewer");
    const bar = element("div", "attnviz-viewer-bar attnviz-row");
    this.menus = {
      layer: this.#menu(bar, "Layer", layers.map((layer) => layer.name), layers.length > 1),
      head: this.#menu(bar, "Head", [], layers.some((layer) => layer.heads > 1)),
      query: this.#menu(bar, "Query", [], true),
    };
    this.message = element("span", "attnviz-viewer-message");
    this.message.setAttribute("role", "status");
    bar.append(this.message);
    this.overview = element("div", "attnviz-viewer-heads");
    this.overview.hidden = layers.length === 1 && layers[0].heads === 1;
    this.pictures = element("div", "attnviz-viewer-maps attnviz-stack");
    const charts = element("div", "attnviz-viewer-charts attnviz-stack", this.overview, this.pictures);
    root.replaceChildren(bar, charts);
    this.heads = this.#chart(this.overview);
    this.heads.report = (event, value) => event === "click" && this.#open(/** @type {any} */ (value));
    /** @type {Chart[]} */
    this.charts = [];
    this.unlisten = state.listen(() => this.show());
    this.unwatch = watchTheme(root, () => this.#redraw());
    this.ready = this.show();
  }

  close() {
    this.runs++;
    this.isGrowing = false;
    this.unlisten();
    this.unwatch();
    for (const chart of [this.heads, ...this.charts]) chart.close();
  }

  get layer() {
    return this.state.get("layer") ?? 0;
  }

  get head() {
    return this.state.get("head") ?? 0;
  }

  /** Shows what the state says, and computes only what has changed. */
  async show() {
    const run = ++this.runs;
    const { layer, head } = this;
    const wanted = String([layer, head, this.span]);
    this.#choose();
    try {
      const isNew = wanted !== this.shown || this.group !== this.layers[layer].group;
      if (isNew && !this.isGrowing) this.say("Computing …");
      await this.source.plotly();
      if (wanted !== this.shown) {
        const maps = await this.source.maps(layer, head, this.span);
        if (run !== this.runs) return;
        [this.maps, this.shown] = [maps, wanted];
      }
      this.#showMaps();
      const { group } = this.layers[layer];
      if (this.group !== group && !this.overview.hidden) {
        const start = performance.now();
        const mosaic = await this.source.mosaic(group);
        if (run !== this.runs) return;
        [this.mosaic, this.group] = [mosaic, group];
        this.mosaicTime = performance.now();
        this.mosaicCost = this.mosaicTime - start;
      }
      this.#showMosaic();
      this.say(this.status);
    } catch (error) {
      if (run === this.runs) this.say(/** @type {Error} */ (error).message);
    }
  }

  /**
   * Shows layers that have grown, the newest ones when what is under way is drawn.
   * @param {Layer[]} layers
   * @param {string} [status] what is said meanwhile; empty at the end
   */
  async grow(layers, status = "") {
    [this.layers, this.status, this.isBehind] = [layers, status, true];
    if (this.isGrowing) return;
    this.isGrowing = true;
    while (this.isBehind && this.isGrowing) {
      this.isBehind = false;
      this.shown = "";
      const since = performance.now() - this.mosaicTime;
      if (!this.status || since * SHARE_OF_MOSAICS > this.mosaicCost) this.group = -1;
      await this.show();
    }
    this.isGrowing = false;
  }

  /** @param {string} text */
  say(text) {
    this.message.textContent = text;
  }

  // Charts ---------------------------------------------------------------------------------------------------------

  /** @param {HTMLElement} parent */
  #chart(parent) {
    const holder = element("div", "attnviz-viewer-chart");
    holder.innerHTML = this.template; // ours, without anything of the figure
    parent.append(holder);
    return new Chart(/** @type {HTMLElement} */ (holder.firstElementChild));
  }

  #showMaps() {
    while (this.charts.length < this.maps.length) this.charts.push(this.#chart(this.pictures));
    this.pictures.dataset.count = String(this.maps.length);
    this.#queries();
    this.maps.forEach((header, i) => {
      const chart = this.charts[i];
      chart.report = (event, value) => this.#act(header, event, value);
      chart.show({ ...header, pinned: this.#pinned(header), plotly: "" });
    });
  }

  /** The row of the pinned query; a map whose rows are several queries has none. @param {HeadMap} header */
  #pinned(header) {
    const query = this.state.get("query");
    const { spec } = header;
    const has = spec.mode === "heatmap" && !spec.downsampled && query !== null && query < spec.queryTokens.length;
    return has ? query : null;
  }

  #showMosaic() {
    const { mosaic } = this;
    if (!mosaic || mosaic.spec.mode !== "mosaic") return;
    const { spec } = mosaic;
    this.overview.dataset.wide = String(spec.columns > MOST_COLUMNS);
    const tile = mosaic.places.findIndex(([layer, head]) => layer === this.layer && head === this.head);
    this.heads.show({ ...mosaic, ...framed(mosaic, tile, this.root), plotly: "" });
  }

  #redraw() {
    for (const chart of [this.heads, ...this.charts]) if (chart.header) chart.show(chart.header);
  }

  // What a person does ---------------------------------------------------------------------------------------------

  /** @param {{ row: number, column: number }} cell of the mosaic */
  #open({ row, column }) {
    const spec = this.mosaic?.spec;
    if (spec?.mode !== "mosaic") return;
    const place = this.mosaic?.places[Math.floor(row / spec.tileHeight) * spec.columns + Math.floor(column / spec.tileWidth)];
    if (place) this.#set({ layer: place[0], head: place[1] });
  }

  /**
   * @param {HeadMap} header
   * @param {string} event
   * @param {any} value
   */
  #act(header, event, value) {
    const { spec } = header;
    if (spec.mode !== "heatmap") return;
    if (event === "click") {
      const { row, column } = value;
      const query = spec.downsampled ? (column < 0 ? -1 : spec.downsampled.queryPositions[row][column]) : row;
      if (query >= 0) this.state.set({ query: query === this.state.get("query") ? null : query });
    } else if (event === "view" && header.span) {
      const { queries, keys } = this.layers[this.layer];
      const size = /** @type {[number, number]} */ ([spec.queryTokens.length, spec.keyTokens.length]);
      this.span = value.cells && within(zoomed(header.span, size, value.cells), queries, keys);
      this.show();
    }
  }

  /** @param {Record<string, number | null>} values */
  #set(values) {
    if ("layer" in values && this.layers[values.layer ?? 0].queries !== this.layers[this.layer].queries) values.query = null;
    this.span = null;
    this.state.set(values);
  }

  // Menus ----------------------------------------------------------------------------------------------------------

  /**
   * @param {HTMLElement} bar
   * @param {string} name
   * @param {string[]} options
   * @param {boolean} isNeeded
   */
  #menu(bar, name, options, isNeeded) {
    const menu = element("select");
    menu.setAttribute("aria-label", name);
    const label = element("label", "attnviz-viewer-menu attnviz-row", name, menu);
    label.hidden = !isNeeded;
    bar.append(label);
    fill(menu, options);
    menu.addEventListener("change", () => {
      const value = menu.value === "" ? null : Number(menu.value);
      if (name === "Layer") this.#set({ layer: value, head: Math.min(this.head, this.layers[value ?? 0].heads - 1) });
      else if (name === "Head") this.#set({ head: value });
      else this.state.set({ query: value });
    });
    return menu;
  }

  /** Sets the menus to the state. */
  #choose() {
    const { layer, head, query } = this.menus;
    layer.value = String(this.layer);
    const { heads } = this.layers[this.layer];
    if (head.options.length !== heads) fill(head, Array.from({ length: heads }, (_, i) => String(i)));
    head.value = String(this.head);
    query.value = String(this.state.get("query") ?? "");
  }

  #queries() {
    const { spec } = this.maps[0];
    const { query } = this.menus;
    const tokens = spec.mode === "heatmap" && !spec.downsampled && spec.queryTokens.length <= MOST_QUERIES ? spec.queryTokens : [];
    /** @type {HTMLElement} */ (query.parentElement).hidden = tokens.length < 2;
    const count = (/** @type {string} */ token) => tokens.filter((other) => other === token).length;
    const names = tokens.map((token, i) => (count(token) > 1 ? `${token} (${i})` : token));
    fill(query, names, "none");
    query.value = String(this.state.get("query") ?? "");
  }
}

/**
 * The queries and keys of some cells of a downsampled map.
 * @param {Span} span of the whole map
 * @param {[number, number]} size its rows and columns
 * @param {Span} cells the first and the last row and column
 * @returns {Span}
 */
export function zoomed([query, lastQuery, key, lastKey], [rows, columns], [top, bottom, left, right]) {
  const first = (/** @type {number} */ cell, /** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ cells) => from + Math.floor((cell * (to - from)) / cells);
  const end = (/** @type {number} */ cell, /** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ cells) => from + Math.ceil(((cell + 1) * (to - from)) / cells);
  return [first(top, query, lastQuery, rows), end(bottom, query, lastQuery, rows), first(left, key, lastKey, columns), end(right, key, lastKey, columns)];
}

/**
 * The part of a span that a map has: a wheel zooms out beyond the part in view.
 * @param {Span} span
 * @param {number} queries
 * @param {number} keys
 * @returns {Span}
 */
export function within([query, lastQuery, key, lastKey], queries, keys) {
  return [Math.max(0, query), Math.min(queries, lastQuery), Math.max(0, key), Math.min(keys, lastKey)];
}

/**
 * @param {HTMLSelectElement} menu
 * @param {string[]} names
 * @param {string} [none] the name of the choice of nothing
 */
function fill(menu, names, none) {
  const options = names.map((name, i) => new Option(name, String(i)));
  menu.replaceChildren(...(none === undefined ? [] : [new Option(none, "")]), ...options);
}
