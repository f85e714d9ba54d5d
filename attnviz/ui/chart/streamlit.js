// The chart as a Streamlit component: the only module here that knows Streamlit.

import { Chart } from "./chart.js";
import { unpack } from "./payload.js";

/** @type {WeakMap<Element, Chart>} */
const charts = new WeakMap();

/**
 * Streamlit calls it again with each change of the data or the theme, and its result when the component is removed.
 * @param {{ data: Uint8Array, parentElement: Element, setTriggerValue: import("./types").Report }} component
 */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = /** @type {HTMLElement} */ (parentElement.querySelector(".attnviz-chart"));
  const chart = charts.get(root) ?? new Chart(root);
  charts.set(root, chart);
  chart.report = setTriggerValue;
  chart.show(unpack(data));
  return () => {
    charts.delete(root);
    chart.close();
  };
}
