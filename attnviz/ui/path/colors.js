// The colors of the house as functions of a number.

/** @param {string} text such as #1b2c3d */
function channels(text) {
  return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
}

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
 * @param {string} color as a browser writes it, or as #rrggbb
 */
export function isDark(color) {
  const text = color.trim();
  const numbers = text.startsWith("#") ? channels(text) : (text.match(/[\d.]+/g) ?? ["255", "255", "255"]).map(Number);
  return 0.299 * numbers[0] + 0.587 * numbers[1] + 0.114 * numbers[2] < 128;
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
    ink: theme === "dark" ? "#f2f4f8" : "#1f2430",
    paper: theme === "dark" ? "#0e1117" : "#ffffff",
  };
}
