// The words of the interface in the language of the page: the server puts its translations into the page, none for English.

/** @type {Record<string, string | Record<string, string>>} */
const translations = JSON.parse(globalThis.document?.getElementById("attnviz-words")?.textContent || "{}");

/** @typedef {Record<string, string | number>} Values */

/**
 * Returns a message in the language of the page. A value has a name there, such as {count}.
 * @param {string} message
 * @param {Values} [values]
 */
export function _(message, values = {}) {
  const text = translations[message];
  return filled(typeof text === "string" ? text : message, values);
}

/**
 * Returns one of two messages in the language of the page, by its rules for a number.
 * @param {string} one
 * @param {string} many
 * @param {number} count
 * @param {Values} [values]
 */
export function plural(one, many, count, values = {}) {
  const forms = translations[one];
  if (typeof forms !== "object") return filled(count === 1 ? one : many, { count, ...values });
  return filled(forms[new Intl.PluralRules(document.documentElement.lang).select(count)] ?? forms.other, { count, ...values });
}

/**
 * Translates what the HTML of a component says: its titles, its labels, and the texts of its buttons.
 * @param {HTMLElement} root
 */
export function translate(root) {
  for (const element of root.querySelectorAll("[title], [aria-label], button")) {
    for (const name of ["title", "aria-label"]) {
      const text = element.getAttribute(name);
      if (text) element.setAttribute(name, _(text));
    }
    if (element.matches("button")) element.textContent = _(element.textContent ?? "");
  }
}

/** @param {string} text @param {Values} values */
function filled(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
