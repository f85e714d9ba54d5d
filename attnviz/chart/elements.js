// Elements of a page. Texts are texts, never markup.

/** @typedef {Node | string | null | undefined | false} Content nothing is left out */

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {string} [className]
 * @param {...Content} contents
 */
export function element(name, className = "", ...contents) {
  const made = document.createElement(name);
  if (className) made.className = className;
  for (const one of contents) if (one) made.append(one);
  return made;
}

/**
 * @param {string} text
 * @param {string} className
 * @param {() => void} press
 */
export function button(text, className, press) {
  const made = element("button", className, text);
  made.type = "button";
  made.onclick = press;
  return made;
}

/**
 * The name of a row or a column of a table.
 * @param {"row" | "col"} scope
 * @param {string} text
 * @param {string} [className]
 */
export function header(scope, text, className = "") {
  const made = element("th", className, text);
  made.scope = scope;
  return made;
}
