// The matrices as a Streamlit component: the only module here that knows Streamlit.

import { Matrices } from "./matrices.js";

/** @type {WeakMap<Element, Matrices>} */
const mounts = new WeakMap();

/**
 * Streamlit calls it again with each change of the data or the theme, and its result when the component is removed.
 * @param {{ data: import("./types").Data, parentElement: Element, setTriggerValue: import("./types").Report }} component
 */
export default function ({ data, parentElement, setTriggerValue }) {
  const root = /** @type {HTMLElement} */ (parentElement.querySelector(".attnviz-matrices"));
  const header = /** @type {HTMLElement | null} */ (document.querySelector("[data-testid=stHeader]"));
  const matrices = mounts.get(root) ?? new Matrices(root);
  mounts.set(root, matrices);
  matrices.report = setTriggerValue;
  matrices.headerHeight = header?.offsetHeight ?? 0;
  matrices.show(data);
  return () => {
    mounts.delete(root);
    matrices.close();
  };
}
