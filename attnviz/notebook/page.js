// The viewer in a page without Python: all charts are in the page, compressed.

import { fromBase64, unpack } from "../chart/payload.js";
import { gunzip, loadPlotly } from "./library.js";
import { RecordedText } from "./recorded_text.js";
import { Viewer } from "./viewer.js";
import { WhyViewer } from "./why_viewer.js";

/** @typedef {{ template: string, chosen: Record<string, any> }} Data */
/** @typedef {Data & { layers: any[], mosaics: string[], streams: { heads: string[], charts: string }[] }} HeadData */
/** @typedef {Data & { contents: Record<string, string> }} WhyData by the trail */
/** @typedef {HeadData & { written: import("./recorded_text.js").Recorded, text: string }} WrittenData with the HTML of the text */

/** @type {(text: string) => Promise<any>} */
const read = async (text) => unpack(await gunzip(fromBase64(text)));

/**
 * @param {HTMLElement} root
 * @param {HeadData | WhyData | WrittenData} data
 * @param {string} script plotly.js
 */
export function start(root, data, script) {
  const plotly = () => loadPlotly(async () => fromBase64(script));
  const state = pageState({ ...data.chosen });
  if ("contents" in data) return new WhyViewer(root, data.template, { ...sums(data), plotly }, state);
  const source = { ...heads(data), plotly };
  if ("written" in data) return new RecordedText(root, data.layers, data.template, source, state, data.written, data.text);
  return new Viewer(root, data.layers, data.template, source, state);
}

/** @param {WhyData} data */
function sums({ contents }) {
  return {
    content: async (/** @type {string} */ trail, /** @type {string} */ term) => {
      const { sum, terms } = trail in contents ? await read(contents[trail]) : { sum: null, terms: {} };
      if (!(term in terms)) throw new Error("This file does not hold what is behind this term. Open it from Python.");
      return { ...sum, ...terms[term], charts: { ...sum.charts, ...terms[term].charts } };
    },
    holds: (/** @type {Record<string, string>} */ { trail }) => trail in contents,
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
