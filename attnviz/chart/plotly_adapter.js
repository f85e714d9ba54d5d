// All that is known of plotly.js: how it is loaded and called, and the parts of it that it does not document, which
// tests/e2e/test_points.py pins.

/** @typedef {"xaxis" | "yaxis"} Axis */
/** @typedef {import("./types").Pair} Pair */

const CONFIG = { displayModeBar: false, doubleClick: false, showTips: false };

/** @type {Promise<any> | undefined} */
let loading;

/**
 * Loads plotly.js once for all charts; a page may have begun to load it.
 * @param {string} url
 */
export function load(url) {
  loading ??= new Promise((resolve, reject) => {
    if (plotly()) return resolve(plotly());
    const early = document.readyState === "complete" ? null : document.querySelector(`script[src="${url}"]`);
    const script = early ?? Object.assign(document.createElement("script"), { src: url });
    script.addEventListener("load", () => resolve(plotly()));
    script.addEventListener("error", () => {
      loading = undefined;
      reject(new Error(`${url} did not load`));
    });
    if (!early) document.head.append(script);
  });
  return loading;
}

/** A notebook may have another plotly.js; the viewer there keeps its own apart. */
function plotly() {
  const { attnvizPlotly, Plotly } = /** @type {any} */ (window);
  return attnvizPlotly ?? Plotly;
}

/** One figure of plotly in an element. */
export class Graph {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = /** @type {any} */ (element);
    /** @type {Promise<void>} */
    this.drawing = Promise.resolve();
  }

  /**
   * Draws a figure once the drawing before has ended: plotly.js leaves one that is interrupted in pieces.
   * @param {unknown[]} data
   * @param {object} layout
   * @returns {Promise<void>}
   */
  draw(data, layout) {
    const react = () => plotly().react(this.element, data, layout, CONFIG);
    this.drawing = this.drawing.then(react, react);
    return this.drawing;
  }

  /**
   * Shows other numbers and labels in the same figure, once the drawing before has ended.
   * @param {unknown[]} numbers of each trace
   * @param {Record<string, unknown>} changes of the layout
   */
  update(numbers, changes) {
    const update = () => plotly().update(this.element, { z: numbers }, changes);
    this.drawing = this.drawing.then(update, update);
    return this.drawing;
  }

  /**
   * @param {Record<string, unknown>} changes
   * @returns {Promise<void>}
   */
  relayout(changes) {
    return plotly().relayout(this.element, changes);
  }

  /**
   * @param {"plotly_relayout" | "plotly_doubleclick"} event
   * @param {() => void} action
   */
  on(event, action) {
    this.element.on(event, action);
  }

  purge() {
    plotly()?.purge(this.element);
  }

  /**
   * @param {number} width
   * @param {number} height
   * @returns {Promise<string>} the picture as SVG
   */
  async svg(width, height) {
    const url = await plotly().toImage(this.element, { format: "svg", width, height });
    return decodeURIComponent(url.slice(url.indexOf(",") + 1));
  }

  /** Whether a figure with axes has been drawn. */
  get hasAxes() {
    return Boolean(this.element._fullLayout?.xaxis);
  }

  /**
   * The plot within its margins, in pixels of the element.
   * @returns {{ l: number, t: number, w: number, h: number } | undefined}
   */
  get area() {
    return this.element._fullLayout?._size;
  }

  /**
   * @param {Axis} axis
   * @returns {Pair} the range in view
   */
  range(axis) {
    return [.../** @type {Pair} */ (this.element._fullLayout[axis].range)];
  }

  /**
   * @param {Axis} axis
   * @returns {number[] | undefined} where it has labels
   */
  tickvals(axis) {
    return this.element._fullLayout[axis].tickvals;
  }

  /**
   * @param {Pair} point in units of the axes
   * @returns {Pair} in pixels of the element
   */
  pixels([x, y]) {
    const { xaxis, yaxis } = this.element._fullLayout;
    return [xaxis._offset + xaxis.l2p(x), yaxis._offset + yaxis.l2p(y)];
  }

  /**
   * @param {Pair} pixels of the element
   * @returns {Pair} the point, in units of the axes
   */
  point([left, top]) {
    const { xaxis, yaxis } = this.element._fullLayout;
    return [xaxis.p2l(left - xaxis._offset), yaxis.p2l(top - yaxis._offset)];
  }

  /**
   * Shows or hides annotations and shapes, which would otherwise take a new drawing of the whole figure.
   * @param {{ annotations: number[], shapes: number[] }} numbers
   * @param {boolean} visible
   */
  setVisible({ annotations, shapes }, visible) {
    const selectors = [
      ...annotations.map((i) => `.annotation[data-index="${i}"]`),
      ...shapes.map((i) => `.shapelayer [data-index="${i}"]`),
    ];
    for (const element of this.element.querySelectorAll(selectors.join())) element.style.visibility = visible ? "" : "hidden";
  }
}
