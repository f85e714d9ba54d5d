// The picture of the start page as a Streamlit component.

import { Picture } from "./picture.js";

/** @type {WeakMap<Element, Picture>} */
const mounts = new WeakMap();

/** @param {{ data: import("./picture.js").Data, parentElement: Element }} component */
export default function ({ data, parentElement }) {
  const root = /** @type {HTMLElement} */ (parentElement.querySelector(".attnviz-start"));
  const picture = mounts.get(root) ?? new Picture(root);
  mounts.set(root, picture);
  picture.show(data);
  return () => {
    mounts.delete(root);
    picture.pause();
  };
}
