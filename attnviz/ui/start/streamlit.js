// The picture of the start page as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { Picture } from "./picture.js";

/** @typedef {{ data: import("./picture.js").Data, parentElement: Element }} Component */

export default mounts(".attnviz-start", Picture, (view, /** @type {Component} */ { data }) => view.show(data));
