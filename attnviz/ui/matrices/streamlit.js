// The matrices as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { Matrices } from "./matrices.js";

const mounted = mounts(".attnviz-matrices", Matrices);

/** @param {{ data: import("./types").Data, parentElement: Element, setTriggerValue: import("./types").Report }} component */
export default function ({ data, parentElement, setTriggerValue }) {
  const { view, remove } = mounted(parentElement);
  view.report = setTriggerValue;
  view.standBelow([...document.querySelectorAll("[data-testid=stHeader], :has(> .st-key-lesson-strip)")]);
  view.show(data);
  return remove;
}
