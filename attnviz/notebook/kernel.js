// What the widgets of a notebook with a kernel share: Python is asked for what they show, and shares what is chosen.

import { loadPlotly } from "./library.js";

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

/**
 * @param {Model} model
 * @returns {(request: object) => Promise<Uint8Array[]>} asks Python
 */
export function requests(model) {
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
export function hideStatic(key) {
  const page = /** @type {any} */ (window);
  (page.attnvizLive ??= new Set()).add(key);
  for (const element of document.querySelectorAll(`[data-attnviz="${key}"]`)) element.remove();
}

/**
 * What is chosen, as Python has it.
 * @param {Model} model
 * @param {string[]} names
 */
export function sharedState(model, names) {
  return {
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
      for (const name of names) model.on(`change:${name}`, once);
      return () => names.forEach((name) => model.off(`change:${name}`, once));
    },
  };
}

/** @param {(request: object) => Promise<Uint8Array[]>} ask */
export function askedPlotly(ask) {
  return () => loadPlotly(() => ask({ plotly: true }).then(([bytes]) => bytes));
}
