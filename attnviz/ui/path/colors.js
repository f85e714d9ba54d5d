// The colors of numbers.

import { channels } from "../../chart/colors.js";

/**
 * A color between the stops, which stand at equal distances.
 * @param {string[]} stops
 * @param {number} share from 0 to 1
 */
export function between(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2);
  const [low, high] = [channels(stops[index]), channels(stops[index + 1])];
  return `rgb(${low.map((one, i) => Math.round(one + (high[i] - one) * (place - index))).join(" ")})`;
}

/**
 * @param {import("./types").Colors} colors
 * @param {"light" | "dark"} theme
 * @returns {import("./types").Palette}
 */
export function palette(colors, theme) {
  return {
    weight: (share) => between(colors.weights[theme], share),
    change: (value) => between(colors.changes[theme], (value + 1) / 2),
    masked: colors.masked[theme],
  };
}
