// Dialogs over a page.

import { button, element } from "../../chart/elements.js";
import { _ } from "../../chart/words.js";

/** Puts an element over the page, with its theme. @param {HTMLElement} one */
export function putOverPage(one) {
  (document.querySelector(".stApp") ?? document.body).append(one);
}

/**
 * Opens a dialog, which is gone once it is closed.
 * @param {string} className
 * @param {...HTMLElement} contents
 */
export function openDialog(className, ...contents) {
  const dialog = element("dialog", className, ...contents);
  dialog.onclose = () => dialog.remove();
  putOverPage(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Asks for a text, and says in the dialog why it cannot be sent.
 * @param {{ title: string, note: string, label: string, action: string }} texts the label is that of the field
 * @param {HTMLInputElement | HTMLTextAreaElement} field
 * @param {(text: string) => Promise<unknown>} send
 * @param {string} [thanks] a sentence for after the text is sent; without it the dialog closes
 */
export function askForText({ title, note, label, action }, field, send, thanks) {
  field.setAttribute("aria-label", label);
  const problem = element("p", "class-error");
  const submit = element("button", "class-main", action);
  const bar = element("div", "class-bar attnviz-row", submit, button(_("Cancel"), "", () => dialog.close()));
  const form = element("form", "", element("h2", "", title), element("p", "class-note", note), field, problem, bar);
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      await send(field.value.trim());
      if (!thanks) return dialog.close();
      dialog.replaceChildren(element("p", "", thanks), button(_("Close"), "class-main", () => dialog.close()));
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
    }
  };
  const dialog = openDialog("class-dialog", form);
  field.focus();
}
