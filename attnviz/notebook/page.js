// A page as blocks without Python: all its states are in the page, compressed.

import { fromBase64, unpack } from "../chart/payload.js";
import { gunzip, loadPlotly } from "./library.js";
import { PageBlocks } from "./page_blocks.js";

/** @typedef {{ names: string[], content: string }[]} Bundles values that are compressed together */
/** @typedef {{ template: string, chosen: Record<string, any>, states: Bundles, charts: Bundles }} PageData */

/** @type {(text: string) => Promise<any>} */
const read = async (text) => unpack(await gunzip(fromBase64(text)));

/**
 * @param {HTMLElement} root
 * @param {PageData} data
 * @param {string} script plotly.js
 */
export function start(root, data, script) {
  const [states, charts] = [unbundled(data.states), unbundled(data.charts)];
  const source = {
    content: async (/** @type {string} */ link) => {
      if (!states.holds(link)) throw new Error("This file does not hold what is behind this link. Open it from Python.");
      const nodes = (await states.read([link]))[link];
      return { nodes, charts: await charts.read(chartNames(nodes)) };
    },
    holds: states.holds,
    plotly: () => loadPlotly(async () => fromBase64(script)),
  };
  return new PageBlocks(root, data.template, source, pageState({ ...data.chosen }));
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
