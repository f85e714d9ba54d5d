// Elements of SVG. Texts are texts, never markup.

/** @typedef {Record<string, string | number>} Attributes */
/** @typedef {import("./types").Pair} Pair */

/**
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} [attributes]
 * @param {...(Node | string)} contents
 */
export function svg(name, attributes = {}, ...contents) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  setAttributes(made, attributes);
  made.append(...contents);
  return made;
}

/**
 * @param {SVGElement} element
 * @param {Attributes} attributes
 */
export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
}

/**
 * A curve from one point to another that leaves and arrives along the direction of reading.
 * @param {Pair} from
 * @param {Pair} to
 * @param {boolean} [vertical]
 */
export function curve([x0, y0], [x1, y1], vertical = false) {
  const [x, y] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return `M${x0} ${y0}C${vertical ? `${x0} ${y} ${x1} ${y}` : `${x} ${y0} ${x} ${y1}`} ${x1} ${y1}`;
}
