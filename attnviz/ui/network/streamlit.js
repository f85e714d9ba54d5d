// The network as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { Network } from "./network.js";

const mounted = mounts(".attnviz-network", Network);

/** @param {{ data: import("./types").Data, parentElement: Element }} component */
export default function ({ data, parentElement }) {
  const { view, remove } = mounted(parentElement);
  view.show(data);
  return remove;
}
