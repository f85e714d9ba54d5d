// Elements of the matrices. Texts go in as textContent only.

import { element } from "../elements.js";

/**
 * W_q with its q below the line, QK^T with its T above it.
 * @param {string} text
 */
export function symbol(text) {
  const made = element("b", "matrices-symbol");
  for (const { tag, text: part } of symbolParts(text)) made.append(tag ? element(tag, "", part) : part);
  return made;
}

/**
 * @param {string} text
 * @returns {{ tag: "sub" | "sup" | null, text: string }[]}
 */
export function symbolParts(text) {
  return text
    .split(/([_^].)/)
    .filter(Boolean)
    .map((part) => {
      if (!/^[_^]./.test(part)) return { tag: null, text: part };
      return { tag: part[0] === "_" ? "sub" : "sup", text: part[1] };
    });
}

/**
 * The name of a row or a column.
 * @param {string} scope
 * @param {string} text
 * @param {boolean} isToken
 */
export function header(scope, text, isToken) {
  const made = element("th", isToken ? "matrices-token" : "matrices-number", text);
  made.scope = scope;
  made.title = isToken ? text : "";
  return made;
}
