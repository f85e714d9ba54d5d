// The viewer in a page without Python: all charts are in the page, compressed.

import { fromBase64, unpack } from "../chart/payload.js";
import { gunzip, loadPlotly } from "./library.js";
import { Viewer } from "./viewer.js";

/**
 * @param {HTMLElement} root
 * @param {{ layers: any[], template: string, mosaics: string[], streams: { heads: string[], charts: string }[], chosen: any }} data
 * @param {string} plotly
 */
export function start(root, data, plotly) {
  /** @type {(text: string) => Promise<any>} */
  const read = async (text) => unpack(await gunzip(fromBase64(text)));
  const source = {
    mosaic: (/** @type {number} */ group) => read(data.mosaics[group]),
    maps: async (/** @type {number} */ layer, /** @type {number} */ head) => {
      const name = `${layer} ${head}`;
      const stream = data.streams.find(({ heads }) => heads.includes(name));
      if (!stream) throw new Error("This file does not hold the map of this head: it would be too large. Open it from Python.");
      return (await read(stream.charts))[name];
    },
    plotly: () => loadPlotly(async () => fromBase64(plotly)),
  };
  /** @type {Record<string, number | null>} */
  const chosen = { ...data.chosen };
  const listeners = new Set();
  const state = {
    get: (/** @type {string} */ name) => chosen[name],
    set: (/** @type {Record<string, number | null>} */ values) => {
      Object.assign(chosen, values);
      for (const listener of listeners) listener();
    },
    listen: (/** @type {() => void} */ listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return new Viewer(root, data.layers, data.template, source, state);
}
