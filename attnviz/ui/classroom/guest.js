// A follower who has left to explore: the way back to the class, and a question to the teacher about the own state.

import { button, element } from "../../chart/elements.js";
import { _ } from "../../chart/words.js";
import { Connection } from "./connection.js";
import { putOverPage } from "./dialogs.js";
import { askTeacher } from "./question_form.js";

const CLASS = "attnviz-class"; // the address of the class that this tab takes part in
const MINE = "attnviz-class-mine"; // what was explored last

/**
 * Keeps in this tab that it takes part in a class.
 * @param {string} code
 * @param {string} address
 * @returns {string | null} what was explored last in it
 */
export function remember(code, address) {
  const { sessionStorage } = window;
  if (sessionStorage.getItem(CLASS) !== address) sessionStorage.removeItem(MINE);
  sessionStorage.setItem(CLASS, address);
  return sessionStorage.getItem(MINE);
}

/** The page of the app and its parameters, below the folder of the first page; Explore in place of the first. @param {Location} location */
export function pageLink(location) {
  return (location.pathname.split("/").at(-1) || "explore") + location.search;
}

/** Shows the way back to the class on a page of the app, if this tab takes part in one.
 * @param {Window} window */
export function showWayBack(window) {
  const { document, location } = window;
  let sessionStorage, address;
  try {
    sessionStorage = window.sessionStorage;
    address = sessionStorage.getItem(CLASS);
  } catch {
    return; // the browser lets this site keep nothing
  }
  if (!address) return;
  const to = new URL(address, location.href);
  if (to.origin !== location.origin) return;
  const keep = () => sessionStorage.setItem(MINE, location.pathname + location.search);
  window.addEventListener("pagehide", keep);
  window.addEventListener("visibilitychange", keep);
  const connection = { send: (/** @type {string} */ what, /** @type {object} */ content) => Connection.prototype.send.call({ address }, what, content) };
  const back = element("a", "class-main", _("Back to the class"));
  back.href = address;
  back.target = "_self";
  const leave = button("×", "class-leave", () => {
    sessionStorage.removeItem(CLASS);
    bar.remove();
  });
  leave.setAttribute("aria-label", _("Leave the class"));
  const ask = button(_("Ask the teacher"), "", () => askTeacher(connection, pageLink(location), document));
  const bar = element("div", "class-guest attnviz-row", back, ask, leave);
  window.addEventListener("load", () => putOverPage(bar));
}
