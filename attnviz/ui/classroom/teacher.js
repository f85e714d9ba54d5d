// The teacher's panel at the foot of each page: the code, who is here, the poll and its result, questions of the room.

import { _, plural } from "../../chart/words.js";
import { element } from "../elements.js";
import { openPage } from "../navigation/links.js";
import { button } from "./ballot.js";
import { Connection } from "./connection.js";
import { ResultView } from "./pictures.js";
import { overPage } from "./question_form.js";

/** @typedef {import("./types").Panel} Panel */
/** @typedef {import("./types").Room} Room */

const SEEN = "attnviz-class-code"; // the class whose code has filled the screen in this tab

export class TeacherPanel {
  /** @type {Panel | null} */
  panel = null;
  /** @type {Room | null} */
  room = null;
  /** @type {Connection | null} */
  connection = null;
  open = ""; // the list that is open: questions to ask, messages, or more
  folded = false;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.results = new ResultView();
    this.poll = element("section", "class-poll");
    this.list = element("section", "class-list");
    this.bar = element("div", "class-bar");
    this.status = element("span", "class-status");
    this.status.setAttribute("role", "status");
    root.append(this.poll, this.list, this.bar);
    this.keys = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && this.open && (event.stopPropagation(), this.#toggle(""));
    window.addEventListener("keydown", this.keys, true);
  }

  close() {
    this.connection?.close();
    this.results.close();
    window.removeEventListener("keydown", this.keys, true);
    delete document.documentElement.dataset.classHides;
  }

  /** @param {Panel} panel */
  show(panel) {
    this.panel = panel;
    this.results.html = panel.chart;
    if (this.connection?.address !== panel.address) {
      this.connection?.close();
      this.connection = new Connection(panel.address, "panel", (room) => this.#receive(room), (status) => this.#tell(status));
      if (sessionStorage.getItem(SEEN) !== panel.code) this.#showCode();
    }
    this.#draw();
  }

  /** @param {Room} room */
  #receive(room) {
    this.room = room;
    this.#draw();
  }

  /** @param {string} status */
  #tell(status) {
    this.root.dataset.status = status;
    if (status === "ended") location.reload(); // the page without a class
    this.status.textContent = status === "lost" ? _("Connection lost. Trying again …") : "";
  }

  /** @param {string} what @param {object} [content] */
  async #send(what, content) {
    try {
      await this.connection?.send(what, content);
      this.status.textContent = "";
    } catch (error) {
      this.status.textContent = /** @type {Error} */ (error).message;
    }
  }

  /** @param {string} name */
  #toggle(name) {
    this.open = this.open === name ? "" : name;
    this.#draw();
  }

  #draw() {
    const { panel, room } = this;
    if (!panel) return;
    const here = room ? plural("{count} is here", "{count} are here", room.participants) : "";
    const unread = room?.messages.filter((one) => !one.read).length ?? 0;
    const code = button(panel.code, "class-code", () => this.#showCode());
    code.title = _("Show the code to the room");
    this.bar.replaceChildren(
      code,
      element("span", "class-here", here),
      this.#menu("ask", _("Ask")),
      this.#menu("messages", unread ? _("Questions ({unread})", { unread }) : _("Questions")),
      this.#menu("more", _("More")),
      this.status,
    );
    this.#drawList();
    this.#drawPoll();
  }

  /** @param {string} name @param {string} text */
  #menu(name, text) {
    const made = button(text, "", () => this.#toggle(name));
    made.setAttribute("aria-expanded", String(this.open === name));
    return made;
  }

  // Lists ----------------------------------------------------------------------------------------------------------

  #drawList() {
    this.list.hidden = !this.open;
    const parts = { "": () => [], ask: () => this.#questions(), messages: () => this.#messages(), more: () => this.#more() };
    this.list.replaceChildren(.../** @type {any} */ (parts)[this.open]());
  }

  #questions() {
    const { questions = [] } = this.panel ?? {};
    const all = questions.map(({ label, question }) =>
      button(label, "class-item", async () => {
        this.#toggle("");
        await this.#send("ask", { question });
      }),
    );
    return [...all, button(_("A question of your own …"), "class-item", () => this.#write())];
  }

  #write() {
    const form = element("form", "class-own");
    const ask = field(_("Question"), _("What do you expect?"), 200);
    const options = [1, 2, 3, 4].map((number) => field(_("Answer {number}", { number }), number > 2 ? _("Answer {number}, or nothing", { number }) : _("Answer {number}", { number }), 80));
    const right = element("select");
    right.setAttribute("aria-label", _("The right answer"));
    right.append(new Option(_("No answer is right or wrong"), ""), ...[1, 2, 3, 4].map((number) => new Option(_("Answer {number} is right", { number }), String(number - 1))));
    const problem = element("p", "class-error");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const columns = options.map(({ value }) => value.trim());
      const chosen = right.value === "" ? "" : columns[Number(right.value)];
      const texts = columns.filter(Boolean);
      if (!ask.value.trim() || texts.length < 2) return void (problem.textContent = _("Write a question and two answers or more."));
      if (right.value !== "" && !chosen) return void (problem.textContent = _("The right answer is empty."));
      const truth = chosen ? texts.map((text) => (text === chosen ? 1 : 0)) : [];
      this.#toggle("");
      await this.#send("ask", { question: { ask: ask.value.trim(), rows: [""], columns: texts, picks: 1, truth } });
    });
    const send = element("button", "class-main", _("Ask"));
    form.append(ask, ...options, right, problem, send);
    this.list.replaceChildren(form);
    ask.focus();
  }

  #messages() {
    const messages = this.room?.messages ?? [];
    if (!messages.length) return [element("p", "class-note", _("Nobody has asked anything yet."))];
    return messages.map(({ id, text, link, name, read }) => {
      const item = element("div", read ? "class-item class-read" : "class-item");
      const open = button(_("Open"), "class-main", () => {
        this.#send("read", { id });
        this.#toggle("");
        openPage(window, `${link}${location.search.includes("present=1") ? `${link.includes("?") ? "&" : "?"}present=1` : ""}`);
      });
      item.append(element("p", "", text || _("Look at this.")), element("span", "class-note", name), open);
      return item;
    });
  }

  #more() {
    const address = this.panel?.address ?? "";
    const showsNames = this.room?.showsNames ?? false;
    const names = button(showsNames ? _("Hide the nicknames") : _("Show the nicknames"), "class-item", () => this.#send("names", { show: !showsNames }));
    const end = button(_("End the class and delete it …"), "class-item", () => this.#end());
    return [names, file(_("Answers as CSV"), `${address}/answers.csv`), file(_("Class as a lesson file"), `${address}/lesson.toml`), end];
  }

  #end() {
    const question = element("p", "", _("Everything of this class is deleted: answers, nicknames, questions. Save the answers first if you want to keep them."));
    this.list.replaceChildren(question, button(_("End and delete"), "class-main", () => this.#send("end")), button(_("Cancel"), "", () => this.#toggle("")));
  }

  // The poll -------------------------------------------------------------------------------------------------------

  #drawPoll() {
    const { poll, result, participants = 0, answers = 0 } = this.room ?? {};
    this.poll.hidden = !poll;
    const hides = poll?.question.hides && poll.phase !== "revealed";
    if (hides) document.documentElement.dataset.classHides = "true";
    else delete document.documentElement.dataset.classHides;
    this.root.dataset.phase = poll?.phase ?? "";
    if (!poll) return;
    const { phase, round, question } = poll;
    const head = element("div", "class-head");
    const fold = button(this.folded ? _("Unfold") : _("Fold"), "class-fold", () => {
      this.folded = !this.folded;
      this.#draw();
    });
    head.append(element("h2", "", question.ask), fold);
    const count = element("p", "class-count");
    const told = round > 1 ? _("{answers} of {participants} have answered, second vote") : _("{answers} of {participants} have answered");
    count.append(
      ...told.split(/(\{\w+\})/).map((part) => (part === "{answers}" ? element("strong", "", String(answers)) : part.replace("{participants}", String(participants)))),
    );
    const meter = element("progress");
    Object.assign(meter, { max: Math.max(participants, answers, 1), value: answers });
    const bar = element("div", "class-bar");
    /** @param {string} text @param {string} what @param {string} [look] */
    const act = (text, what, look = "") => bar.append(button(text, look, () => this.#send(what)));
    if (phase === "open") act(_("Show what the room thinks"), "close", "class-main");
    if (phase !== "revealed") act(_("Reveal"), "reveal", phase === "closed" ? "class-main" : "");
    if (phase === "closed" && round === 1) act(_("Vote again"), "vote-again");
    act(_("Done"), "dismiss", phase === "revealed" ? "class-main" : "");
    this.root.toggleAttribute("data-folded", this.folded);
    const vote = element("div", "class-vote");
    vote.append(count, meter, bar);
    // Who has no phone reads the options here.
    const isList = phase === "open" && !question.numeric && question.rows.length === 1;
    const options = element("p", "class-choices", isList ? question.columns.join(" · ") : "");
    this.poll.replaceChildren(head, ...(isList ? [options] : []), this.results.root, vote);
    this.results.show(result ?? null);
  }

  // The code -------------------------------------------------------------------------------------------------------

  #showCode() {
    const { panel } = this;
    if (!panel) return;
    sessionStorage.setItem(SEEN, panel.code);
    const dialog = element("dialog", "class-screen");
    const picture = element("div", "class-qr");
    picture.innerHTML = panel.qr; // ours
    const link = element("p", "class-join", panel.join.replace(/^https?:\/\//, ""));
    const close = button(_("Begin"), "class-main", () => dialog.close());
    const text = element("div");
    text.append(element("p", "class-note", _("Join the class: scan, or open")), link, element("p", "class-code", panel.code), close);
    if (panel.local) text.append(element("p", "class-error", _("Only this computer reaches this address. To let phones in, start attnviz with: attnviz --class.")));
    dialog.append(picture, text);
    dialog.addEventListener("close", () => dialog.remove());
    overPage(dialog);
    dialog.showModal();
  }
}

/** @param {string} label @param {string} placeholder @param {number} most */
function field(label, placeholder, most) {
  const made = element("input");
  Object.assign(made, { placeholder, maxLength: most, autocomplete: "off" });
  made.setAttribute("aria-label", label);
  return made;
}

/** @param {string} text @param {string} address */
function file(text, address) {
  const made = element("a", "class-item", text);
  made.href = address;
  made.download = "";
  return made;
}
