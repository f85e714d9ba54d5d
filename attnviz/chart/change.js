// What two maps have in one cell; attnviz/analysis/difference.py says the same of whole maps.

const SAME = 1e-6; // of the larger weight: the last digits of float32, in which sums in another order differ
const TINY = 2 ** -126;

/**
 * What became of a weight; NaN is a masked cell.
 * @param {number} before
 * @param {number} after
 * @returns {import("./types").Change}
 */
export function changeOf(before, after) {
  if (Number.isNaN(before)) return Number.isNaN(after) ? "neither" : "added";
  if (Number.isNaN(after)) return "removed";
  const larger = Math.max(Math.abs(before), Math.abs(after));
  return Math.abs(after - before) <= SAME * larger + TINY ? "kept" : "reweighted";
}

/**
 * The place of the greatest weight of a row; null where all are masked.
 * @param {import("./types").Row} weights
 */
export function strongest(weights) {
  const place = weights.reduce((best, weight, j) => (weight > (weights[best] ?? -Infinity) ? j : best), -1);
  return place < 0 ? null : place;
}
