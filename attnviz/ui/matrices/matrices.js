// Shows linked matrices and goes through the stages that make them. The pointer or the keyboard picks a number: what
// it was computed from lights up, and the line above writes its sum out. All texts, sums and links between numbers come
// from Python; here they are only shown. Texts go in as textContent only.

import { button, element, header } from "../../chart/elements.js";
import { isPlain, STEPS } from "../../chart/keys.js";
import { _ } from "../../chart/words.js";
import { setSymbol, symbolText } from "../symbols.js";
import { normalizedNumber } from "./edit.js";
import { hint } from "./hint.js";

const PACE = 2500; // milliseconds a stage is shown while playing
const REPORT = 250; // milliseconds after the last step, until Python is told
const MANY = 8; // columns, beyond which all numbers are smaller

/** @typedef {import("./types").Place} Place */

export class Matrices {
  /** @type {import("./types").Report} */
  report = () => {};
  /** @type {Element[]} */
  above = []; // what a page keeps at the window's top
  /** @type {import("./types").Data | null} */
  shown = null;
  stage = 0; // the number of the stage that is shown
  /** @type {string[]} */
  reported = []; // the stages that were reported to Python and not answered yet
  /** @type {Place | null} the number under the pointer or the keyboard */
  cursor = null;
  problem = "";
  isPlaying = false;
  /** @type {HTMLInputElement | null} in which a number is written */
  input = null;
  /** @type {HTMLElement | null} the cell that a finger has touched */
  touched = null;
  /** @type {Record<string, HTMLElement[][]>} */
  cells = {};
  /** @type {Record<string, HTMLElement>} */
  buttons = {};
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer; // of the next stage while playing
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  reporting;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** @param {string} name */
    const part = (name) => /** @type {HTMLElement} */ (root.querySelector(`.matrices-${name}`));
    this.bar = part("bar");
    this.formula = part("formula");
    this.named = part("named");
    this.learned = part("learned");
    this.concat = part("concat");
    this.title = part("title");
    this.count = part("count");
    this.caption = part("text");
    this.sum = part("sum");
    this.flow = part("flow");
    this.closed = new AbortController();
    /** @type {(target: EventTarget, kind: string, action: (event: any) => void) => void} */
    const listen = (target, kind, action) => target.addEventListener(kind, action, { signal: this.closed.signal });
    for (const element of root.querySelectorAll("[data-action]")) {
      const button = /** @type {HTMLElement} */ (element);
      const action = button.dataset.action ?? "";
      this.buttons[action] = button;
      listen(button, "click", () => button.getAttribute("aria-disabled") !== "true" && this.act(action));
    }
    listen(document, "keydown", (event) => {
      const idle = event.target === document.body || this.bar.contains(event.target);
      if (idle && isPlain(event)) this.stepKey(event);
    });
    listen(this.flow, "keydown", (event) => this.cellKey(event));
    listen(this.flow, "pointerover", (event) => event.pointerType === "mouse" && this.point(event.target.closest("td")));
    listen(this.flow, "pointerleave", () => this.point(this.focused()));
    listen(this.flow, "focusin", (event) => event.target.matches("td") && this.point(event.target));
    listen(this.flow, "focusout", () => this.point(null));
    listen(this.flow, "click", (event) => this.click(event));
    this.resized = new ResizeObserver(() => this.measure());
    this.resized.observe(this.bar);
  }

  /** @param {Element[]} elements that may stay at the window's top */
  standBelow(elements) {
    for (const element of elements) this.resized.observe(element);
    this.above = elements;
    this.measure();
  }

  // How much of the window's top is taken, so that what is scrolled to stands below it.
  measure() {
    const stays = this.above.filter((element) => element.matches("header") || getComputedStyle(element).position === "sticky");
    const top = stays.reduce((sum, element) => sum + element.getBoundingClientRect().height, 0);
    this.root.style.setProperty("--top", `${top}px`);
    this.root.style.setProperty("--bar", `${this.bar.offsetHeight}px`);
  }

  close() {
    this.pause();
    clearTimeout(this.reporting);
    this.closed.abort();
    this.resized.disconnect();
  }

  get data() {
    return /** @type {import("./types").Data} */ (this.shown);
  }

  /** @param {import("./types").Data} data */
  show(data) {
    const same = this.shown && JSON.stringify(this.shown.matrices) === JSON.stringify(data.matrices);
    const before = this.shown?.stages[this.stage]?.name;
    const answers = this.reported.indexOf(data.stage);
    const isOther = this.shown && data.stage !== this.shown.stage && answers < 0; // by the browser's Back, or a link
    this.reported.splice(0, answers + 1);
    this.shown = data;
    this.root.dataset.ready = "false";
    if (!same) this.build();
    /** @param {string | undefined} name */
    const place = (name) => data.stages.findIndex((stage) => stage.name === name);
    // The stage is this side's own, until Python has another one than was reported; and where it is no longer there.
    this.stage = place(before) >= 0 && !isOther ? place(before) : Math.max(0, place(data.stage));
    if (before === undefined && this.stage > 0) requestAnimationFrame(() => this.intoView());
    this.named.textContent = data.named;
    this.measure();
    this.named.hidden = !data.named;
    this.learned.textContent = this.#matrix("W")?.symbol ?? "";
    this.root.classList.toggle("matrices-dense", data.matrices[0].columns.length > MANY);
    this.concat.textContent = data.concat;
    this.buttons.undo.hidden = !data.edits;
    this.refuse(data.problem);
    this.draw();
    requestAnimationFrame(() => requestAnimationFrame(() => (this.root.dataset.ready = "true")));
  }

  // Matrices -----------------------------------------------------------------------------------------------------

  build() {
    const cell = this.focused();
    const focused = cell && this.place(cell);
    this.cells = {};
    this.cursor = null;
    const sections = this.data.stages.map((stage) => {
      const show = () => this.go(this.data.stages.findIndex((one) => one.name === stage.name));
      const made = this.data.matrices.filter((matrix) => matrix.stage === stage.name);
      const tables = [...made.filter((matrix) => matrix.given), ...made.filter((matrix) => !matrix.given)].map((matrix) => this.#table(matrix));
      const row = element("div", "matrices-row attnviz-row", ...tables);
      return element("section", "matrices-stage-of", button(stage.title, "matrices-heading", show), row);
    });
    this.flow.replaceChildren(...sections);
    if (focused) this.cell(focused)?.focus({ preventScroll: true });
  }

  /** @param {import("./types").Matrix} matrix */
  #table(matrix) {
    const table = element("table");
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", `${symbolText(matrix.symbol)}, ${matrix.about}`);
    const names = matrix.columns.map((name) => nameCell("col", name, matrix.keys));
    table.createTHead().append(element("tr", "", element("td"), ...names));
    const body = table.createTBody();
    this.cells[matrix.name] = matrix.texts.map((texts, i) => {
      const name = nameCell("row", matrix.rows[i], matrix.tokens);
      if (matrix.queries) name.title = _("Follow this query");
      const cells = texts.map((text, j) => {
        const cell = element("td", "", text);
        cell.setAttribute("role", "gridcell");
        cell.tabIndex = i || j ? -1 : 0;
        Object.assign(cell.dataset, { matrix: matrix.name, row: i, column: j });
        cell.classList.toggle("matrices-edited", matrix.edited[i][j]);
        const tint = matrix.tints[i][j];
        if (tint === null) cell.classList.add("matrices-masked");
        else cell.style.background = `rgb(${tint < 0 ? "232 89 12" : "28 126 214"} / ${Math.abs(tint) * 0.45})`;
        return cell;
      });
      const row = element("tr", matrix.queries ? "matrices-query" : "", name, ...cells);
      row.dataset.row = String(i);
      body.append(row);
      return cells;
    });
    const caption = element("figcaption", "", symbol(matrix.symbol), element("span", "", matrix.about));
    return element("figure", "matrices-matrix", caption, element("div", "matrices-scroll", table));
  }

  /**
   * @param {Place} place
   * @returns {HTMLElement | undefined}
   */
  cell([matrix, row, column]) {
    return this.cells[matrix]?.[row]?.[column];
  }

  /**
   * @param {HTMLElement} cell
   * @returns {Place}
   */
  place(cell) {
    return [cell.dataset.matrix ?? "", Number(cell.dataset.row), Number(cell.dataset.column)];
  }

  /** @param {string} name */
  #matrix(name) {
    return this.data.matrices.find((matrix) => matrix.name === name);
  }

  focused() {
    const cell = document.activeElement?.closest("td");
    return cell && this.flow.contains(cell) ? cell : null;
  }

  // What is lit --------------------------------------------------------------------------------------------------

  /** @param {HTMLElement | null | undefined} cell */
  point(cell) {
    if (this.input) return;
    this.cursor = cell?.dataset.matrix ? this.place(cell) : null;
    this.problem = "";
    this.light();
  }

  /** @param {string} problem shown in the place of the sum */
  refuse(problem) {
    this.problem = problem;
    this.light();
  }

  // The number that is pointed at, or that of the stage, with what it was made from, and its sum.
  light() {
    for (const lit of this.flow.querySelectorAll(".matrices-source, .matrices-made"))
      lit.classList.remove("matrices-source", "matrices-made");
    const place = this.cursor ?? this.data.stages[this.stage]?.cell;
    const cell = place && this.cell(place);
    this.sum.classList.toggle("matrices-wrong", Boolean(this.problem));
    const matrix = place && this.#matrix(place[0]);
    if (!place || !cell || !matrix) return this.sum.replaceChildren(this.problem || hint(false));
    const [, row, column] = place;
    cell.classList.add("matrices-made");
    for (const [source, top, bottom, left, right] of matrix.operands[row][column])
      for (let i = top; i < bottom; i++)
        for (let j = left; j < right; j++) this.cell([source, i, j])?.classList.add("matrices-source");
    if (this.problem) return this.sum.replaceChildren(this.problem);
    const [query, key] = [matrix.rows[row], matrix.columns[column]].map((name) => element("bdi", "", name));
    this.sum.replaceChildren(symbol(matrix.symbol), "[", query, ", ", key, "] = ", matrix.formulas[row][column]);
    if (!this.cursor) this.sum.append(" ", element("span", "matrices-faint", hint(matrix.operands[row][column].length > 0)));
  }

  draw() {
    const { stages, row } = this.data;
    const stage = stages[this.stage];
    this.root.dataset.stage = stage.name;
    this.title.textContent = stage.title;
    this.count.textContent = _("{number} of {count}", { number: this.stage + 1, count: stages.length });
    this.caption.textContent = stage.caption;
    const names = stages.map((one) => one.name);
    for (const element of this.formula.querySelectorAll("[data-part]")) {
      const part = /** @type {HTMLElement} */ (element);
      const parts = (part.dataset.part ?? "").split(" ");
      part.hidden = ["scaling", "biases", "mask", "heads", "projection"].includes(parts[0]) && !names.includes(parts[0]);
      part.classList.toggle("matrices-now", parts.includes(stage.name));
    }
    [...this.flow.children].forEach((section, i) => {
      /** @type {HTMLElement} */ (section).hidden = i > this.stage;
      section.classList.toggle("matrices-now", i === this.stage);
    });
    for (const line of /** @type {NodeListOf<HTMLElement>} */ (this.flow.querySelectorAll(".matrices-query")))
      line.classList.toggle("matrices-followed", Number(line.dataset.row) === row);
    this.buttons.back.ariaDisabled = String(this.stage === 0);
    this.buttons.next.ariaDisabled = String(this.stage === stages.length - 1);
    this.light();
  }

  // Stages -------------------------------------------------------------------------------------------------------

  /** @param {string} action */
  act(action) {
    if (action === "undo") return this.report("undo", true);
    if (action === "play") return this.isPlaying ? this.pause() : this.play();
    /** @type {Record<string, number>} */
    const stages = { first: 0, back: this.stage - 1, next: this.stage + 1, last: this.data.stages.length - 1 };
    this.go(stages[action]);
  }

  /** @param {number} stage */
  go(stage) {
    this.pause();
    this.turn(stage);
  }

  /** @param {number} stage */
  turn(stage) {
    this.stage = Math.max(0, Math.min(this.data.stages.length - 1, stage));
    this.cursor = null;
    this.problem = "";
    this.draw();
    this.intoView();
    clearTimeout(this.reporting);
    if (!this.isPlaying) this.reportStage();
  }

  reportStage() {
    this.reporting = setTimeout(() => {
      const { name } = this.data.stages[this.stage];
      if (name === (this.reported.at(-1) ?? this.data.stage)) return;
      this.reported.push(name);
      this.report("stage", name);
    }, REPORT);
  }

  play() {
    this.isPlaying = true;
    this.root.dataset.playing = "true";
    this.buttons.play.textContent = _("Pause");
    const last = () => this.stage === this.data.stages.length - 1;
    if (last()) this.turn(0);
    const on = () => {
      if (this.input) return void (this.timer = setTimeout(on, PACE)); // someone is writing a number
      this.turn(this.stage + 1);
      if (last()) this.pause();
      else this.timer = setTimeout(on, PACE);
    };
    this.timer = setTimeout(on, PACE);
  }

  pause() {
    if (!this.isPlaying) return;
    clearTimeout(this.timer);
    this.isPlaying = false;
    this.root.dataset.playing = "false";
    this.buttons.play.textContent = _("Play");
    this.reportStage();
  }

  /** @param {KeyboardEvent} event */
  stepKey(event) {
    /** @type {Record<string, string>} */
    const steps = { ArrowLeft: "back", ArrowRight: "next", PageUp: "back", PageDown: "next", Home: "first", End: "last" };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.act(steps[event.key]);
  }

  // The stage's matrices, where they are out of sight.
  intoView() {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.flow.children[this.stage]?.scrollIntoView({ block: "nearest", behavior: still ? "auto" : "smooth" });
  }

  // Cells --------------------------------------------------------------------------------------------------------

  /** @param {PointerEvent} event */
  click(event) {
    const target = /** @type {Element} */ (event.target);
    const name = /** @type {HTMLElement | null} */ (target.closest(".matrices-query th")?.parentElement);
    if (name) return this.report("query", Number(name.dataset.row));
    const cell = /** @type {HTMLElement | null} */ (target.closest("td[data-matrix]"));
    if (!cell || this.input) return;
    const isFirst = event.pointerType === "touch" && this.touched !== cell; // the first touch is for reading
    this.touched = cell;
    cell.focus();
    if (!isFirst) this.edit(cell);
  }

  /** @param {KeyboardEvent} event */
  cellKey(event) {
    const cell = /** @type {Element} */ (event.target).closest("td");
    if (!cell || this.input || !isPlain(event)) return;
    const [matrix, row, column] = this.place(cell);
    /** @type {typeof STEPS} */
    const moves = { ...STEPS, Home: [0, -column], End: [0, this.cells[matrix][row].length - 1 - column] };
    const move = moves[event.key];
    if (event.key === "Enter") this.edit(cell);
    else if (event.key === "Escape") cell.blur();
    else if (move) {
      const next = this.cell([matrix, row + move[0], column + move[1]]);
      if (next) {
        cell.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      }
    } else return;
    event.preventDefault();
  }

  /** @param {HTMLElement} cell */
  edit(cell) {
    this.pause();
    const [name, row, column] = this.place(cell);
    const before = cell.textContent;
    const input = (this.input = element("input"));
    input.type = "text";
    input.inputMode = "text"; // a keyboard of numbers has no minus on some phones
    const exact = this.#matrix(name)?.exact[row][column] ?? "";
    input.value = exact;
    input.setAttribute("aria-label", _("{name}, row {row}, column {column}", { name, row: row + 1, column: column + 1 }));
    cell.append(input); // over the number, so that nothing moves
    input.select();
    const leave = () => {
      this.input = null;
      cell.textContent = before;
    };
    const write = () => {
      const text = normalizedNumber(input.value);
      if (text === exact) return leave();
      if (text === null) {
        input.setAttribute("aria-invalid", "true");
        return this.refuse(_("Write a number, such as 0.5. An empty field restores the computed number."));
      }
      leave();
      this.report("edit", { matrix: name, row, column, text });
    };
    input.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Enter") write();
      else if (event.key === "Escape") leave();
      else return;
      event.preventDefault();
      if (this.input) return;
      cell.focus();
      this.point(cell);
    };
    input.onblur = () => void (this.input === input && leave());
  }
}

/** @param {string} text W_q or QK^T */
function symbol(text) {
  return setSymbol(element("b", "matrices-symbol"), text);
}

/**
 * @param {"row" | "col"} scope
 * @param {string} text
 * @param {boolean} isToken
 */
function nameCell(scope, text, isToken) {
  const made = header(scope, text, `attnviz-one-line ${isToken ? "matrices-token" : "matrices-number"}`);
  made.title = isToken ? text : "";
  return made;
}
