// The views of a Streamlit component, one for each of its elements.

import { translate } from "./words.js";

/** @typedef {{ data: any, parentElement: Element, setTriggerValue: import("./types").Report }} Component of Streamlit */

/**
 * Returns a Streamlit component: a function that shows data in the view of an element, made by the first call.
 *
 * Streamlit calls a component again with each change of its data or of the theme, and what it returned when the
 * component is removed. Of two calls that it has begun, the earlier may come last; then Streamlit calls what that one
 * returned: while the element is in the page, the view stays, and shows what it has shown before.
 * @template {{ close(): void, show(data: any): unknown, report?: import("./types").Report }} View
 * @param {string} selector of the component's root
 * @param {new (root: HTMLElement) => View} Kind
 * @param {(view: View, data: any) => void} [show]
 */
export function mounts(selector, Kind, show = (view, data) => view.show(data)) {
  /** @type {WeakMap<HTMLElement, { view: View, shown: Component[] }>} */
  const mounted = new WeakMap();
  const showIn = (/** @type {View} */ view, /** @type {Component} */ { data, setTriggerValue }) => {
    view.report = setTriggerValue;
    show(view, data);
  };
  return (/** @type {Component} */ component) => {
    const root = /** @type {HTMLElement} */ (component.parentElement.querySelector(selector));
    if (!mounted.has(root)) translate(root);
    const mount = mounted.get(root) ?? { view: new Kind(root), shown: [] };
    mounted.set(root, mount);
    mount.shown = [...mount.shown.slice(-1), component];
    showIn(mount.view, component);
    return () => {
      if (!root.isConnected) {
        if (mounted.delete(root)) mount.view.close();
      } else if (mount.shown.length > 1 && mount.shown[1] === component) {
        mount.shown.pop();
        showIn(mount.view, mount.shown[0]);
      }
    };
  };
}
