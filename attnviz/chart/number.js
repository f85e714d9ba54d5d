// Numbers as text, as attnviz/base/formatting.py writes them: with two digits, and a bound for what is very small.

const LEAST = 0.0001;

/**
 * @param {number} value
 * @returns {string}
 */
export function number(value) {
  if (value < 0) return value <= -LEAST ? `−${number(-value)}` : `> −${LEAST}`;
  if (value >= 0.095 || value === 0) return value.toFixed(2);
  return value < LEAST ? `< ${LEAST}` : value.toPrecision(2);
}

/**
 * A number with a fixed count of decimals and the sign of a minus, which zero has not.
 * @param {number} value
 * @param {number} [decimals]
 */
export function fixed(value, decimals = 2) {
  return value.toFixed(decimals).replace(/^-(?=[0.]*$)/, "").replace("-", "−");
}
