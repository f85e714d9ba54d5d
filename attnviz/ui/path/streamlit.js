// The path as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { Path } from "./path.js";

const mounted = mounts(".attnviz-path", Path);

/**
 * @param {{ data: import("./types").AnyPicture, parentElement: Element, setTriggerValue: import("./types").Report }} component
 */
export default function ({ data, parentElement, setTriggerValue }) {
  const { view, remove } = mounted(parentElement);
  view.report = setTriggerValue;
  view.show(data);
  return remove;
}
