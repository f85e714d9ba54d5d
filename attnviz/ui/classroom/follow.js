// The page of a follower: the teacher's pictures as they change, the question of a poll, and the ways out and back.

import { element } from "../../chart/elements.js";
import { _ } from "../../chart/words.js";
import { Ballot } from "./ballot.js";
import { Connection } from "./connection.js";
import { askForText } from "./dialogs.js";
import { remember } from "./guest.js";
import { PageView, ResultView } from "./pictures.js";
import { askTeacher } from "./question_form.js";

/** @typedef {import("./types").State} State */

const STATUS = { live: _("You follow the teacher."), lost: _("Connection lost. Trying again …"), ended: _("This class has ended.") };

class Follower {
  /** @type {State | null} */
  state = null;
  picture = "";
  ballotFor = "";
  drawing = Promise.resolve();

  /**
   * @param {HTMLElement} root
   * @param {{ address: string, app: string, code: string, components: import("./pictures.js").Components }} page
   */
  constructor(root, page) {
    this.root = root;
    this.page = page;
    /** @param {string} name */
    const part = (name) => /** @type {HTMLElement} */ (root.querySelector(`.class-${name}`));
    this.status = part("live");
    this.question = part("question");
    this.results = new ResultView();
    this.results.html = page.components.attnviz_chart.html;
    this.asked = element("h2");
    part("results").append(this.asked, this.results.root);
    this.outcome = part("results");
    this.waiting = part("waiting");
    this.view = new PageView(part("contents"), page.components);
    this.explore = /** @type {HTMLAnchorElement} */ (part("explore"));
    this.mine = /** @type {HTMLAnchorElement} */ (part("mine"));
    this.names = part("names");
    this.connection = new Connection(page.address, "state", (state) => this.show(state), (status) => this.tell(status));
    part("ask").addEventListener("click", () => askTeacher(this.connection, this.state?.link ?? "", this.view.root));
    part("name").addEventListener("click", () => this.#name());
    const kept = remember(page.code, page.address);
    this.mine.hidden = !kept;
    if (kept) this.mine.href = kept;
  }

  /** @param {"live" | "lost" | "ended"} status */
  tell(status) {
    this.status.dataset.status = status;
    this.status.textContent = STATUS[status];
    this.root.dataset.status = status;
  }

  /** @param {State} state */
  show(state) {
    this.state = state;
    document.title = `${state.title || _("Class")} · attnviz`;
    this.explore.href = `${this.page.app}${state.link || "explore"}`;
    this.names.textContent = state.names.length ? _("Here: {names}", { names: state.names.join(", ") }) : "";
    this.#showQuestion(state);
    this.outcome.hidden = !state.result;
    this.drawing = this.drawing.then(() => this.#draw(state)).catch(() => this.connection.readAgain());
  }

  /** @param {State} state */
  async #draw(state) {
    this.asked.textContent = state.poll?.question.ask ?? "";
    this.results.show(state.result && { ...state.result, sentences: [...state.result.sentences, ...(state.distance ? [state.distance] : [])] });
    const hides = state.poll?.question.hides && state.poll.phase !== "revealed";
    this.view.root.hidden = Boolean(hides);
    this.waiting.hidden = Boolean(hides || state.picture || state.poll);
    if (!hides && state.picture && state.picture !== this.picture) {
      const response = await fetch(state.picture);
      if (response.status === 404) return; // there is a newer one
      await this.view.show(await response.json());
      this.picture = state.picture;
    }
    this.root.dataset.version = state.version;
  }

  /** @param {State} state */
  #showQuestion({ poll, mine }) {
    const key = poll && poll.phase === "open" ? `${poll.id} ${poll.round}` : "";
    if (key === this.ballotFor) return;
    this.ballotFor = key;
    this.question.hidden = !key;
    if (!poll || !key) return this.question.replaceChildren();
    const send = (/** @type {import("./types").Value | number[]} */ value) => this.connection.send("answer", { poll: poll.id, round: poll.round, value });
    const ballot = new Ballot(poll.question, mine, send);
    this.question.replaceChildren(...(poll.round > 1 ? [element("p", "class-note", _("Second vote"))] : []), ballot.root);
    window.scrollTo(0, 0);
  }

  #name() {
    const field = element("input");
    Object.assign(field, { maxLength: 40, value: this.state?.nickname ?? "", autocomplete: "off" });
    const note = _("Nobody but the teacher sees it, unless the teacher shows it to all.");
    const texts = { title: _("A nickname, if you want one"), note, label: _("Nickname"), action: _("Save") };
    askForText(texts, field, async (text) => {
      await this.connection.send("nickname", { text });
      if (this.state) this.state.nickname = text;
    });
  }
}

const root = /** @type {HTMLElement} */ (document.querySelector(".class-follow"));
if (root) new Follower(root, JSON.parse(root.dataset.page ?? ""));
