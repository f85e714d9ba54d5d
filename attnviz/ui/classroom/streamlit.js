// The teacher's panel as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { TeacherPanel } from "./teacher.js";

/** @typedef {{ data: import("./types").Panel, parentElement: Element }} Component */

export default mounts(".attnviz-classroom", TeacherPanel, (view, /** @type {Component} */ { data }) => view.show(data));
