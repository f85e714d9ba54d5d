// The picture of the start page as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { Picture } from "./picture.js";

const mounted = mounts(".attnviz-start", Picture);

/** @param {{ data: import("./picture.js").Data, parentElement: Element }} component */
export default function ({ data, parentElement }) {
  const { view, remove } = mounted(parentElement);
  view.show(data);
  return remove;
}
