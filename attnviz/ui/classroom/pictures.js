// Pictures outside of Streamlit: what the teacher's page has drawn, and the charts of results.

import { Chart } from "../../chart/chart.js";
import { element } from "../../chart/elements.js";
import { fromBase64, unpack } from "../../chart/payload.js";

/**
 * @typedef {object} Node
 * @property {"block" | "column" | "heading" | "html" | "text" | "component"} kind
 * @property {string} [key]
 * @property {number} [weight] of a column: its share of the width
 * @property {Node[]} [children]
 * @property {string} [text]
 * @property {string} [body]
 * @property {string} [name]
 * @property {string} [bytes]
 * @property {string} [json]
 */
/** @typedef {Record<string, { module: string, html: string }>} Components by their names */

const UNWANTED = "script, style, iframe, form, input, button, nav, object, embed, link, meta, template";
const BASE = new URL("../../", import.meta.url);

/** Shows the contents of a page, and keeps the pictures that stay. */
export class PageView {
  /** @type {Map<string, { root: HTMLElement, remove: () => void }>} */
  mounted = new Map();
  /** @type {typeof this.mounted} */
  before = new Map(); // the last picture's; those that stay are moved to `mounted`
  /** @type {Promise<void>[]} */
  drawings = [];

  /**
   * @param {HTMLElement} root
   * @param {Components} components
   */
  constructor(root, components) {
    this.root = root;
    this.components = components;
  }

  /** @param {Node[]} nodes */
  async show(nodes) {
    [this.before, this.mounted, this.drawings] = [this.mounted, new Map(), []];
    this.root.replaceChildren(...nodes.map((node) => this.#node(node)));
    for (const { remove } of this.before.values()) remove();
    await Promise.all(this.drawings);
  }

  /**
   * @param {Node} node
   * @returns {HTMLElement}
   */
  #node(node) {
    switch (node.kind) {
      case "heading":
        return element("h2", "", node.text);
      case "text":
        return element("p", "class-caption", node.text);
      case "html":
        return clean(node.body ?? "");
      case "component":
        return this.#component(node);
      default: {
        const children = (node.children ?? []).map((child) => this.#node(child));
        const made = element("div", `class-${node.kind} attnviz-stack`, ...children);
        if (node.weight) made.style.setProperty("--weight", String(Math.round(node.weight * 100)));
        if (node.key) made.classList.add(`st-key-${node.key}`);
        return made;
      }
    }
  }

  /** @param {Node} node */
  #component({ name = "", key = "", bytes, json }) {
    const id = `${name} ${key}`;
    const kept = this.before.get(id);
    this.before.delete(id);
    const root = kept?.root ?? element("div", `st-key-${key}`);
    const { module, html } = this.components[name];
    if (!kept) root.innerHTML = html; // ours
    const data = bytes === undefined ? JSON.parse(json ?? "null") : fromBase64(bytes);
    const entry = { root, remove: kept?.remove ?? (() => {}) };
    this.mounted.set(id, entry);
    this.drawings.push(
      import(new URL(module, BASE).href).then(({ default: show }) => {
        entry.remove = show({ data, parentElement: root, setTriggerValue: () => {}, setStateValue: () => {} }) ?? entry.remove;
      }),
    );
    return root;
  }
}

/** The charts of a result, side by side where there is room. */
export class ResultView {
  /** @type {Map<string, { holder: HTMLElement, chart: Chart }>} by what they are drawn from */
  charts = new Map();

  html = ""; // of a chart

  /** @param {number} share of the window's height that charts have at least */
  constructor(share = 0) {
    this.share = share;
    this.root = element("div", "class-result attnviz-stack");
  }

  /** @param {import("./types").Result | null} result */
  show(result) {
    const { charts: before } = this;
    const wanted = result?.charts ?? [];
    this.charts = new Map(wanted.map(({ data, title }) => [data, before.get(data) ?? this.#chart(title)]));
    for (const [data, { chart }] of before) if (!this.charts.has(data)) chart.close();
    const sentences = (result?.sentences ?? []).map((text) => element("p", "class-sentence", text));
    const holders = [...this.charts.values()].map(({ holder }) => holder);
    this.root.replaceChildren(...sentences, ...(holders.length ? [element("div", "class-charts", ...holders)] : []));
    for (const [data, { chart }] of this.charts) {
      if (chart.header) continue;
      const header = unpack(fromBase64(data));
      chart.show({ ...header, height: Math.max(header.height, this.share * window.innerHeight) });
    }
  }

  /** @param {string} title */
  #chart(title) {
    const holder = element("div", "class-chart");
    holder.innerHTML = this.html; // ours
    const chart = new Chart(/** @type {HTMLElement} */ (holder.firstElementChild));
    if (title) holder.prepend(element("h3", "", title));
    return { holder, chart };
  }

  close() {
    this.show(null);
  }
}

/**
 * Sentences and tables of a page, whose texts are escaped; nothing else may come with them.
 * @param {string} body
 */
function clean(body) {
  const parsed = new DOMParser().parseFromString(body, "text/html").body;
  for (const unwanted of parsed.querySelectorAll(UNWANTED)) unwanted.remove();
  for (const one of parsed.querySelectorAll("*"))
    for (const { name, value } of [...one.attributes])
      if (name.startsWith("on") || (["href", "src"].includes(name) && !isWeb(value))) one.removeAttribute(name);
  return element("div", "class-html stHtml", ...parsed.childNodes);
}

/** @param {string} address */
function isWeb(address) {
  return URL.canParse(address, location.href) && /^https?:$/.test(new URL(address, location.href).protocol);
}
