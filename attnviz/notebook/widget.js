// The viewer as a widget of a notebook with a kernel: Python is asked for each chart, and shares what is chosen.

import { unpack } from "../chart/payload.js";
import { loadPlotly } from "./library.js";
import { Viewer } from "./viewer.js";

const CHOICES = ["layer", "head", "query"];
const GROWING = ["_overview", "_status"];

/**
 * What anywidget gives.
 * @typedef {object} Model
 * @property {(name: string) => any} get
 * @property {(name: string, value: any) => void} set
 * @property {() => void} save_changes
 * @property {(message: any) => void} send
 * @property {(event: string, listener: (...values: any[]) => void) => void} on
 * @property {(event: string, listener: (...values: any[]) => void) => void} off
 */

/** @param {{ model: Model, el: HTMLElement }} widget */
function render({ model, el }) {
  hideStatic(model.get("_key"));
  const ask = requests(model);
  const source = {
    mosaic: (/** @type {number} */ group) => ask({ mosaic: group }).then(([bytes]) => unpack(bytes)),
    maps: (/** @type {number} */ layer, /** @type {number} */ head, /** @type {any} */ span) =>
      ask({ maps: [layer, head, span] }).then((all) => all.map(unpack)),
    plotly: () => loadPlotly(() => ask({ plotly: true }).then(([bytes]) => bytes)),
  };
  const state = {
    get: (/** @type {string} */ name) => model.get(name),
    set: (/** @type {Record<string, any>} */ values) => {
      for (const [name, value] of Object.entries(values)) model.set(name, value);
      model.save_changes();
    },
    listen: (/** @type {() => void} */ listener) => {
      // Two choices that change together are one change.
      let waiting = false;
      const once = () => {
        if (waiting) return;
        waiting = true;
        queueMicrotask(() => {
          waiting = false;
          listener();
        });
      };
      for (const name of CHOICES) model.on(`change:${name}`, once);
      return () => CHOICES.forEach((name) => model.off(`change:${name}`, once));
    },
  };
  const viewer = new Viewer(el.appendChild(document.createElement("div")), model.get("_overview"), model.get("_template"), source, state);
  viewer.status = model.get("_status") ?? "";
  const grow = () => viewer.grow(model.get("_overview"), model.get("_status"));
  for (const name of GROWING) model.on(`change:${name}`, grow);
  return () => {
    for (const name of GROWING) model.off(`change:${name}`, grow);
    viewer.close();
  };
}

/**
 * @param {Model} model
 * @returns {(request: object) => Promise<Uint8Array[]>} asks Python
 */
function requests(model) {
  let count = 0;
  const own = Math.random().toString(36).slice(2); // each view of the widget has its own
  /** @type {Map<string, { resolve: (value: Uint8Array[]) => void, reject: (error: Error) => void }>} */
  const waiting = new Map();
  model.on("msg:custom", (message, buffers) => {
    const promise = waiting.get(message.answer);
    waiting.delete(message.answer);
    if (message.error) promise?.reject(new Error(message.error));
    else promise?.resolve(buffers.map((/** @type {DataView} */ view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength)));
  });
  return (request) =>
    new Promise((resolve, reject) => {
      const number = `${own} ${++count}`;
      waiting.set(number, { resolve, reject });
      model.send({ request: number, ...request });
    });
}

/**
 * Hides the picture that is there for when no kernel runs.
 * @param {string} key
 */
function hideStatic(key) {
  const page = /** @type {any} */ (window);
  (page.attnvizLive ??= new Set()).add(key);
  for (const element of document.querySelectorAll(`[data-attnviz="${key}"]`)) element.remove();
}

export default { render };
