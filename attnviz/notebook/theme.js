// The theme of the page around a viewer, whatever notebook it is: light or dark, by the color behind the viewer.

import { channels, isDark } from "../chart/colors.js";

/**
 * Keeps data-theme of an element as light or dark as what is behind it, and calls `changed` after each change.
 * @param {HTMLElement} root
 * @param {() => void} changed
 * @returns {() => void} ends it
 */
export function watchTheme(root, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const update = () => {
    const theme = themeBehind(root) ?? (document.documentElement.dataset.attnvizPage && system.matches ? "dark" : "light");
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    changed();
  };
  update();
  const observer = new MutationObserver(update);
  for (const element of [document.documentElement, document.body]) observer.observe(element, { attributes: true });
  system.addEventListener("change", update);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", update);
  };
}

/** @param {HTMLElement} root */
function themeBehind(root) {
  for (let element = root.parentElement; element; element = element.parentElement) {
    const { backgroundColor } = getComputedStyle(element);
    const [, , , alpha = 1] = channels(backgroundColor);
    if (alpha > 0.5) return isDark(backgroundColor) ? "dark" : "light";
  }
  return null;
}
