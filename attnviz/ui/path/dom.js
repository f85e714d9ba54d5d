// Places of elements, and drawing on canvases.

/** @typedef {import("./types").Box} Box */

/**
 * @param {HTMLElement} place
 * @param {Box} box
 */
export function setBox(place, { x, y, w, h }) {
  Object.assign(place.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
  return place;
}

/**
 * The context of a canvas of `width` × `height` CSS pixels, sharp on every screen.
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
