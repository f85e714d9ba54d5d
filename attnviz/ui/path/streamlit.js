// The path as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { Path } from "./path.js";

/** @typedef {import("./types").AnyPicture} Data */
/** @typedef {{ data: Data, parentElement: Element, setTriggerValue: import("./types").Report }} Component */

export default mounts(".attnviz-path", Path, (view, /** @type {Component} */ { data, setTriggerValue }) => {
  view.report = setTriggerValue;
  view.show(data);
});
