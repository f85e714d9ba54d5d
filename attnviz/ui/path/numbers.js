// What a number of a part was computed from: its operands, and a sentence.

import { _ } from "../../chart/words.js";
import { symbolText } from "../symbols.js";

/** @typedef {import("./types").PartPicture} PartPicture */

const MOST_SPREAD = 4; // as in depths.py

/**
 * A number as it is read, with two decimals, or with two significant digits if it is small.
 * @param {number | null | undefined} value null is −∞
 */
export function written(value) {
  if (value === null || value === undefined) return "−∞";
  const size = Math.abs(value);
  const text = size === 0 ? "0.00" : size >= 0.095 ? size.toFixed(2) : size >= 1e-4 ? String(Number(size.toPrecision(2))) : "0.00";
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/**
 * The size of a number that has the strongest color: the largest, but not of a row that is far larger than the others.
 * @param {(number | null)[][]} values
 */
export function greatestColored(values) {
  const rows = values.map((row) => Math.max(...row.map((one) => Math.abs(one ?? 0)))).sort((a, b) => a - b);
  const largest = rows[rows.length - 1];
  return Math.min(largest, MOST_SPREAD * rows[Math.floor((rows.length - 1) / 2)]) || largest || 1;
}

/**
 * A number as a term or a factor: in parentheses if it is negative.
 * @param {number | null} value
 */
function term(value) {
  return value === null || value < 0 ? `(${written(value)})` : written(value);
}

/**
 * The operands of the number in a row and a column of the result.
 * @param {PartPicture} part
 * @param {number} row
 * @param {number} column
 * @returns {import("./types").Operands[]}
 */
export function operands(part, row, column) {
  /** @type {(matrix: number, i: number) => import("./types").Operands} */
  const whole = (matrix, i) => ({ matrix, rows: [i, i + 1], columns: [0, size(part, matrix).columns] });
  /** @type {(matrix: number, i: number, j: number) => import("./types").Operands} */
  const cell = (matrix, i, j) => ({ matrix, rows: [i, i + 1], columns: [j, j + 1] });
  /** @type {(matrix: number, j: number) => import("./types").Operands} */
  const down = (matrix, j) => ({ matrix, rows: [0, size(part, matrix).rows], columns: [j, j + 1] });
  switch (part.operation) {
    case "add":
    case "product":
      return part.sources.map((_none, i) => cell(i, row, column));
    case "norm":
      return [whole(0, row), cell(-1, 0, column)];
    case "rotation":
      return [...new Set([column, partner(part, column)])].map((j) => cell(0, row, j));
    case "softmax":
      return [whole(0, row)];
    case "scores":
      return [whole(0, row), whole(1, column)];
    case "weighted sum":
      return [whole(0, row), down(1, column)];
    case "concat": {
      const { columns } = size(part, 0);
      return [cell(Math.floor(column / columns), row, column % columns)];
    }
    case "linear": {
      const sourceRow = part.sources[0].rows.length - part.result.rows.length + row; // of logits, the last
      return [whole(0, sourceRow), ...(part.weight?.values ? [down(-1, column)] : [])];
    }
    default:
      return [];
  }
}

/**
 * The column that a column is rotated with; itself if it is not.
 * @param {PartPicture} part
 * @param {number} column
 */
function partner({ rotated }, column) {
  if (column >= rotated) return column;
  return column < rotated / 2 ? column + rotated / 2 : column - rotated / 2;
}

/**
 * @param {PartPicture} part
 * @param {number} matrix of the sources; −1 the weight
 */
function size({ weight, sources }, matrix) {
  const values = (matrix < 0 ? weight : sources[matrix])?.values;
  return { rows: values?.length ?? 0, columns: values?.[0].length ?? 0 };
}

/**
 * @param {number[]} terms
 * @param {(i: number) => string} say
 * @param {number} count
 */
function largest(terms, say, count) {
  const order = terms.map((_none, i) => i).sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a]));
  return order.slice(0, count).map(say);
}

/**
 * How the number in a row and a column of the result was computed, in a sentence.
 * @param {PartPicture} part
 * @param {number} row
 * @param {number} column
 */
export function sentence(part, row, column) {
  const { result, sources } = part;
  const value = result.values?.[row]?.[column];
  const token = result.rows[row];
  const place = result.columns.length ? `${token} → ${result.columns[column]}` : `${token}, ${column + 1}`;
  const start = `${symbolText(result.symbol)}[${place}] = `;
  /** @type {(i: number) => (number | null)[]} */
  const sourceRow = (i) => sources[i].values?.[row] ?? [];
  switch (part.operation) {
    case "add":
      return `${start}${sources.map((one) => term(one.values?.[row][column] ?? 0)).join(" + ")} = ${written(value)}`;
    case "product":
      return `${start}${sources.map((one) => term(one.values?.[row][column] ?? 0)).join(" · ")} = ${written(value)}`;
    case "rotation": {
      const other = partner(part, column);
      const before = sourceRow(0).map(Number);
      if (other === column) return `${start}${_("not rotated")}: ${written(value)}`;
      const [low, high] = column < other ? [column, other] : [other, column];
      const after = (result.values?.[row] ?? []).map(Number);
      const angle = Math.atan2(after[high], after[low]) - Math.atan2(before[high], before[low]);
      const [a, b] = column < other ? ["cos", "sin"] : ["sin", "cos"];
      const sign = column < other ? "−" : "+";
      const turned = (((angle * 180) / Math.PI) % 360 + 360) % 360;
      return `${start}${term(before[low])} · ${a} φ ${sign} ${term(before[high])} · ${b} φ = ${written(value)}, ${_("φ = {angle}°, which grows with the position", { angle: written(turned) })}`;
    }
    case "concat": {
      const { columns } = size(part, 0);
      return `${start}${_("number {number} of head {head}", { number: (column % columns) + 1, head: Math.floor(column / columns) })} = ${written(value)}`;
    }
    case "softmax": {
      const scores = sourceRow(0);
      const score = scores[column];
      const key = result.columns[column];
      if (score === null) return _("“{token}” may not look at “{key}”: its score is −∞, so its weight is 0.", { token, key });
      const total = scores.reduce((/** @type {number} */ sum, one) => sum + (one === null ? 0 : Math.exp(one)), 0);
      return _("“{token}” gives {weight} of its attention to “{key}”: e^{score} / {total}, the sum over the row", { token, key, weight: written(value), score: written(score), total: written(total) });
    }
    case "scores": {
      const [query, key] = [sourceRow(0), sources[1].values?.[column] ?? []];
      if (value === null) return _("“{token}” may not look at “{key}”: the mask makes the score −∞.", { token, key: result.columns[column] });
      const dot = query.reduce((/** @type {number} */ sum, one, i) => sum + Number(one) * Number(key[i]), 0);
      return `${start}q · k / √${query.length} = ${written(dot)} / ${written(Math.sqrt(query.length))} = ${written(value)}`;
    }
    case "weighted sum": {
      const weights = sourceRow(0).map(Number);
      const values = (sources[1].values ?? []).map((one) => Number(one[column]));
      const parts = largest(weights.map((one, i) => one * values[i]), (i) => `${written(weights[i])} · ${term(values[i])} (${sources[1].rows[i]})`, 3);
      return `${start}${parts.join(" + ")}${weights.length > 3 ? " + …" : ""} = ${written(value)}`;
    }
    case "norm": {
      const numbers = sourceRow(0).map(Number);
      const gain = part.weight?.values?.[0][column] ?? 1;
      if (part.function === "RMSNorm") {
        const rms = Math.sqrt(numbers.reduce((sum, one) => sum + one ** 2, 0) / numbers.length);
        return `${start}${term(gain)} · ${term(numbers[column])} / ${written(rms)} = ${written(value)}`;
      }
      const mean = numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
      const spread = Math.sqrt(numbers.reduce((sum, one) => sum + (one - mean) ** 2, 0) / numbers.length);
      const bias = part.bias ? ` + ${term(part.bias[column])}` : "";
      return `${start}${written(gain)} · (${written(numbers[column])} − ${term(mean)}) / ${written(spread)}${bias} = ${written(value)}`;
    }
    case "linear": {
      const [{ rows }] = operands(part, row, column);
      const numbers = (sources[0].values?.[rows[0]] ?? []).map(Number);
      const bias = part.bias ? ` + b ${term(part.bias[column])}` : "";
      const made = part.function ? `, ${_("after {activation}", { activation: part.function })}: ` : " = ";
      const weights = part.weight?.values?.map((one) => one[column]);
      if (!weights) return `${start}${_("{count} products of this row with learned weights", { count: numbers.length })}${bias}${made}${written(value)}`;
      const products = numbers.map((one, i) => one * weights[i]);
      const parts = largest(products, (i) => `${written(numbers[i])} · ${term(weights[i])}`, 2);
      return `${start}${parts.join(" + ")} + … (${_("{count} products", { count: numbers.length })})${bias}${made}${written(value)}`;
    }
    default:
      return `${start}${written(value)}, ${result.about}`;
  }
}
