// A page as a widget of a notebook with a kernel: Python computes each state that is opened, and shares what is chosen.

import { unpack } from "../chart/payload.js";
import { loadPlotly } from "./library.js";
import { PageBlocks } from "./page_blocks.js";

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
    content: (/** @type {string} */ link) => ask({ page: link }).then(([bytes]) => unpack(bytes)),
    ask: (/** @type {unknown[]} */ ...event) => ask({ figure: event }).then(([bytes]) => bytes && new TextDecoder().decode(bytes)),
    plotly: () => loadPlotly(() => ask({ plotly: true }).then(([bytes]) => bytes)),
    status: () => model.get("_growth")?.[1],
  };
  const page = new PageBlocks(el.appendChild(document.createElement("div")), model.get("_template"), source, sharedState(model));
  const grow = () => page.show();
  model.on("change:_growth", grow);
  return () => {
    model.off("change:_growth", grow);
    page.close();
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

/**
 * What is chosen, as Python has it.
 * @param {Model} model
 */
function sharedState(model) {
  const names = ["link", "query"];
  return {
    get: (/** @type {string} */ name) => model.get(name),
    set: (/** @type {Record<string, any>} */ values) => {
      for (const [name, value] of Object.entries(values)) model.set(name, value);
      model.save_changes();
    },
    listen: (/** @type {() => void} */ listener) => {
      for (const name of names) model.on(`change:${name}`, listener);
      return () => names.forEach((name) => model.off(`change:${name}`, listener));
    },
  };
}

export default { render };
