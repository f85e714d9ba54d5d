// The form for a question to the teacher, about what the person sees.

import { _ } from "../../chart/words.js";
import { element } from "../elements.js";
import { button } from "./ballot.js";

const MOST = 280;

/** Puts a dialog over the page, with its theme. @param {HTMLElement} dialog */
export function overPage(dialog) {
  (document.querySelector(".stApp") ?? document.body).append(dialog);
}

/**
 * @param {{ send: (what: string, content: object) => Promise<any> }} connection
 * @param {string} link the page and its parameters
 * @param {string} cell the sentence of a cell, or nothing
 */
export function askTeacher(connection, link, cell) {
  cell = cell.slice(0, MOST / 2);
  const dialog = element("dialog", "class-dialog");
  const field = element("textarea");
  Object.assign(field, { maxLength: MOST - cell.length - 3, rows: 3, placeholder: _("Why is this one so high?") });
  field.setAttribute("aria-label", _("Your question"));
  const problem = element("p", "class-error");
  const send = button(_("Send"), "class-main", async () => {
    const text = [cell, field.value.trim()].filter(Boolean).join(" — ");
    try {
      await connection.send("message", { link, text: text.slice(0, MOST) });
      dialog.replaceChildren(element("p", "", _("Sent. The teacher can open what you see.")), button(_("Close"), "class-main", () => dialog.close()));
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
    }
  });
  const bar = element("div", "class-bar");
  bar.append(send, button(_("Cancel"), "", () => dialog.close()));
  dialog.append(
    element("h2", "", _("Ask the teacher")),
    element("p", "class-note", cell || _("Your question goes with the page as you see it.")),
    field,
    problem,
    bar,
  );
  dialog.addEventListener("close", () => dialog.remove());
  overPage(dialog);
  dialog.showModal();
  field.focus();
}
