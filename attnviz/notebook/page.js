// The viewer in a page without Python: all charts are in the page, compressed.

import { fromBase64, unpack } from "../chart/payload.js";
import { gunzip, loadPlotly } from "./library.js";
import { PageBlocks } from "./page_blocks.js";
import { Viewer } from "./viewer.js";

/** @typedef {{ template: string, chosen: Record<string, any> }} Data */
/** @typedef {Data & { layers: any[], mosaics: string[], streams: { heads: string[], charts: string }[] }} HeadData */
/** @typedef {Data & { states: { links: string[], content: string }[], charts: Record<string, string> }} PageData with charts by their names */

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
function states({ states, charts }) {
  const places = new Map(states.flatMap(({ links, content }) => links.map((link) => [link, content])));
  return {
    content: async (/** @type {string} */ link) => {
      const content = places.get(link);
      if (content === undefined) throw new Error("This file does not hold what is behind this link. Open it from Python.");
      const nodes = (await read(content))[link];
      const drawn = await Promise.all(chartNames(nodes).map(async (name) => [name, await read(charts[name])]));
      return { nodes, charts: Object.fromEntries(drawn) };
    },
    holds: (/** @type {string} */ link) => places.has(link),
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
