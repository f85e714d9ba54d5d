// The viewer as a widget of a notebook with a kernel: Python is asked for each chart, and shares what is chosen.

import { unpack } from "../chart/payload.js";
import { askedPlotly, hideStatic, requests, sharedState } from "./kernel.js";
import { Viewer } from "./viewer.js";

const GROWING = ["_overview", "_status"];

/** @param {{ model: import("./kernel.js").Model, el: HTMLElement }} widget */
function render({ model, el }) {
  hideStatic(model.get("_key"));
  const ask = requests(model);
  const source = {
    mosaic: (/** @type {number} */ group) => ask({ mosaic: group }).then(([bytes]) => unpack(bytes)),
    maps: (/** @type {number} */ layer, /** @type {number} */ head, /** @type {any} */ span) =>
      ask({ maps: [layer, head, span] }).then((all) => all.map(unpack)),
    plotly: askedPlotly(ask),
  };
  const state = sharedState(model, ["layer", "head", "query"]);
  const viewer = new Viewer(el.appendChild(document.createElement("div")), model.get("_overview"), model.get("_template"), source, state);
  viewer.status = model.get("_status") ?? "";
  const grow = () => viewer.grow(model.get("_overview"), model.get("_status"));
  for (const name of GROWING) model.on(`change:${name}`, grow);
  return () => {
    for (const name of GROWING) model.off(`change:${name}`, grow);
    viewer.close();
  };
}

export default { render };
