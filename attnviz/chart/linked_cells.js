// The cell that linked maps of unequal sizes share.

/** @typedef {import("./types").HeatmapSpec["places"]} Places */

/**
 * The cell of another map with the numbers of a cell; null where the other map has none. Without numbers it is the same
 * cell.
 * @param {import("./types").Cell} cell
 * @param {Places} from the numbers of rows and columns of the map of the cell
 * @param {Places} to those of the other map
 * @returns {import("./types").Cell | null}
 */
export function linkedCell({ row, column }, from, to) {
  if (!from || !to) return { row, column };
  /** @param {0 | 1} axis @param {number} index */
  const linked = (axis, index) => (from[axis][index] < 0 ? -1 : to[axis].indexOf(from[axis][index]));
  const cell = { row: linked(0, row), column: column === null ? null : linked(1, column) };
  return cell.row < 0 || (cell.column ?? 0) < 0 ? null : cell;
}
