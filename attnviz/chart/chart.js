// One chart: its size, its sentence, its buttons and what lies over the figure. What a cell is and what can be done with
// it is a matter of the mode of the figure, each with a controller of its own. Text goes in as textContent only.

import { themeOf } from "./colors.js";
import { Controller } from "./controller.js";
import { button, element } from "./elements.js";
import { csv, figureTable } from "./figure_table.js";
import { fileMenu } from "./file_menu.js";
import { download, raster } from "./files.js";
import { HeatmapController } from "./heatmap.js";
import { MosaicController } from "./mosaic.js";
import { PaintingController } from "./painting.js";
import { PictureController } from "./picture.js";
import { PlaneController } from "./plane.js";
import { Graph, load } from "./plotly_adapter.js";
import { PointsController } from "./points.js";
import { svg } from "./svg.js";
import { _ } from "./words.js";

const LINE_HEIGHT = 15; // pixels between two labels of 14 pixels that can both be read
const USUAL = 14; // pixels of most letters
const WIDE = 560; // pixels from which there is room beside a map
const PHONE = 640;
const NARROW = 360; // pixels of a chart whose sentence has few words in a line
const TOP = 330; // pixels of a window that a chart leaves to what else is on a page
const BESIDE_TOP = 540; // to what is above maps side by side, in a presentation
const SCROLLBAR = 12; // pixels below a picture that is wider than its place
const AROUND = 8; // pixels around the part of a picture that is scrolled to
const MODES = {
  plain: Controller,
  points: PointsController,
  mosaic: MosaicController,
  heatmap: HeatmapController,
  plane: PlaneController,
  picture: PictureController,
};

export class Chart {
  /** @type {import("./types").Header | null} */
  header = null;
  /** @type {Controller<any> | null} */
  controller = null;
  /** @type {import("./types").Report} */
  report = () => {};
  runs = 0;
  drawn = false; // until then the pointer would read the new numbers at the places of the old picture
  isWired = false;
  width = 0; // of the place of the picture
  pictureWidth = 0;
  height = 0; // of the picture
  isWide = true;
  theme = "light";
  accent = "";
  color = ""; // of text
  family = ""; // of its letters
  large = 1; // the size of the page's letters, as a multiple of the usual one
  letters = 1; // their size, as a multiple of the usual one
  isPresented = false;
  smallest = 0; // the least size of letters in pixels: in a presentation, that of the usual ones
  lineHeight = LINE_HEIGHT;
  hint = "";

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** @param {string} name */
    const part = (name) => /** @type {HTMLElement} */ (root.querySelector(`.attnviz-${name}`));
    this.graph = new Graph(part("graph"));
    this.overlay = part("overlay");
    this.stage = part("stage");
    this.sentence = part("sentence");
    this.link = /** @type {HTMLAnchorElement} */ (part("page-link"));
    this.tools = part("tools");
    this.description = part("description");
    this.live = part("live");
    this.#listen();
    this.tools.append(
      fileMenu([
        { text: "PNG", act: () => this.#save("PNG") },
        { text: "SVG", act: () => this.#save("SVG") },
        { text: _("Numbers as CSV"), act: () => this.#saveNumbers(), when: () => this.#table !== null },
        { text: _("Copy the link"), act: () => navigator.clipboard.writeText(location.href), when: () => Boolean(root.closest(".stApp") && navigator.clipboard) },
      ]),
    );
    this.reset = this.#button(_("Reset zoom"), _("Reset zoom"), () => this.controller?.unzoom());
    this.reset.hidden = true;
    this.resized = new ResizeObserver(() => {
      if (this.header && Math.abs(this.width - this.stage.clientWidth) > 1) this.show(this.header);
    });
    this.resized.observe(this.stage);
  }

  #listen() {
    const { stage } = this;
    let frame = 0;
    /** @type {PointerEvent} */
    let last;
    stage.addEventListener("pointermove", (event) => {
      last = event;
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (this.drawn) this.controller?.readAll(this.controller.cellAt(last));
      });
    });
    for (const kind of ["pointerleave", "blur"]) stage.addEventListener(kind, () => this.controller?.readAll(null));
    stage.addEventListener("pointerdown", (down) => {
      if (down.button === 0 && down.isPrimary) this.controller?.press(down);
    });
    this.root.addEventListener("attnviz-grow", (event) => {
      if (this.controller instanceof HeatmapController) this.controller.grow(/** @type {CustomEvent} */ (event).detail);
    });
    this.root.addEventListener("attnviz-read", (event) => {
      const row = /** @type {CustomEvent<number | null>} */ (event).detail;
      if (this.drawn && this.controller instanceof HeatmapController) this.controller.readRow(row);
    });
    stage.addEventListener("keydown", (event) => this.drawn && this.controller?.key(event));
  }

  /**
   * @param {string} text
   * @param {string} label
   * @param {() => void} action
   */
  #button(text, label, action) {
    const made = button(text, "", action);
    made.title = label;
    made.setAttribute("aria-label", label);
    this.tools.append(made);
    return made;
  }

  close() {
    this.runs++;
    this.resized.disconnect();
    this.controller?.close();
    this.graph.purge();
  }

  // Drawing --------------------------------------------------------------------------------------------------------

  /** @param {import("./types").Header} header */
  async show(header) {
    const run = ++this.runs;
    this.root.dataset.ready = "false";
    this.drawn = false;
    this.header = header;
    try {
      await load(header.plotly);
      this.#look();
      await undefined; // all charts of a page look at it before the first of them changes it
      if (run !== this.runs) return;
      if (!this.width) {
        // In a tab that is not chosen plotly.js would set titles at Infinity; the observer draws the chart when it is seen.
        this.root.dataset.ready = "true";
        return;
      }
      const controller = this.#control(header);
      this.#label(header);
      this.#measure(header, controller);
      const layout = this.#layout(header, controller);
      if (controller.isOverview) await frames().then(idle);
      if (run !== this.runs) return;
      await this.graph.draw(this.#traces(header), layout);
      if (run !== this.runs) return;
      this.#wire();
      this.drawn = true;
      for (const [side, pixels] of Object.entries(this.graph.area ?? {})) this.root.style.setProperty(`--map-${side}`, `${pixels}px`);
      await controller.drawn();
      this.root.dataset.rows = String(controller.size.rows ?? "");
      this.root.dataset.columns = String(controller.size.columns ?? "");
      await frames();
      if (run === this.runs) this.root.dataset.ready = "true";
    } catch (error) {
      if (run !== this.runs) return;
      this.say(_("The chart could not be drawn: {problem}. Reload the page.", { problem: /** @type {Error} */ (error).message }));
    }
  }

  /**
   * The controller of a figure's mode: the one before, where it has the same mode.
   * @param {import("./types").Header} header
   * @returns {Controller<any>}
   */
  #control(header) {
    const Mode = /** @type {typeof Controller<any>} */ (header.paints && header.spec.mode === "heatmap" ? PaintingController : MODES[header.spec.mode]);
    if (this.controller?.constructor === Mode) this.controller.update(header);
    else {
      this.controller?.close();
      this.controller = new Mode(this, header);
    }
    return this.controller;
  }

  /** Reads the styles of the page: after a change of the page the browser has to compute them for that. */
  #look() {
    const style = getComputedStyle(this.root);
    this.width = this.stage.clientWidth;
    this.isWide = this.width >= WIDE;
    // In a presentation the page's own letters are larger, and the chart's follow.
    this.large = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    this.theme = themeOf(this.root);
    this.root.dataset.theme = this.theme;
    this.accent = style.getPropertyValue("--accent").trim();
    this.color = style.getPropertyValue("--st-text-color").trim();
    this.family = style.fontFamily;
  }

  /** @param {import("./types").Header} header */
  #label({ paints, drags, label, title, description, key }) {
    this.stage.classList.toggle("attnviz-paints", paints);
    this.stage.classList.toggle("attnviz-drags", drags);
    this.stage.setAttribute("aria-label", label);
    this.sentence.dataset.title = title;
    this.description.textContent = description;
    this.description.id = `attnviz-${key}-description`;
    this.stage.setAttribute("aria-describedby", this.description.id);
  }

  /**
   * As high as a window has room for, where charts stand side by side; the letters grow along.
   * @param {import("./types").Header} header
   * @param {Controller<any>} controller
   */
  #measure(header, controller) {
    const { width, large } = this;
    this.root.classList.toggle("attnviz-small", controller.isSmall);
    this.root.classList.toggle("attnviz-narrow", width < NARROW);
    this.root.classList.toggle("attnviz-picture", header.spec.mode === "picture");
    this.isPresented = large > 1;
    const { greatestHeight, leastHeight } = controller;
    const inWindow = Math.min(greatestHeight, window.innerHeight - (header.grows === "beside" && large > 1 ? BESIDE_TOP : TOP));
    const wanted = window.innerWidth <= PHONE ? leastHeight : large > 1 ? Math.max(inWindow, leastHeight) : inWindow;
    const room = header.grows ? wanted : 0;
    const limit = controller.aspect ? controller.aspect * width + 40 : Infinity;
    const height = Math.min(Math.max(header.height, room), limit);
    const grown = this.isWide || controller.isOverview ? Math.min(1.5, height / header.height, width / 340) : 1;
    this.letters = Math.max(large, grown);
    this.smallest = large > 1 ? Math.round(USUAL * large) : 0;
    this.root.style.setProperty("--letters", String(this.letters));
    this.lineHeight = LINE_HEIGHT * this.letters;
    const fitted = controller.fit(width, height);
    [this.pictureWidth, this.height] = [fitted.width, fitted.height + controller.below];
    const [isWide, isHigh] = [fitted.width > width, fitted.height > height];
    this.stage.classList.toggle("attnviz-scrolls", isWide || isHigh);
    this.stage.style.height = `${(isHigh ? height : fitted.height) + controller.below + (isWide ? SCROLLBAR : 0)}px`;
    Object.assign(this.overlay.style, { width: `${this.pictureWidth}px`, height: `${this.height}px` });
  }

  /**
   * @param {import("./types").Header} header
   * @param {Controller<any>} controller
   * @returns {import("./types").Layout} a copy, because plotly writes into what it is given
   */
  #layout(header, controller) {
    const layout = structuredClone({
      ...header.figure.layout,
      template: header.themes[this.theme],
      width: this.pictureWidth,
      height: this.height,
      font: { size: Math.round(USUAL * this.letters) },
    });
    for (const axis of [layout.coloraxis, layout.coloraxis3])
      if (axis?.colorbar) axis.colorbar.tickfont = { size: Math.round((this.isPresented ? 14 : 12) * this.letters) };
    enlarge(layout, this.smallest);
    // A finger that drags wants to scroll the page.
    if (header.paints || matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
    this.hint = header.hint + (header.views && layout.dragmode ? ` ${_("Drag, or Ctrl and wheel, to zoom.")}` : "");
    controller.arrange(layout);
    return layout;
  }

  /**
   * The traces of a figure, with the letters of a presentation.
   * @param {import("./types").Header} header
   */
  #traces({ figure }) {
    return figure.data.map((trace) => (trace.textfont ? { ...trace, textfont: { ...trace.textfont, size: Math.max(trace.textfont.size, this.smallest) } } : trace));
  }

  #wire() {
    if (this.isWired) return;
    this.isWired = true;
    this.graph.on("plotly_relayout", async () => {
      await this.controller?.zoomed();
      this.redraw();
    });
    this.graph.on("plotly_doubleclick", () => this.controller?.unzoom());
  }

  /**
   * @param {number} size of letters that are usual elsewhere
   * @returns {number} their size in this chart
   */
  letterSize(size) {
    return Math.max(size * this.letters, this.smallest);
  }

  clearOverlay() {
    this.overlay.replaceChildren();
  }

  /** Draws what lies over the figure anew. */
  redraw() {
    if (!this.drawn) return;
    this.clearOverlay();
    this.controller?.draw();
  }

  /**
   * Adds an element to what lies over the figure.
   * @template {keyof SVGElementTagNameMap} Name
   * @param {Name} name
   * @param {import("./svg.js").Attributes} attributes
   * @param {string} [text]
   */
  add(name, attributes, text = "") {
    return this.overlay.appendChild(svg(name, attributes, text));
  }

  /**
   * @param {{ clientX: number, clientY: number }} pointer
   * @returns {import("./types").Pair} its place on the stage
   */
  pixelsOf(pointer) {
    const box = this.stage.getBoundingClientRect();
    return [pointer.clientX - box.left + this.stage.scrollLeft, pointer.clientY - box.top + this.stage.scrollTop];
  }

  /**
   * Scrolls a picture that is larger than its place to a part of it, given in pixels.
   * @param {number} left
   * @param {number} top
   * @param {number} right
   * @param {number} bottom
   */
  reveal(left, top, right, bottom) {
    const { stage } = this;
    stage.scrollLeft = Math.min(left - AROUND, Math.max(stage.scrollLeft, right + AROUND - stage.clientWidth));
    stage.scrollTop = Math.min(top - AROUND, Math.max(stage.scrollTop, bottom + AROUND - stage.clientHeight));
  }

  // Sentences ------------------------------------------------------------------------------------------------------

  /**
   * Shows a sentence above the picture; tokens and numbers take the places of their names in braces.
   * @param {string} template
   * @param {boolean} [isHint]
   * @param {Record<string, string>} [words]
   * @param {string} [address] of a page about it
   */
  say(template, isHint = false, words = {}, address = "") {
    this.sentence.classList.toggle("attnviz-hint", isHint);
    this.sentence.replaceChildren(
      ...template.split(/(\{\w+\})/).map((part) => {
        const name = part.slice(1, -1);
        return part.startsWith("{") && name in words ? element("bdi", "", words[name]) : part;
      }),
    );
    this.sentence.title = this.sentence.textContent ?? "";
    if (address) this.link.href = address;
    else this.link.removeAttribute("href"); // its place stays
  }

  /** Has a screen reader read the sentence. */
  announce() {
    this.live.textContent = this.sentence.textContent;
  }

  // Files ----------------------------------------------------------------------------------------------------------

  /** @param {"PNG" | "SVG"} kind */
  async #save(kind) {
    const { pictureWidth: width, height } = this;
    const page = new DOMParser().parseFromString(await this.graph.svg(width, height), "image/svg+xml");
    const fill = getComputedStyle(this.root).getPropertyValue("--st-background-color");
    page.documentElement.prepend(svg("rect", { width, height, fill }));
    for (const one of this.overlay.children) page.documentElement.append(one.cloneNode(true));
    page.documentElement.setAttribute("font-family", "Source Sans, Helvetica, Arial, sans-serif");
    const file = new Blob([new XMLSerializer().serializeToString(page)], { type: "image/svg+xml" });
    download(kind === "SVG" ? file : await raster(file, width, height), `${this.header?.name}.${kind.toLowerCase()}`);
  }

  get #table() {
    return this.header ? figureTable(this.header) : null;
  }

  #saveNumbers() {
    if (this.#table) download(new Blob([csv(this.#table)], { type: "text/csv" }), `${this.header?.name}.csv`);
  }
}

/** Waits until what has been drawn is painted. */
function frames() {
  return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}

/** Waits until the browser has nothing more urgent to do, for half a second at most. */
function idle() {
  return new Promise((resolve) => (window.requestIdleCallback ?? setTimeout)(resolve, { timeout: 500 }));
}

/**
 * Makes the smaller fonts of a layout as large as this.
 * @param {Record<string, any>} part of the layout
 * @param {number} smallest
 */
function enlarge(part, smallest) {
  for (const [key, value] of Object.entries(part)) {
    if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) continue;
    if (key.endsWith("font") && value.size < smallest) value.size = smallest;
    enlarge(value, smallest);
  }
}
