// The matrices as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../chart/mounts.js";
import { Matrices } from "./matrices.js";

const mounted = mounts(".attnviz-matrices", Matrices);

/** @param {{ data: import("./types").Data, parentElement: Element, setTriggerValue: import("./types").Report }} component */
export default function ({ data, parentElement, setTriggerValue }) {
  const { view, remove } = mounted(parentElement);
  const header = /** @type {HTMLElement | null} */ (document.querySelector("[data-testid=stHeader]"));
  view.report = setTriggerValue;
  view.headerHeight = header?.offsetHeight ?? 0;
  view.show(data);
  return remove;
}
