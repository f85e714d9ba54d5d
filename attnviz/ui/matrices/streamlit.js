// The matrices as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { Matrices } from "./matrices.js";

/** @typedef {{ data: import("./types").Data, parentElement: Element, setTriggerValue: import("./types").Report }} Component */

export default mounts(".attnviz-matrices", Matrices, (view, /** @type {Component} */ { data, setTriggerValue }) => {
  view.report = setTriggerValue;
  view.standBelow([...document.querySelectorAll("[data-testid=stHeader], :has(> .st-key-lesson-strip)")]);
  view.show(data);
});
