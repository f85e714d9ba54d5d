// The network as a Streamlit component: the only module here that knows Streamlit.

import { Network } from "./network.js";

/** @type {WeakMap<Element, Network>} */
const networks = new WeakMap();

/**
 * Streamlit calls it again with each change of the data or the theme, and its result when the component is removed.
 * @param {{ data: import("./types").Data, parentElement: Element }} component
 */
export default function ({ data, parentElement }) {
  const root = /** @type {HTMLElement} */ (parentElement.querySelector(".attnviz-network"));
  const network = networks.get(root) ?? new Network(root);
  networks.set(root, network);
  network.show(data);
  return () => {
    networks.delete(root);
    network.close();
  };
}
