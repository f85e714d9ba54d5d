// The form for a question to the teacher, about what the person sees.

import { element } from "../../chart/elements.js";
import { _ } from "../../chart/words.js";
import { askForText } from "./dialogs.js";

const LIMIT = 280; // characters of a question

/**
 * @param {{ send: (what: string, content: object) => Promise<any> }} connection
 * @param {string} link the page and its parameters
 * @param {ParentNode} place of the charts, in one of which a cell may have been chosen
 */
export function askTeacher(connection, link, place) {
  const sentence = place.querySelector(".attnviz-sentence:not(.attnviz-hint, :empty)")?.textContent ?? "";
  const cell = sentence.slice(0, LIMIT / 2);
  const field = element("textarea");
  Object.assign(field, { maxLength: LIMIT - cell.length - 3, rows: 3, placeholder: _("Why is this one so high?") });
  const note = cell || _("Your question goes with the page as you see it.");
  askForText(
    { title: _("Ask the teacher"), note, label: _("Your question"), action: _("Send") },
    field,
    (text) => connection.send("message", { link, text: [cell, text].filter(Boolean).join(" — ").slice(0, LIMIT) }),
    _("Sent. The teacher can open what you see."),
  );
}
