// The numbers of a figure as a table, and as CSV.

/** @typedef {(string | number)[][]} Table */

/**
 * The weights of a map with the tokens of its rows and columns, the number of each head, or the points and bars of each
 * series; null for a picture whose numbers are no table, or are places on a scale of colors, as those of a long map.
 * @param {import("./types").Header} header
 * @returns {Table | null}
 */
export function figureTable({ figure, spec }) {
  const { data } = figure;
  if (spec.mode === "heatmap" && spec.downsampled) return null;
  if (spec.mode === "heatmap") {
    const rows = data[0].z ?? [];
    return [["", ...spec.keyTokens], ...spec.queryTokens.map((token, i) => [token, ...Array.from(rows[i] ?? [], known)])];
  }
  if (spec.mode === "mosaic") return spec.height > 1 || spec.width > 1 ? null : headTable(spec, data[0].z ?? []);
  if (spec.mode === "plane" || spec.mode === "picture") return null;
  const series = data.filter(({ x, y }) => x?.length && y?.length);
  const table = series.flatMap(({ name, x, y }) => Array.from(/** @type {ArrayLike<number>} */ (x), (at, i) => [String(name ?? ""), at, known(y?.[i] ?? NaN)]));
  return table.length ? [["", "x", "y"], ...table] : null;
}

/**
 * @param {import("./types").MosaicSpec} spec
 * @param {import("./types").Row[]} cells
 * @returns {Table}
 */
function headTable({ names, columns, height, tileHeight, tileWidth }, cells) {
  const number = (/** @type {number} */ i) => cells[(Math.floor(i / columns) + 1) * tileHeight - height]?.[(i % columns) * tileWidth] ?? NaN;
  return names.flatMap((name, i) => (name ? [[name, known(number(i))]] : []));
}

/** A masked cell is empty. @param {number} value */
function known(value) {
  return Number.isNaN(value) ? "" : value;
}

/**
 * A text that no spreadsheet runs as a formula: one that may begin a formula has an apostrophe before it.
 * @param {Table} table
 */
export function csv(table) {
  const cell = (/** @type {string | number} */ value) => {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `\ufeff${table.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}
