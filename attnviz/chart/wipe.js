// The slider of two charts that lie over each other: it shows the lower one at its left and the upper one at its right.
// chart.css clips both.

import { button, element } from "./elements.js";
import { _ } from "./words.js";

const NAMES = ["A", "B"]; // of the lower and the upper chart

/**
 * The slider, with a button for each chart alone. It sets `--wipe`, from 0 to 1, on the element that holds both charts.
 * @param {HTMLElement} root of the upper chart
 */
export function wipe(root) {
  const slider = element("input");
  Object.assign(slider, { type: "range", min: "0", max: "1", step: "0.005", value: "0.5" });
  slider.setAttribute("aria-label", _("How much of {first} is shown, on the left; the rest is {second}", { first: NAMES[0], second: NAMES[1] }));
  slider.oninput = () => {
    const holder = /** @type {HTMLElement | null} */ (root.closest("[class*=st-key-stack]"));
    holder?.style.setProperty("--wipe", slider.value);
  };
  const buttons = NAMES.map((name, i) => {
    const made = button(name, "", () => {
      slider.value = String(1 - i);
      slider.dispatchEvent(new Event("input"));
    });
    made.title = made.ariaLabel = _("{name} alone", { name });
    return made;
  });
  return element("div", "attnviz-wipe", buttons[0], slider, buttons[1]);
}
