// The files of a figure and the link to it, behind one icon.

import { button, element } from "./elements.js";
import { svg } from "./svg.js";
import { _ } from "./words.js";

/** @typedef {{ text: string, act: () => unknown, when?: () => boolean }} Item with what it does, and whether it is offered */

/**
 * A menu that closes with Escape, with a choice, and where the focus leaves it.
 * @param {Item[]} items
 */
export function fileMenu(items) {
  const arrow = svg("path", { d: "M8 2v8M4.5 6.5 8 10l3.5-3.5M3 13.5h10", fill: "none", stroke: "currentColor", "stroke-width": 1.5 });
  const icon = element("summary", "", svg("svg", { viewBox: "0 0 16 16", width: 14, height: 14 }, arrow));
  icon.title = _("Download or copy the link");
  icon.setAttribute("aria-label", icon.title);
  const list = element("div");
  const menu = element("details", "attnviz-files", icon, list);
  const close = () => {
    menu.open = false;
    icon.focus();
  };
  const choose = (/** @type {Item} */ { act }) => {
    act();
    close();
  };
  menu.addEventListener("toggle", () => {
    const offered = menu.open ? items.filter(({ when }) => !when || when()) : [];
    list.replaceChildren(...offered.map((item) => button(item.text, "", () => choose(item))));
  });
  menu.addEventListener("focusout", ({ relatedTarget }) => {
    if (!menu.contains(/** @type {Node | null} */ (relatedTarget))) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.stopPropagation();
    close();
  });
  return menu;
}
