// Where the nodes of the network stand: its layers from left to right, or from top to bottom where that is too wide.

const NARROW = 480; // pixels
const WIDE = { width: 700, head: 52, layers: [66, 238, 372, 502, 652] };
const TALL = { width: 384, layers: [40, 134, 244, 338, 440], foot: 40 };

/** @typedef {{ x: number, y: number, width: number, height: number }} Node */

/**
 * The nodes of each layer: the query before the keys, similarities, weights, values, and the result alone.
 * @param {number} width in pixels
 * @param {number} keys how many there are
 * @param {boolean} large whether letters are as large as in a presentation
 */
export function arrange(width, keys, large) {
  return width < NARROW && !large ? tall(keys) : wide(keys);
}

/** @param {number} keys */
function wide(keys) {
  const step = Math.max(38, Math.min(54, 324 / (keys + 1)));
  const widths = [128, 66, 72, 108, 92];
  /** @type {(layer: number, row: number) => Node} */
  const node = (layer, row) => ({ x: WIDE.layers[layer], y: WIDE.head + (row + 0.5) * step, width: widths[layer], height: 31 });
  const height = WIDE.head + (keys + 1) * step;
  const heads = WIDE.layers.map((x) => ({ x, y: 17 }));
  const result = { ...node(4, keys / 2), height: 48 };
  return { isTall: false, width: WIDE.width, height, heads, layers: [...rows(node, keys), [result]], letters: 15 };
}

/** @param {number} keys */
function tall(keys) {
  const step = TALL.width / (keys + 1);
  const narrow = Math.min(70, step - 4);
  const heights = [62, 30, 30, 46];
  /** @type {(layer: number, row: number) => Node} */
  const node = (layer, row) => {
    return { x: (row + 0.5) * step, y: TALL.layers[layer], width: narrow, height: heights[layer] };
  };
  const heads = TALL.layers.map((y, layer) => ({ x: step / 2, y: layer === 0 ? -20 : y - 6 }));
  const result = { x: TALL.width / 2 + step / 2, y: TALL.layers[4], width: 110, height: 44 };
  const letters = keys > 6 ? 11 : 14;
  const height = TALL.layers[4] + TALL.foot;
  return { isTall: true, width: TALL.width, height, heads, layers: [...rows(node, keys), [result]], letters };
}

/**
 * @param {(layer: number, row: number) => Node} node
 * @param {number} keys
 */
function rows(node, keys) {
  const places = [...Array(keys + 1).keys()];
  return [0, 1, 2, 3].map((layer) => places.slice(layer && 1).map((row) => node(layer, row)));
}
