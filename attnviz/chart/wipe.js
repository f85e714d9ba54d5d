// The slider of two charts that lie over each other: it shows the lower one at its left and the upper one at its right.
// chart.css clips both.

import { _ } from "./words.js";

const NAMES = ["A", "B"]; // of the lower and the upper chart

/**
 * The slider, with a button for each chart alone. It sets `--wipe`, from 0 to 1, on the element that holds both charts.
 * @param {HTMLElement} root of the upper chart
 */
export function wipe(root) {
  const row = document.createElement("div");
  row.className = "attnviz-wipe";
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: "0", max: "1", step: "0.005", value: "0.5" });
  slider.setAttribute("aria-label", _("How much of {first} is seen, at the left; the rest is {second}", { first: NAMES[0], second: NAMES[1] }));
  slider.oninput = () => {
    const holder = /** @type {HTMLElement | null} */ (root.closest("[class*=st-key-stack]"));
    holder?.style.setProperty("--wipe", slider.value);
  };
  const buttons = NAMES.map((name, i) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: name, title: _("{name} alone", { name }), ariaLabel: _("{name} alone", { name }) });
    button.onclick = () => {
      slider.value = String(1 - i);
      slider.dispatchEvent(new Event("input"));
    };
    return button;
  });
  row.append(buttons[0], slider, buttons[1]);
  return row;
}
