// The network as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { Network } from "./network.js";

/** @typedef {{ data: import("./types").Data, parentElement: Element }} Component */

export default mounts(".attnviz-network", Network, (view, /** @type {Component} */ { data }) => view.show(data));
