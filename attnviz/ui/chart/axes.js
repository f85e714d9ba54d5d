// The labels of a map's axes: those that fit, their angle, and the margins that they need. Plotly would find the margins
// by drawing the figure several times.

/** @typedef {import("./types").Pair} Pair */
/** @typedef {{ labels: string[], widths: number[], range: Pair }} Axis the widths of the labels are in pixels */

const GAP = 3; // pixels between a label and the map
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
  const context = document.createElement("canvas").getContext("2d");
  if (!context) throw new Error("This browser has no canvas");
  return labels.map((label) => {
    context.font = `${label.startsWith("<b>") ? "bold " : ""}${size}px ${family}`;
    return context.measureText(label.replace(/<[^>]*>/g, "").replace(/&[a-z]+;/g, "&")).width;
  });
}

/**
 * The pixels that labels and title need at the left of a map.
 * @param {Axis} axis
 * @param {number} standoff of the title
 * @param {number} size of the letters
 */
export function leftMargin({ widths }, standoff, size) {
  return Math.ceil(GAP + Math.max(...widths) + standoff + TITLE * size);
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
 * As many labels as fit the range, at least a line apart.
 * @param {Pick<Axis, "labels" | "range">} axis
 * @param {number} pixels
 * @param {number} lineHeight
 */
export function ticks({ labels, range }, pixels, lineHeight) {
  const [from, to] = [Math.min(...range), Math.max(...range)];
  const step = Math.max(1, Math.ceil((lineHeight * (to - from)) / pixels));
  const tickvals = labels.map((_, i) => i).filter((i) => i % step === 0 && i >= from && i <= to);
  return { tickvals, ticktext: tickvals.map((i) => labels[i]) };
}

/**
 * The labels below a map: horizontal where they fit side by side, else upright.
 * @param {Axis} axis
 * @param {number} pixels
 * @param {number} lineHeight
 */
export function keyTicks(axis, pixels, lineHeight) {
  const { widths, range } = axis;
  const { tickvals, ticktext } = ticks(axis, pixels, lineHeight);
  const cell = pixels / Math.abs(range[1] - range[0]);
  const ends = tickvals.map((i) => {
    const middle = (i - Math.min(...range)) * cell;
    return { left: middle - widths[i] / 2, right: middle + widths[i] / 2 };
  });
  const fits = ends.every(({ right }, n) => right + BETWEEN < (ends[n + 1]?.left ?? pixels + BETWEEN + GAP));
  return { tickvals, ticktext, tickangle: fits ? 0 : 90 };
}
