// The views of a Streamlit component, one for each of its elements.

import { translate } from "./words.js";

/**
 * Returns a function that gives the view of a component's element, made by the first call, and how to remove it.
 *
 * Streamlit calls a component again with each change of its data or of the theme, and what it returned when the
 * component is removed. It also calls what an earlier call returned if that call ends after the next has begun: then
 * the view stays.
 * @template {{ close(): void }} View
 * @param {string} selector of the component's root
 * @param {new (root: HTMLElement) => View} Kind
 */
export function mounts(selector, Kind) {
  /** @type {WeakMap<HTMLElement, { view: View, calls: number }>} */
  const mounted = new WeakMap();
  return (/** @type {Element} */ parentElement) => {
    const root = /** @type {HTMLElement} */ (parentElement.querySelector(selector));
    if (!mounted.has(root)) translate(root);
    const mount = mounted.get(root) ?? { view: new Kind(root), calls: 0 };
    mounted.set(root, mount);
    const call = ++mount.calls;
    const remove = () => {
      if (call !== mount.calls) return;
      mounted.delete(root);
      mount.view.close();
    };
    return { view: mount.view, remove };
  };
}
