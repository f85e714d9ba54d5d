// A mosaic with a frame around one of its tiles.

/** @typedef {import("../chart/types").Header} Header */

/**
 * Returns the figure of a mosaic in which a tile has a frame.
 * @param {Header} header
 * @param {number | null} tile null or below 0: none
 * @param {HTMLElement} root whose accent the frame has
 * @returns {Pick<Header, "figure">}
 */
export function framed({ figure, spec }, tile, root) {
  /** @type {object[]} */
  const shapes = [];
  if (spec.mode === "mosaic" && tile !== null && tile >= 0) {
    const [row, column] = [Math.floor(tile / spec.columns), tile % spec.columns];
    const [top, left] = [(row + 1) * spec.tileHeight - spec.height - 0.5, column * spec.tileWidth - 0.5];
    const line = { color: getComputedStyle(root).getPropertyValue("--attnviz-accent").trim(), width: 3 };
    shapes.push({ type: "rect", line, x0: left, x1: left + spec.width, y0: top, y1: top + spec.height });
  }
  return { figure: { ...figure, layout: { ...figure.layout, shapes } } };
}
