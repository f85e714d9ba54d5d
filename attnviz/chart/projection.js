// A query in the key space.

/** @typedef {import("./types").Pair} Pair */

/**
 * A row vector times a matrix.
 * @param {[Pair, Pair]} matrix
 * @param {Pair} point
 * @returns {Pair}
 */
export function project([first, second], [x, y]) {
  return [x * first[0] + y * second[0], x * first[1] + y * second[1]];
}
