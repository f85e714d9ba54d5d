// The fan of one query's weights: lines from the query to the keys, and a bar at each key.

import { textWidth } from "./axes.js";
import { number } from "./number.js";
import { curve } from "./svg.js";

const MOST_LINES = 400;
const LONGEST_NAME = 40; // characters

/**
 * Beside the map the lines start at the query's row; below it, on a narrow screen, at the query's name. Without a row
 * it has the lines of all queries.
 * @param {import("./heatmap.js").HeatmapController} controller
 * @param {number | null} row
 * @param {number | null} column
 */
export function drawFan(controller, row, column) {
  const { chart, spec, weights } = controller;
  const { accent, color, letters, isWide, lineHeight, graph } = chart;
  if (!graph.area) return;
  const { l, t, w, h } = graph.area;
  const { queryTokens: queries, keyTokens: keys } = spec;
  const top = isWide ? t : chart.height - controller.below + 24;
  const height = isWide ? h : controller.below - 32;
  const from = isWide ? l + w + 6 : Math.min(110, chart.width * 0.3);
  const span = chart.width - from;
  const to = from + span * (isWide ? 0.27 : 0.25);
  const longest = Math.max(3, ...keys.map((token) => token.length));
  const nameWidth = Math.min(96 * letters, span * 0.34, 8 * letters * longest);
  const bars = { x: to + nameWidth + 8, width: chart.width - to - nameWidth - 8 - 3.7 * chart.letterSize(12) };
  const y = (/** @type {number} */ j, count = keys.length) => top + ((j + 0.5) * height) / count;
  const scale = controller.header.figure.layout.coloraxis.cmax || 1;
  /** @param {number} i */
  const origin = (i) => {
    if (isWide) return Math.max(t, Math.min(t + h, graph.pixels([0, i])[1]));
    return row === null ? y(i, queries.length) : top + height / 2;
  };
  const text = { "font-family": "inherit", "font-size": chart.letterSize(13), fill: color, "dominant-baseline": "central" };

  const range = graph.range("yaxis");
  const inView = (/** @type {number} */ i) => !isWide || (i >= Math.min(...range) && i <= Math.max(...range));
  const rows = row === null ? queries.map((_, i) => i).filter(inView) : [row];
  const least = row === null ? 0.02 : 0.004;
  for (const { i, j, weight } of heaviest(weights, rows, least, MOST_LINES)) {
    const opacity = (row === null ? 0.45 : 0.9) * Math.min(1, 0.08 + weight / scale);
    chart.add("path", {
      d: curve([from, origin(i)], [to, y(j)]),
      fill: "none",
      stroke: j === column ? accent : color,
      "stroke-opacity": j === column ? 1 : opacity,
      "stroke-width": 1 + 3 * Math.min(1, weight / scale),
    });
  }

  /** @type {(attributes: Record<string, string | number>, name: string, width: number) => void} */
  const addName = (attributes, name, width) => {
    const font = `${attributes["font-weight"] ?? 400} ${text["font-size"]}px ${chart.family}`;
    chart.add("text", { ...text, ...attributes }, shortened(name, width, font));
  };
  if (!isWide)
    for (const i of apart(rows, origin, lineHeight * 0.95)) {
      const weight = row === null ? 400 : 600;
      addName({ x: from - 6, y: origin(i), "text-anchor": "end", "font-weight": weight }, queries[i], from - 10);
    }
  const order = namedKeys(row === null ? null : weights[row], keys.length, column);
  const placed = apart(order, y, lineHeight * 0.95);
  for (const j of placed)
    addName({ x: to + 4, y: y(j), ...(j === column ? { fill: accent, "font-weight": 600 } : {}) }, keys[j], nameWidth);
  if (row !== null) {
    const thick = Math.max(1, Math.min(lineHeight - 4, (height / keys.length) * 0.7));
    weights[row].forEach((weight, j) => {
      if (Number.isNaN(weight)) return;
      const width = Math.max(1, Math.min(1, weight / scale) * bars.width);
      const fill = j === column ? accent : color;
      const opacity = j === column ? 1 : 0.75;
      chart.add("rect", { x: bars.x, y: y(j) - thick / 2, width, height: thick, fill, "fill-opacity": opacity, rx: 1 });
      if (placed.includes(j))
        chart.add("text", { ...text, "font-size": chart.letterSize(12), x: bars.x + width + 4, y: y(j), fill }, number(weight));
    });
  }
}

/**
 * The cells of these rows with the greatest weights, the greatest first.
 * @param {import("./types").Row[]} weights
 * @param {number[]} rows
 * @param {number} least
 * @param {number} most
 */
export function heaviest(weights, rows, least, most) {
  /** @type {{ i: number, j: number, weight: number }[]} */
  const cells = [];
  for (const i of rows) weights[i].forEach((weight, j) => void (weight > least && cells.push({ i, j, weight })));
  return cells.sort((a, b) => b.weight - a.weight).slice(0, most);
}

/**
 * The keys that are worth a name, the most important first. Of many keys, those with next to no weight need none.
 * @param {import("./types").Row | null} weights of the query; null for all queries
 * @param {number} count
 * @param {number | null} column the key under the pointer
 * @returns {number[]}
 */
export function namedKeys(weights, count, column) {
  const keys = Array.from({ length: count }, (_, j) => j).filter((j) => !weights || count <= 40 || weights[j] > 0.002);
  if (weights) keys.sort((a, b) => (weights[b] || 0) - (weights[a] || 0));
  return column === null ? keys : [column, ...keys];
}

/**
 * As many of these as have room, those at the front first.
 * @param {number[]} order
 * @param {(i: number) => number} place in pixels
 * @param {number} distance
 * @returns {number[]}
 */
export function apart(order, place, distance) {
  /** @type {number[]} */
  const placed = [];
  for (const i of order) if (placed.every((other) => Math.abs(place(other) - place(i)) >= distance)) placed.push(i);
  return placed;
}

/**
 * The start of a name that is longer than a number of pixels; it is measured without being laid out.
 * @param {string} name
 * @param {number} width
 * @param {string} font
 */
function shortened(name, width, font) {
  let text = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name;
  for (let length = Math.min(name.length, LONGEST_NAME) - 1; length > 0 && textWidth(text, font) > width; length--)
    text = `${name.slice(0, length)}…`;
  return text;
}
