// The chart as a Streamlit component: the only module here that knows Streamlit.

import { Chart } from "./chart.js";
import { mounts } from "./mounts.js";
import { unpack } from "./payload.js";

/** @typedef {{ data: Uint8Array, parentElement: Element, setTriggerValue: import("./types").Report }} Component */

export default mounts(".attnviz-chart", Chart, (view, /** @type {Component} */ { data, setTriggerValue }) => {
  view.report = setTriggerValue;
  view.show(unpack(data));
});
