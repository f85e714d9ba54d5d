// The viewer in a page without Python: all charts are in the page, compressed.

import { fromBase64, unpack } from "../chart/payload.js";
import { gunzip, loadPlotly } from "./library.js";
import { Viewer } from "./viewer.js";
import { WhyViewer } from "./why_viewer.js";

/** @typedef {{ template: string, chosen: Record<string, any> }} Data */
/** @typedef {Data & { layers: any[], mosaics: string[], streams: { heads: string[], charts: string }[] }} HeadData */
/** @typedef {Data & { contents: Record<string, string> }} WhyData by the trail and the term */

/** @type {(text: string) => Promise<any>} */
const read = async (text) => unpack(await gunzip(fromBase64(text)));

/**
 * @param {HTMLElement} root
 * @param {HeadData | WhyData} data
 * @param {string} script plotly.js
 */
export function start(root, data, script) {
  const plotly = () => loadPlotly(async () => fromBase64(script));
  const state = pageState({ ...data.chosen });
  return "contents" in data ? new WhyViewer(root, data.template, { ...sums(data), plotly }, state) : new Viewer(root, data.layers, data.template, { ...heads(data), plotly }, state);
}

/** @param {WhyData} data */
function sums({ contents }) {
  return {
    content: async (/** @type {string} */ trail, /** @type {string} */ term) => {
      const content = contents[`${trail} ${term}`];
      if (!content) throw new Error("This file does not hold what is behind this term. Open it from Python.");
      return read(content);
    },
  };
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
