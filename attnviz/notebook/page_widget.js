// A page as a widget of a notebook with a kernel: Python computes each state that is opened.

import { unpack } from "../chart/payload.js";
import { askedPlotly, hideStatic, requests, sharedState } from "./kernel.js";
import { PageBlocks } from "./page_blocks.js";

/** @param {{ model: import("./kernel.js").Model, el: HTMLElement }} widget */
function render({ model, el }) {
  hideStatic(model.get("_key"));
  const ask = requests(model);
  const source = {
    content: (/** @type {string} */ link) => ask({ page: link }).then(([bytes]) => unpack(bytes)),
    ask: (/** @type {unknown[]} */ ...event) => ask({ figure: event }).then(([bytes]) => bytes && new TextDecoder().decode(bytes)),
    plotly: askedPlotly(ask),
  };
  const page = new PageBlocks(el.appendChild(document.createElement("div")), model.get("_template"), source, sharedState(model, ["link"]));
  return () => page.close();
}

export default { render };
