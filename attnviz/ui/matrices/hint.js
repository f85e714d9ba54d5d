// What a reader can do with the numbers.

import { _ } from "../../chart/words.js";

/**
 * @param {boolean} isComputed whether the number that is shown was computed from others here
 * @returns {string}
 */
export function hint(isComputed) {
  const edit = _("Click a number to change it.");
  return isComputed ? `${_("Point at a number to see what it was computed from (rounded).")} ${edit}` : edit;
}
