// Elements of SVG, and drawing on canvases.

import { element } from "../elements.js";

/** @typedef {import("./types").Box} Box */

/**
 * @param {string} name
 * @param {Record<string, string | number>} [attributes]
 */
export function svg(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

/**
 * W_q with its q below the line, K^T with its T above it.
 * @param {HTMLElement} place
 * @param {string} text
 */
export function setSymbol(place, text) {
  place.replaceChildren(
    ...text.split(/([_^].)/).map((part) => {
      if (!/^[_^]./.test(part)) return part;
      return element(part[0] === "_" ? "sub" : "sup", "", part[1]);
    }),
  );
  return place;
}

/**
 * @param {HTMLElement} place
 * @param {Box} box
 */
export function setBox(place, { x, y, w, h }) {
  Object.assign(place.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
  return place;
}

/**
 * A canvas of so many CSS pixels, sharp on every screen.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
export function context(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, 3);
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const made = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  made.scale(scale, scale);
  return made;
}

/**
 * Draws the numbers of a vector as colored cells along its longer side.
 * @param {CanvasRenderingContext2D} drawing
 * @param {Box} box
 * @param {(number | null)[]} cells
 * @param {(value: number | null) => string} color
 * @param {boolean} [down] whether the cells go down
 */
export function drawCells(drawing, { x, y, w, h }, cells, color, down = false) {
  const size = (down ? h : w) / cells.length;
  cells.forEach((value, i) => {
    drawing.fillStyle = color(value);
    // A little wider, so that no line of the background shows between two cells.
    if (down) drawing.fillRect(x, y + i * size, w, Math.min(size + 0.4, h - i * size));
    else drawing.fillRect(x + i * size, y, Math.min(size + 0.4, w - i * size), h);
  });
}

/**
 * A curve from one point to another that leaves and arrives along the direction of reading.
 * @param {[number, number]} from
 * @param {[number, number]} to
 * @param {boolean} [vertical]
 */
export function curve([x0, y0], [x1, y1], vertical = false) {
  if (vertical) return `M${x0} ${y0}C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`;
  return `M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}`;
}
