// Numbers as text, with the digits of attnviz/formatting.py: two, and more when the number is small.

/**
 * @param {number} value
 * @returns {string}
 */
export function number(value) {
  if (value < 0) return `−${number(-value)}`;
  if (value >= 0.095 || value === 0) return value.toFixed(2);
  if (value >= 1e-4) return value.toPrecision(2);
  return value.toExponential(0).replace(/e-(\d)$/, "e-0$1");
}

/**
 * A number with a fixed count of decimals and the sign of a minus, which zero has not.
 * @param {number} value
 * @param {number} [decimals]
 */
export function fixed(value, decimals = 2) {
  return value.toFixed(decimals).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
}
