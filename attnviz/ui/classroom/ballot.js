// The question of a poll, and what a person answers it with: tokens to tap, points to spread, a grid, texts, a number.

import { button, element, header } from "../../chart/elements.js";
import { _ } from "../../chart/words.js";

/** @typedef {import("./types").Question} Question */
/** @typedef {import("./types").Value} Value */

/**
 * Returns the options after a tap: one more point, another option, or one option more or less; the same object if no
 * point or option is left.
 * @param {Question} question
 * @param {Record<number, number>} chosen the points of each chosen option
 * @param {number} option
 * @returns {Record<number, number>}
 */
export function tapped({ picks, points }, chosen, option) {
  if (points) return spent(chosen) < points ? { ...chosen, [option]: (chosen[option] ?? 0) + 1 } : chosen;
  if (picks === 1) return { [option]: 1 };
  const { [option]: taken, ...others } = chosen;
  if (taken) return others;
  return spent(chosen) < picks ? { ...chosen, [option]: 1 } : chosen;
}

/** @param {Record<number, number>} chosen */
export function spent(chosen) {
  return Object.values(chosen).reduce((sum, count) => sum + count, 0);
}

export class Ballot {
  /** @type {Record<number, number>} */
  chosen = {};
  message = "";
  sending = false;
  /** @type {Value} */
  latest = {}; // what is to be sent

  /**
   * @param {Question} question
   * @param {Value | null} mine what was answered before
   * @param {(value: Value | number[]) => Promise<void>} send
   */
  constructor(question, mine, send) {
    this.question = question;
    this.send = send;
    this.status = element("p", "class-status");
    this.status.setAttribute("role", "status");
    if (mine && !question.numeric) this.chosen = { .../** @type {any} */ (mine) };
    if (mine !== null) this.message = SENT;
    /** @type {Map<number, HTMLElement>} */
    this.options = new Map();
    const help = this.#help();
    const answers = question.numeric ? this.#number(mine) : question.rows.length > 1 ? this.#grid() : this.#list();
    let bar;
    if (!question.numeric && (question.points || question.picks > 1)) {
      this.again = button(_("Begin again"), "", () => this.#choose({}));
      this.submit = button(_("Send"), "class-main", () => this.#submit({ ...this.chosen }));
      bar = element("div", "class-bar attnviz-row", this.submit, this.again);
    }
    const ask = element("h2", "", question.ask);
    this.root = element("section", "class-ballot", ask, help && element("p", "class-note", help), answers, bar, this.status);
    this.#show();
  }

  #help() {
    const { picks, points, numeric } = this.question;
    if (numeric) return "";
    if (points) return _("You have {points} points. A tap gives one.", { points });
    return picks > 1 ? _("Tap up to {picks}.", { picks }) : "";
  }

  #list() {
    const { columns, points } = this.question;
    const list = element("div", "class-options attnviz-row", ...columns.map((text, option) => this.#option(text, option)));
    list.classList.toggle("class-texts", columns.some((text) => text.length > 24));
    list.classList.toggle("class-points", points > 0);
    return list;
  }

  #grid() {
    const { rows, columns } = this.question;
    const word = commonWord(columns);
    const names = columns.map((text) => header("col", text.slice(word.length), "attnviz-one-line"));
    const lines = rows.map((name, row) => {
      const cells = columns.map((text, column) => {
        const made = this.#option("", row * columns.length + column);
        made.setAttribute("aria-label", `${name}, ${text}`);
        return element("td", "", made);
      });
      return element("tr", "", header("row", name, "attnviz-one-line"), ...cells);
    });
    return element("div", "class-grid", element("table", "", element("tr", "", element("td", "", word), ...names), ...lines));
  }

  /** @param {string} text @param {number} option */
  #option(text, option) {
    const made = button(text, "class-option", () => this.#tap(option));
    this.options.set(option, made);
    return made;
  }

  /** @param {Value | null} mine */
  #number(mine) {
    const field = element("input");
    Object.assign(field, { type: "text", inputMode: "decimal", autocomplete: "off", value: mine === null ? "" : String(mine) });
    field.setAttribute("aria-label", _("Your number"));
    this.submit = element("button", "class-main", _("Send"));
    const form = element("form", "class-bar attnviz-row", field, this.submit);
    form.onsubmit = (event) => {
      event.preventDefault();
      const value = Number(field.value.trim().replace(",", "."));
      if (field.value.trim() === "" || !Number.isFinite(value)) this.#say(_("Write a number, such as 0.25."), true);
      else this.#submit(value);
    };
    return form;
  }

  /** @param {number} option */
  #tap(option) {
    const { picks, points } = this.question;
    const next = tapped(this.question, this.chosen, option);
    if (next === this.chosen) {
      this.#say(points ? _("All points are given. “Begin again” takes them back.") : _("At most {picks}: tap one of them to take it back.", { picks }), true);
      return;
    }
    this.#choose(next);
    if (!points && picks === 1) this.#submit(next);
  }

  /** @param {Record<number, number>} chosen */
  #choose(chosen) {
    this.chosen = chosen;
    this.message = "";
    this.#show();
  }

  /** @param {Value} value */
  async #submit(value) {
    this.latest = value;
    this.#say(_("Sending …"));
    if (this.sending) return; // one after the other, so that the last one counts
    this.sending = true;
    try {
      let sent;
      do {
        sent = this.latest;
        await this.send(this.question.picks ? Object.keys(sent).map(Number) : sent);
      } while (sent !== this.latest);
      this.#say(SENT);
    } catch (error) {
      this.#say(/** @type {Error} */ (error).message, true);
    } finally {
      this.sending = false;
    }
  }

  /** @param {string} text @param {boolean} [isError] */
  #say(text, isError = false) {
    this.message = text;
    this.status.classList.toggle("class-error", isError);
    this.status.textContent = text;
  }

  #show() {
    const { points } = this.question;
    for (const [option, made] of this.options) {
      const count = this.chosen[option] ?? 0;
      made.setAttribute("aria-pressed", String(count > 0));
      made.dataset.points = points && count ? String(count) : "";
    }
    const given = spent(this.chosen);
    if (this.submit && !this.question.numeric) this.submit.disabled = !given;
    if (this.again) this.again.hidden = !given;
    this.status.classList.remove("class-error");
    this.status.textContent = this.message || (points && given ? _("{left} of {points} points are left.", { left: points - given, points }) : "");
  }
}

const SENT = _("Sent. You can change it until the vote ends.");

/** The first word of all names, such as “Head ”, which a narrow table says once. @param {string[]} names */
export function commonWord(names) {
  const word = names[0].slice(0, names[0].indexOf(" ") + 1);
  return names.every((name) => name.startsWith(word)) ? word : "";
}
