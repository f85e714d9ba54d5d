// Links to pages about the cells of a map.

/**
 * The address of the page about a cell.
 * @param {import("./types").CellLinks} links
 * @param {number} row
 * @param {number} column
 */
export function cellAddress({ address, parameters: [query, key], queries, keys }, row, column) {
  return `${address}&${new URLSearchParams([[query, queries[row]], [key, keys[column]]])}`;
}
