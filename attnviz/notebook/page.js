// The viewer in a page without Python: all charts are in the page, compressed.

import { fromBase64, unpack } from "../chart/payload.js";
import { gunzip, loadPlotly } from "./library.js";
import { PageBlocks } from "./page_blocks.js";
import { Viewer } from "./viewer.js";

/** @typedef {{ template: string, chosen: Record<string, any> }} Data */
/** @typedef {Data & { layers: any[], mosaics: string[], streams: { heads: string[], charts: string }[] }} HeadData */
/** @typedef {{ names: string[], content: string }[]} Bundles values that are compressed together */
/** @typedef {Data & { states: Bundles, charts: Bundles }} PageData */

/** @type {(text: string) => Promise<any>} */
const read = async (text) => unpack(await gunzip(fromBase64(text)));

/**
 * @param {HTMLElement} root
 * @param {HeadData | PageData} data
 * @param {string} script plotly.js
 */
export function start(root, data, script) {
  const plotly = () => loadPlotly(async () => fromBase64(script));
  const state = pageState({ ...data.chosen });
  if ("states" in data) return new PageBlocks(root, data.template, { ...states(data), plotly }, state);
  return new Viewer(root, data.layers, data.template, { ...heads(data), plotly }, state);
}

/** @param {PageData} data */
function states(data) {
  const [states, charts] = [unbundled(data.states), unbundled(data.charts)];
  return {
    content: async (/** @type {string} */ link) => {
      if (!states.holds(link)) throw new Error("This file does not hold what is behind this link. Open it from Python.");
      const nodes = (await states.read([link]))[link];
      return { nodes, charts: await charts.read(chartNames(nodes)) };
    },
    holds: states.holds,
  };
}

/** @param {Bundles} bundles */
function unbundled(bundles) {
  const places = new Map(bundles.flatMap(({ names, content }) => names.map((name) => [name, content])));
  return {
    holds: (/** @type {string} */ name) => places.has(name),
    read: async (/** @type {string[]} */ names) => Object.assign({}, ...(await Promise.all([...new Set(names.map((name) => places.get(name) ?? ""))].map(read)))),
  };
}

/**
 * @param {import("./page_blocks.js").Node[]} nodes
 * @returns {string[]}
 */
function chartNames(nodes) {
  return nodes.flatMap(({ chart, nodes: inner = [], columns = [] }) => [
    ...(chart ? [chart] : []),
    ...chartNames(inner),
    ...columns.flatMap((column) => chartNames(column.nodes)),
  ]);
}

/** @param {HeadData} data */
function heads({ mosaics, streams }) {
  return {
    mosaic: (/** @type {number} */ group) => read(mosaics[group]),
    maps: async (/** @type {number} */ layer, /** @type {number} */ head) => {
      const name = `${layer} ${head}`;
      const stream = streams.find(({ heads }) => heads.includes(name));
      if (!stream) throw new Error("This file does not hold the map of this head: it would be too large. Open it from Python.");
      return (await read(stream.charts))[name];
    },
  };
}

/** @param {Record<string, any>} chosen */
function pageState(chosen) {
  const listeners = new Set();
  return {
    get: (/** @type {string} */ name) => chosen[name],
    set: (/** @type {Record<string, any>} */ values) => {
      Object.assign(chosen, values);
      for (const listener of listeners) listener();
    },
    listen: (/** @type {() => void} */ listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
