// The chart as a Streamlit component: the only module here that knows Streamlit.

import { Chart } from "./chart.js";
import { mounts } from "./mounts.js";
import { unpack } from "./payload.js";

const mounted = mounts(".attnviz-chart", Chart);

/** @param {{ data: Uint8Array, parentElement: Element, setTriggerValue: import("./types").Report }} component */
export default function ({ data, parentElement, setTriggerValue }) {
  const { view, remove } = mounted(parentElement);
  view.report = setTriggerValue;
  view.show(unpack(data));
  return remove;
}
