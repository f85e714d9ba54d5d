// The path as a Streamlit component: the only module here that knows Streamlit.

import { Path } from "./path.js";

/** @type {WeakMap<Element, Path>} */
const mounts = new WeakMap();

/**
 * Streamlit calls it again with each change of the data or the theme, and its result when the component is removed.
 * @param {{ data: import("./types").AnyPicture, parentElement: Element, setTriggerValue: import("./types").Report }} component
 */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = /** @type {HTMLElement} */ (parentElement.querySelector(".attnviz-path"));
  const path = mounts.get(root) ?? new Path(root);
  mounts.set(root, path);
  path.report = setTriggerValue;
  path.show(data);
  return () => {
    mounts.delete(root);
    path.close();
  };
}
