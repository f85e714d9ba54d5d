// The teacher's panel at the foot of each page: the code, who is here, the poll and its result, questions of the room.

import { button, element } from "../../chart/elements.js";
import { _, plural } from "../../chart/words.js";
import { openPage } from "../navigation/links.js";
import { Connection } from "./connection.js";
import { openDialog } from "./dialogs.js";
import { ResultView } from "./pictures.js";

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
  open = ""; // the list that is open: questions to ask, a question of one's own, messages, more, or the end
  folded = false;
  listed = ""; // what the list shows
  polled = ""; // what the poll shows

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.results = new ResultView(0.42);
    this.poll = element("section", "class-poll attnviz-stack");
    this.count = element("p", "class-count");
    this.meter = element("progress");
    this.list = element("section", "class-list attnviz-stack");
    this.problem = element("p", "class-error");
    this.problem.setAttribute("role", "alert");
    this.names = element("p", "class-names");
    this.code = button("", "class-code", () => this.#showCode());
    this.code.title = _("Show the code to the room");
    this.here = element("span", "class-here");
    this.status = element("span", "class-status");
    this.status.setAttribute("role", "status");
    this.menus = new Map([["ask", _("Ask")], ["messages", _("Questions")], ["more", _("More")]].map(([name, text]) => [name, button(text, "", () => this.#toggle(name))]));
    const bar = element("div", "class-bar attnviz-row", this.code, this.here, ...this.menus.values(), this.status);
    root.append(this.poll, this.list, this.problem, this.names, bar);
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
      this.connection = new Connection(panel.address, "panel", (room) => this.#draw(room), (status) => this.#tell(status));
      if (sessionStorage.getItem(SEEN) !== panel.code) this.#showCode();
    }
    this.#draw();
  }

  /** @param {string} status */
  #tell(status) {
    this.root.dataset.status = status;
    if (status === "ended") location.reload(); // the page without a class
    this.status.textContent = status === "lost" ? _("Connection lost. Trying again …") : "";
  }

  /** Sends what the teacher does, and closes its list once it is done. @param {string} what @param {object} [content] */
  async #send(what, content) {
    const { open } = this; // another list may be opened before the answer comes
    try {
      await this.connection?.send(what, content);
      this.problem.textContent = "";
      if (this.open === open) this.#toggle("");
    } catch (error) {
      this.problem.textContent = /** @type {Error} */ (error).message;
    }
  }

  /** @param {string} name */
  #toggle(name) {
    this.open = this.open === name ? "" : name; // no name closes it
    this.#draw();
  }

  /** Shows what is new. Elements that stay are not made anew: a press or a text of the teacher may be under way. */
  #draw(room = this.room) {
    this.room = room;
    const { panel } = this;
    if (!panel) return;
    const unread = room?.messages.filter((one) => !one.read).length ?? 0;
    this.code.textContent = panel.code;
    this.here.textContent = room ? plural("{count} has joined", "{count} have joined", room.participants) : "";
    this.names.textContent = room?.names.join(", ") ?? "";
    this.names.hidden = !this.names.textContent;
    for (const [name, menu] of this.menus) menu.setAttribute("aria-expanded", String(this.open === name));
    /** @type {HTMLElement} */ (this.menus.get("messages")).textContent = unread ? _("Questions ({unread})", { unread }) : _("Questions");
    this.#drawList();
    this.#drawPoll();
  }

  // Lists ----------------------------------------------------------------------------------------------------------

  #drawList() {
    const { panel, room, open } = this;
    const shown = { ask: panel?.questions, messages: room?.messages, more: room?.showsNames };
    const listed = open && JSON.stringify([open, /** @type {any} */ (shown)[open]]);
    if (listed === this.listed) return;
    this.listed = listed;
    this.list.hidden = !open;
    const parts = {
      "": () => [],
      ask: () => this.#questions(),
      own: () => [this.#write()],
      messages: () => this.#messages(),
      more: () => this.#more(),
      end: () => this.#end(),
    };
    this.list.replaceChildren(.../** @type {any} */ (parts)[open]());
    this.list.querySelector("input")?.focus();
  }

  #questions() {
    const { questions = [] } = this.panel ?? {};
    const all = questions.map(({ label, question }) => button(label, "class-item", () => this.#send("ask", { question })));
    return [...all, button(_("A question of your own …"), "class-item", () => this.#toggle("own"))];
  }

  #write() {
    const ask = field(_("Question"), _("What do you expect?"), 200);
    const options = [1, 2, 3, 4].map((number) => field(_("Answer {number}", { number }), number > 2 ? _("Answer {number}, or nothing", { number }) : _("Answer {number}", { number }), 80));
    const answers = [1, 2, 3, 4].map((number) => new Option(_("Answer {number} is right", { number }), String(number - 1)));
    const right = element("select", "", new Option(_("No answer is right or wrong"), ""), ...answers);
    right.setAttribute("aria-label", _("The right answer"));
    const problem = element("p", "class-error");
    const form = element("form", "class-own attnviz-stack", ask, ...options, right, problem, element("button", "class-main", _("Ask")));
    form.onsubmit = async (event) => {
      event.preventDefault();
      const columns = options.map(({ value }) => value.trim());
      const chosen = right.value === "" ? "" : columns[Number(right.value)];
      const texts = columns.filter(Boolean);
      if (!ask.value.trim() || texts.length < 2) return void (problem.textContent = _("Write a question and two answers or more."));
      if (right.value !== "" && !chosen) return void (problem.textContent = _("The right answer is empty."));
      const truth = chosen ? texts.map((text) => (text === chosen ? 1 : 0)) : [];
      await this.#send("ask", { question: { ask: ask.value.trim(), rows: [""], columns: texts, picks: 1, truth } });
    };
    return form;
  }

  #messages() {
    const messages = this.room?.messages ?? [];
    if (!messages.length) return [element("p", "class-note", _("Nobody has asked anything yet."))];
    return messages.map(({ id, text, link, name, read }) => {
      const open = button(_("Open"), "class-main", () => {
        this.#send("read", { id });
        openPage(window, `${link}${location.search.includes("present=1") ? `${link.includes("?") ? "&" : "?"}present=1` : ""}`);
      });
      const source = element("span", "class-note", [name, link.split("?")[0]].filter(Boolean).join(" · "));
      return element("div", `class-item class-bar attnviz-row${read ? " class-read" : ""}`, element("p", "", text), source, open);
    });
  }

  #more() {
    const address = this.panel?.address ?? "";
    const showsNames = this.room?.showsNames ?? false;
    const names = button(showsNames ? _("Hide the nicknames") : _("Show the nicknames"), "class-item", () => this.#send("names", { show: !showsNames }));
    const clear = button(_("Remove those who never answered"), "class-item", () => this.#send("clear"));
    const end = button(_("End the class and delete it …"), "class-item", () => this.#toggle("end"));
    return [names, clear, file(_("Answers as CSV"), `${address}/answers.csv`), file(_("Class as a lesson file"), `${address}/lesson.toml`), end];
  }

  #end() {
    const question = element("p", "", _("Everything of this class is deleted: answers, nicknames, questions. Save the answers first if you want to keep them."));
    return [question, button(_("End and delete"), "class-main", () => this.#send("end")), button(_("Cancel"), "", () => this.#toggle(""))];
  }

  // The poll -------------------------------------------------------------------------------------------------------

  #drawPoll() {
    const { poll, result, participants = 0, answers = 0 } = this.room ?? {};
    const hides = poll?.question.hides && poll.phase !== "revealed" && !this.folded;
    if (hides) document.documentElement.dataset.classHides = "true";
    else delete document.documentElement.dataset.classHides;
    const sentence = (poll?.round ?? 1) > 1 ? _("{answers} of {participants} have answered, second vote") : _("{answers} of {participants} have answered");
    this.count.replaceChildren(
      ...sentence.split(/(\{\w+\})/).map((part) => (part === "{answers}" ? element("strong", "", String(answers)) : part.replace("{participants}", String(participants)))),
    );
    Object.assign(this.meter, { max: Math.max(participants, answers, 1), value: answers });
    const polled = JSON.stringify([poll?.id, poll?.round, poll?.phase, this.folded]);
    if (polled === this.polled) return;
    this.polled = polled;
    this.poll.hidden = !poll;
    this.root.dataset.phase = poll?.phase ?? "";
    this.root.toggleAttribute("data-folded", this.folded);
    if (!poll) return;
    const { phase, round, question } = poll;
    const fold = button(this.folded ? _("Unfold") : _("Fold"), "class-fold", () => {
      this.folded = !this.folded;
      this.#draw();
    });
    const head = element("div", "class-head", element("h2", "", question.ask), fold);
    const bar = element("div", "class-bar attnviz-row");
    /** @param {string} text @param {string} what @param {string} [look] */
    const act = (text, what, look = "") => bar.append(button(text, look, () => this.#send(what)));
    if (phase === "open") act(_("Show what the room thinks"), "close", "class-main");
    if (phase !== "revealed") act(_("Reveal"), "reveal", phase === "closed" ? "class-main" : "");
    if (phase === "closed" && round === 1) act(_("Vote again"), "vote-again");
    act(_("Done"), "dismiss", phase === "revealed" ? "class-main" : "");
    const vote = element("div", "class-bar attnviz-row", this.count, this.meter, bar);
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
    const picture = element("div", "class-qr");
    picture.innerHTML = panel.qr; // ours
    const link = element("p", "class-join", panel.join.replace(/^https?:\/\//, ""));
    const close = button(_("Begin"), "class-main", () => dialog.close());
    const cancel = this.room?.participants ? "" : button(_("Cancel"), "", () => {
      dialog.close();
      this.#send("end");
    });
    const [note, code] = [element("p", "class-note", _("Join the class: scan, or open")), element("p", "class-code", panel.code)];
    const text = element("div", "", note, link, code, close, cancel, panel.warning && element("p", "class-error", panel.warning));
    const dialog = openDialog("class-screen", picture, text);
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
