// The labels of a map's axes: those that fit, their angle, and the margins that they need. Plotly would find the margins
// by drawing the figure several times.

/** @typedef {import("./types").Pair} Pair */
/** @typedef {{ labels: string[], widths: number[], range: Pair }} Axis the widths of the labels are in pixels */

const GAP = 3; // pixels between a label and the map
const PITCH = 15 / 14; // of labels that can all be read, as a multiple of their size
export const MOST_LABELS = 24; // labels that all stand at an axis, in smaller letters where they must
export const LEAST = 9; // pixels of such letters
const BETWEEN = 10; // pixels between two horizontal labels
const LINE = 1.3; // times the size of letters
const TITLE = 1.2 * 1.15; // times the size of the labels, as plotly has it
const BELOW = 0.5 * TITLE; // of a title: from below its letters, from where plotly counts its standoff

/**
 * @param {string[]} labels in plotly's markup
 * @param {number} size of the letters in pixels
 * @param {string} family
 * @returns {number[]} their widths in pixels
 */
export function widths(labels, size, family) {
  return labels.map((label) => {
    const text = label.replace(/<[^>]*>/g, "").replace(/&[a-z]+;/g, "&");
    return textWidth(text, `${label.startsWith("<b>") ? "bold " : ""}${size}px ${family}`);
  });
}

/** @type {CanvasRenderingContext2D | null} */
let canvas = null;

/**
 * @param {string} text
 * @param {string} font as in CSS
 * @returns {number} its width in pixels
 */
export function textWidth(text, font) {
  canvas ??= document.createElement("canvas").getContext("2d");
  if (!canvas) throw new Error("This browser has no canvas");
  canvas.font = font;
  return canvas.measureText(text).width;
}

/**
 * The pixels that labels and title need at the left of a map.
 * @param {Pick<Axis, "widths">} axis
 * @param {number | null} standoff of the title; null without one
 * @param {number} size of the letters
 */
export function leftMargin({ widths }, standoff, size) {
  return Math.ceil(2 * GAP + Math.max(...widths) + (standoff === null ? 0 : standoff - GAP + TITLE * size));
}

/**
 * The pixels that labels and title need below a map.
 * @param {Axis} axis
 * @param {number} angle of the labels
 * @param {number} standoff of the title
 * @param {number} size of the letters
 */
export function bottomMargin({ widths }, angle, standoff, size) {
  return Math.ceil(GAP + (angle ? Math.max(...widths) : LINE * size) + standoff + BELOW * size);
}

/**
 * The labels of an axis: all of them, as far as letters can be made small enough, or as many as fit beside the bold ones.
 * @param {Pick<Axis, "labels" | "range">} axis
 * @param {number} pixels
 * @param {number} size of the letters
 * @param {number} [least] to which they may be made smaller
 */
export function ticks({ labels, range }, pixels, size, least = LEAST) {
  const [from, to] = [Math.min(...range), Math.max(...range)];
  const visible = labels.map((_, i) => i).filter((i) => i >= from && i <= to);
  const most = Math.floor((2 * pixels) / (to - from) / PITCH) / 2; // the size at which neighbors do not touch
  const fitted = visible.length <= MOST_LABELS && most >= least ? Math.min(size, most) : size;
  const step = Math.max(1, Math.ceil((PITCH * fitted * (to - from)) / pixels - 1e-9));
  const bold = visible.filter((i) => labels[i].startsWith("<b>")); // they stand in any case
  const tickvals = visible.filter((i) => bold.includes(i) || (i % step === 0 && bold.every((other) => Math.abs(other - i) >= step)));
  return { tickvals, ticktext: tickvals.map((i) => labels[i]), tickfont: { size: fitted } };
}

/**
 * The labels below a map: horizontal where they fit side by side, else upright.
 * @param {Axis} axis
 * @param {number} pixels
 * @param {number} size of the letters
 * @param {number} [least]
 */
export function keyTicks(axis, pixels, size, least = LEAST) {
  const { widths, range } = axis;
  const labels = ticks(axis, pixels, size, least);
  const cell = pixels / Math.abs(range[1] - range[0]);
  const ends = labels.tickvals.map((i) => {
    const middle = (i - Math.min(...range)) * cell;
    const half = (widths[i] * labels.tickfont.size) / size / 2;
    return { left: middle - half, right: middle + half };
  });
  const fits = ends.every(({ right }, n) => right + BETWEEN < (ends[n + 1]?.left ?? pixels + BETWEEN + GAP));
  return { ...labels, tickangle: fits ? 0 : 90 };
}

/**
 * Labels that are at most so wide; the end of a longer one is left out.
 * @param {string[]} labels
 * @param {number[]} widths
 * @param {number} limit in pixels
 */
export function shorten(labels, widths, limit) {
  return labels.map((label, i) => {
    if (widths[i] <= limit || label.includes("<") || label.includes("&")) return label;
    return `${[...label].slice(0, Math.max(1, Math.floor(([...label].length * limit) / widths[i]) - 1)).join("")}…`;
  });
}
