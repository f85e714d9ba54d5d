// Numbers as a person writes them.

/**
 * A number with the minus and the decimal sign that JavaScript reads; nothing stays nothing.
 * @param {string} text
 * @returns {string | null} null if the text is not a number
 */
export function normalizedNumber(text) {
  const plain = text.trim().replace("−", "-").replace(",", ".");
  return plain && !Number.isFinite(Number(plain)) ? null : plain;
}
