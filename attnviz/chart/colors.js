// Colors as numbers.

/**
 * @param {string} color as a browser writes it, or as #rrggbb
 * @returns {number[]} red, green, blue, and the opacity where it is not 1
 */
export function channels(color) {
  const text = color.trim();
  if (text.startsWith("#")) return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  return (text.match(/[\d.]+/g) ?? ["255", "255", "255"]).map(Number);
}

/** @param {string} color */
export function isDark(color) {
  const [red, green, blue] = channels(color);
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}

/**
 * The theme of an element: its text is light where the theme is dark.
 * @param {Element} element
 */
export function themeOf(element) {
  return isDark(getComputedStyle(element).color) ? "light" : "dark";
}
