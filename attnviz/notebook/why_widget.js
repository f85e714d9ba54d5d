// The viewer of a sum as a widget of a notebook with a kernel: Python computes each sum that is opened.

import { unpack } from "../chart/payload.js";
import { askedPlotly, hideStatic, requests, sharedState } from "./kernel.js";
import { WhyViewer } from "./why_viewer.js";

/** @param {{ model: import("./kernel.js").Model, el: HTMLElement }} widget */
function render({ model, el }) {
  hideStatic(model.get("_key"));
  const ask = requests(model);
  const source = {
    content: (/** @type {string} */ trail, /** @type {string} */ term) => ask({ content: [trail, term] }).then(([bytes]) => unpack(bytes)),
    plotly: askedPlotly(ask),
  };
  const viewer = new WhyViewer(el.appendChild(document.createElement("div")), model.get("_template"), source, sharedState(model, ["trail", "term"]));
  return () => viewer.close();
}

export default { render };
