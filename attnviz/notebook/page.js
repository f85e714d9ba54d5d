// The viewer in a page without Python: all charts are in the page, compressed.

import { fromBase64, unpack } from "../chart/payload.js";
import { gunzip, loadPlotly } from "./library.js";
import { Viewer } from "./viewer.js";

/** @typedef {Record<string, any>} Patch */

/**
 * @param {HTMLElement} root
 * @param {{ layers: any[], template: string, mosaics: string[], common: string, maps: Record<string, string>, chosen: any }} data
 * @param {string} plotly
 */
export function start(root, data, plotly) {
  /** @type {(text: string) => Promise<any>} */
  const read = async (text) => unpack(await gunzip(fromBase64(text)));
  const common = read(data.common);
  const source = {
    mosaic: (/** @type {number} */ group) => read(data.mosaics[group]),
    maps: async (/** @type {number} */ layer, /** @type {number} */ head) => {
      const text = data.maps[`${layer} ${head}`];
      if (text === undefined) throw new Error("This file does not hold the map of this head: it would be too large. Open it from Python.");
      return merge(await common, await read(text)).maps;
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

/**
 * Returns an object with the changes of a patch: its objects are merged, and everything else replaces.
 * @param {any} base
 * @param {any} patch
 * @returns {any}
 */
export function merge(base, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch) || ArrayBuffer.isView(patch)) return patch;
  if (base === null || typeof base !== "object" || ArrayBuffer.isView(base)) return patch;
  /** @type {any} */
  const merged = Array.isArray(base) ? [...base] : { ...base };
  for (const [name, value] of Object.entries(patch)) merged[name] = merge(merged[name], value);
  return merged;
}
