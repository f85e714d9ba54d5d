// A text while a language model writes it. A written word shows which words were looked at when it was written, and which
// words were as likely; a word of the prompt shows when it was looked at.

import { isDark, themeOf } from "../../chart/colors.js";
import { cellAddress } from "../../chart/cell_links.js";
import { button, element } from "../../chart/elements.js";
import { isPlain, STEPS } from "../../chart/keys.js";
import { number } from "../../chart/number.js";
import { _ } from "../../chart/words.js";

/** @typedef {import("./types").Written} Written */
/** @typedef {import("./types").Step} Step */

const NAMED = 3; // words in a sentence
const LEAST = 0.02; // weight of a word that is lit
const LINE = 40; // pixels, about one line of the text
const FEW = 3; // likeliest tokens that are not folded

export class WrittenText {
  /** @type {Written | null} */
  data = null;
  /** @type {Step[]} of the written tokens */
  steps = [];
  /** @type {Float32Array[]} the weights with which each of them was written */
  rows = [];
  /** @type {HTMLElement[]} */
  words = [];
  /** @type {number | null} the token under the pointer, or where the arrow keys are */
  pointed = null;
  /** @type {number | null} the token that was clicked */
  chosen = null;
  /** @type {import("../../chart/types").Growth[]} what the map of the page does not have yet */
  growths = [];
  /** @type {import("../../chart/types").Report} */
  report = () => {};
  /**
   * Makes the map of the page, and a picture beside it, show the row of a word while it is read or the latest; null:
   * their own.
   * @type {(row: number | null) => void}
   */
  read = (row) => {
    if (document.querySelector(".st-key-picture")) mapOfPage()?.dispatchEvent(new CustomEvent("attnviz-read", { detail: row }));
  };

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.isFollowed = root.closest(".class-page") !== null; // the controls are the teacher's
    const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (root.querySelector(name));
    this.text = part(".write-text");
    this.sentence = part(".write-sentence");
    this.note = part(".write-note");
    this.alternatives = part(".write-alternatives");
    this.more = part(".write-more");
    this.others = part(".write-more .write-alternatives");
    part(".write-more summary").textContent = _("Other tokens");
    this.status = part("[role=status]");
    this.form = this.#form(".write-word", (text) => {
      const position = this.current - (this.data?.prompt ?? 0);
      this.report("word", { position, text, stamp: this.data?.stamp });
    });
    // What is pressed while the model writes stays the same element: another one would not get the click.
    const length = (/** @type {boolean} */ stop) => this.report("length", { stop, stamp: this.data?.stamp });
    this.stop = button(_("Stop"), "write-stop", () => length(true));
    this.on = button(_("Go on"), "write-on", () => length(false));
    this.ending = element("span", "write-ending");
    part(".write-tools").append(this.stop, this.on, this.ending);
    this.reply = this.#form(".write-reply", (text) => this.report("reply", { text, stamp: this.data?.stamp }));
    this.again = /** @type {HTMLButtonElement} */ (part(".write-reply [type=button]"));
    this.again.onclick = () => this.report("restart", { stamp: this.data?.stamp });
    const pointedToken = (/** @type {Event} */ { target }) => {
      const word = target instanceof Element ? target.closest(".write-token") : null;
      return word ? this.words.indexOf(/** @type {HTMLElement} */ (word)) : null;
    };
    this.text.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.#point(pointedToken(event)));
    this.text.addEventListener("pointerleave", () => this.#point(null));
    this.text.addEventListener("blur", () => this.#point(null));
    this.text.addEventListener("click", (event) => this.#choose(pointedToken(event)));
    this.text.addEventListener("keydown", (event) => this.#key(event));
  }

  close() {}

  /**
   * Prepares a form with a text field.
   * @param {string} name its selector
   * @param {(text: string) => void} send is called with each text that is not empty
   */
  #form(name, send) {
    const form = /** @type {HTMLFormElement} */ (this.root.querySelector(name));
    const field = /** @type {HTMLInputElement} */ (form.querySelector("input"));
    field.placeholder = field.title;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim()) send(field.value);
      field.value = "";
    });
    return form;
  }

  /** @param {Written} data */
  show(data) {
    const isNext = this.data?.stamp === data.stamp;
    if (!isNext) [this.steps, this.rows] = [[], []];
    if (this.data?.stamp !== data.stamp) {
      this.pointed = null;
      const { chosen } = this; // a word of the prompt stays chosen when another head is
      if (chosen === null || chosen >= data.prompt || this.data?.tokens[chosen] !== data.tokens[chosen]) this.chosen = null;
    }
    if (data.pinned !== (this.data?.pinned ?? null) || this.chosen === null) this.chosen = tokenOf(data);
    const { scrollTop, clientHeight, scrollHeight } = this.text;
    const follows = !isNext || scrollTop + clientHeight > scrollHeight - LINE;
    this.data = data;
    data.steps.forEach((step, i) => (this.steps[data.start + i] = step));
    data.rows.forEach((row, i) => (this.rows[data.start + i] = row));
    this.steps.length = data.start + data.steps.length;
    this.rows.length = data.start + data.rows.length;
    this.root.dataset.theme = themeOf(this.root);
    this.root.classList.toggle("write-running", data.running);
    this.#spell(data);
    this.#draw();
    if (follows) this.#reveal();
    this.#list(data);
    if (data.running) this.#grow(data);
    this.root.dataset.choices = data.choices;
    this.root.dataset.tokens = String(data.tokens.length);
    this.root.dataset.ready = String(!data.running);
  }

  /**
   * Draws the button that stops or goes on, and the field for a reply.
   * @param {Written} data
   */
  #list({ running, longer, chat, earlier }) {
    this.stop.hidden = !running;
    this.on.hidden = !longer;
    this.reply.hidden = !chat;
    this.again.hidden = !earlier;
    for (const each of this.reply.querySelectorAll("button")) each.disabled = running; // a reply can be typed meanwhile
  }

  /**
   * Adds the new rows to the map of the page, once that is drawn.
   * @param {Written} data
   */
  #grow({ start, growth, rows }) {
    if (!start) this.growths = [];
    this.growths.push({ ...growth, rows });
    const chart = mapOfPage();
    if (!chart) return;
    for (const detail of this.growths.splice(0)) chart.dispatchEvent(new CustomEvent("attnviz-grow", { detail }));
  }

  /**
   * Writes the tokens; those that are there stay.
   * @param {Written} data
   */
  #spell({ tokens, special, roles, prompt, ending, hidden, image, turns }) {
    const isSpecial = new Set(special), isHidden = new Set([...hidden, ...image]);
    const name = (/** @type {number} */ i) => `${i >= prompt} ${roles[i] ?? ""} ${isHidden.has(i)} ${turns[i] ?? ""} ${tokens[i]}`;
    let same = 0;
    while (same < Math.min(tokens.length, this.words.length) && this.words[same].dataset.token === name(same)) same++;
    for (const word of this.words.splice(same)) word.remove();
    for (let i = same; i < tokens.length; i++) {
      // A word is colored without the space before it, which may be at the end of the line above.
      const space = tokens[i].trim() ? (tokens[i].match(/^\s*/)?.[0] ?? "") : "";
      const word = element("span", "write-token", space, element("span", "write-letters", tokens[i].slice(space.length)));
      word.hidden = isHidden.has(i);
      if (turns[i]) word.prepend(element("b", "write-role", turns[i]));
      word.dataset.token = name(i);
      word.classList.toggle("write-written", i >= prompt);
      word.classList.toggle("write-special", isSpecial.has(i) || (roles.length > 0 && i < prompt && !roles[i]));
      this.words.push(word);
      this.text.append(word);
    }
    this.ending.textContent = ending;
  }

  /** The token that is shown: that under the pointer, the chosen one, or the last. */
  get current() {
    return this.pointed ?? this.chosen ?? this.#next(this.words.length, -1);
  }

  /**
   * The next token that is shown, or the same one if there is none.
   * @param {number} token
   * @param {number} step 1 or -1
   */
  #next(token, step) {
    let next = token + step;
    while (this.words[next]?.hidden) next += step;
    return next in this.words ? next : token;
  }

  /** @param {number | null} token */
  #point(token) {
    if (token === this.pointed || this.form.contains(document.activeElement)) return; // a word is typed for this token
    this.pointed = token;
    this.#draw();
  }

  /** @param {number | null} token */
  #choose(token) {
    const { data } = this;
    if (token === null || !data) return;
    this.chosen = token === this.chosen ? null : token;
    this.#draw();
    if (token >= data.prompt) this.report("pin", { row: this.chosen === null ? null : token - 1 - data.queryOffset, stamp: data.stamp });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (!isPlain(event)) return;
    const [down, along] = STEPS[event.key] ?? [0, 0];
    if (event.key === "Enter" || event.key === " ") this.#choose(this.current);
    else if (event.key === "Escape") this.#choose(this.chosen);
    else if (down || along) {
      this.#point(this.#next(this.current, Math.sign(down + along)));
      this.#reveal();
    } else return;
    event.preventDefault();
    this.status.textContent = this.sentence.firstChild?.textContent ?? "";
  }

  /** Scrolls a long text, and not the page, to the current token. */
  #reveal() {
    const { offsetTop = 0, offsetHeight = 0 } = this.words[this.current] ?? {};
    const { scrollTop, scrollHeight, clientHeight } = this.text;
    if (this.#next(this.current, 1) === this.current) this.text.scrollTop = scrollHeight;
    else if (offsetTop < scrollTop || offsetTop + offsetHeight > scrollTop + clientHeight) {
      this.text.scrollTop = offsetTop + 2 * LINE - clientHeight;
    }
  }

  /** Lights up the words of the current token's row, or of its column, and shows its alternatives. */
  #draw() {
    const { data, current } = this;
    if (!data) return;
    const written = current - data.prompt;
    const weights = written >= 0 ? this.#row(written) : this.#column(current);
    const scale = data.colors[this.root.dataset.theme === "dark" ? "dark" : "light"];
    this.words.forEach((word, i) => {
      const weight = weights[i];
      const isLit = i !== current && weight >= LEAST;
      // Of a square root, so that small weights are seen beside that of the first token, which many heads look at.
      const color = scale[Math.round(Math.sqrt(Math.min(1, weight)) * (scale.length - 1))];
      const { style } = /** @type {HTMLElement} */ (word.lastElementChild);
      style.backgroundColor = isLit ? color : "";
      style.color = isLit ? (isDark(color) ? "#ffffff" : "#000000") : "";
      word.classList.toggle("write-current", i === current);
      word.classList.toggle("write-chosen", i === this.chosen);
    });
    this.#tell(weights, written);
    this.#offer(written);
    this.read(written >= 0 && (this.pointed !== null || data.running) ? current - 1 - data.queryOffset : null);
  }

  /**
   * The weights of all tokens when a token was written.
   * @param {number} written its number
   * @returns {number[]}
   */
  #row(written) {
    const row = this.rows[written] ?? [], { keyOffset } = /** @type {Written} */ (this.data);
    return this.words.map((_word, i) => row[i - keyOffset] ?? NaN);
  }

  /**
   * The weight of a token of the prompt when each token was written.
   * @param {number} token
   * @returns {number[]}
   */
  #column(token) {
    const { prompt, keyOffset } = /** @type {Written} */ (this.data);
    return this.words.map((_word, i) => this.rows[i - prompt]?.[token - keyOffset] ?? NaN);
  }

  /**
   * @param {number[]} weights
   * @param {number} written
   */
  #tell(weights, written) {
    const name = (/** @type {number} */ i) => _("“{word}”", { word: seen(this.data?.tokens[i] ?? "").trim() });
    const order = weights.map((weight, i) => ({ weight, i })).filter(({ weight, i }) => weight >= LEAST && !this.words[i].hidden);
    const most = order.sort((a, b) => b.weight - a.weight).slice(0, NAMED);
    const list = most.map(({ weight, i }) => `${name(i)} ${number(weight)}`).join(", ");
    const values = { word: name(this.current), list, least: number(LEAST) };
    const { heads, looks, queryOffset, keyOffset, choices, hidden, image } = /** @type {Written} */ (this.data);
    const share = hidden.reduce((sum, i) => sum + (weights[i] || 0), 0);
    this.note.hidden = !hidden.length;
    this.note.textContent = written >= 0 ? _("{share} of its attention is on tokens of the chat template.", { share: number(share) }) : "";
    let sentence = "";
    if (written >= 0) {
      sentence = !list
        ? _("Before {word} no other word here has {least} of the attention.", values)
        : image.length
          ? _("Of the words, {list} got most of the attention before {word}.", values)
          : heads
            ? _("Before {word} these heads looked most at {list}.", values)
            : _("Before {word} this head looked most at {list}.", values);
      if (isChosen(choices, written)) sentence = `${_("{word} was chosen by hand.", values)} ${sentence}`;
    } else if (list) {
      sentence = heads
        ? _("These heads looked most at {word} before {list}.", values)
        : _("This head looked most at {word} before {list}.", values);
    } else {
      sentence = heads
        ? _("These heads never gave {word} {least} of their attention.", values)
        : _("This head never gave {word} {least} of its attention.", values);
    }
    this.sentence.replaceChildren(sentence);
    if (!looks || !list) return;
    const [query, key] = written >= 0 ? [this.current, most[0].i] : [most[0].i, this.current];
    // A link is reached after the pointer has left the text: until then it has only its place.
    const address = this.pointed === null ? cellAddress(looks, query - 1 - queryOffset, key - keyOffset) : "";
    this.sentence.append(" ", whyLink(looks.text, address));
  }

  /** @param {number} written the number of the token whose alternatives are shown */
  #offer(written) {
    const { data } = this, step = this.steps[written] ?? this.steps.at(-1);
    if (!step || !data) return;
    // What is not offered keeps its place, so that nothing moves while the pointer goes over the text.
    this.alternatives.style.visibility = this.more.style.visibility = written >= 0 ? "" : "hidden";
    this.form.style.visibility = written >= 0 && !data.running ? "" : "hidden";
    const most = Math.max(...step.alternatives.map(([, , probability]) => probability), step.probability);
    const own = /** @type {[number, string, number]} */ ([step.id, data.tokens[data.prompt + written], step.probability]);
    // What the model says: the likeliest token where a reader has chosen another one.
    const said = isChosen(data.choices, written) ? step.alternatives[0][0] : step.id;
    const rival = said === step.id ? step.alternatives.find(([id]) => id !== said)?.[0] : step.id;
    const isOffered = !data.running && !this.isFollowed;
    const first = step.alternatives.slice(0, FEW), others = step.alternatives.slice(FEW);
    const isFirst = first.some(([id]) => id === step.id);
    const item = (/** @type {[number, string, number]} */ [id, text, probability]) => {
      const isOwn = id === step.id;
      const bar = element("i", "write-bar");
      bar.style.width = `${(100 * probability) / most}%`;
      const name = element("bdi", "", seen(text));
      const link = element(isOwn || !isOffered ? "span" : "a", "write-alternative", bar, name, element("span", "write-share", share(probability)));
      if (link instanceof HTMLAnchorElement) {
        link.href = this.#branch(`${written}.${id}`);
        link.title = _("Write this instead, and go on");
      }
      if (isOwn) link.setAttribute("aria-current", "true");
      const other = id === said ? rival : id;
      const why = data.why && other !== undefined && whyLink(id === said ? _("Why this word?") : _("Why not?"), wordAddress(data.why, written, said, other));
      return element("li", "", link, why);
    };
    const about = isOffered ? _("Likeliest tokens here: choose one to go on from") : _("Likeliest tokens here");
    const title = element("p", "write-title", about);
    this.alternatives.replaceChildren(title, element("ol", "", ...[...first, ...(isFirst ? [] : [own])].map(item)));
    this.others.replaceChildren(element("ol", "", ...others.filter(([id]) => id !== step.id).map(item)));
  }

  /**
   * The address of the text with another token in place of a written one.
   * @param {string} choice its position and its id
   */
  #branch(choice) {
    const { choices, branches, mostBranches, longer } = /** @type {Written} */ (this.data);
    const position = Number(choice.split(".")[0]);
    const before = choices.split("-").filter((one) => one && Number(one.split(".")[0]) < position);
    const url = new URL(location.href);
    url.searchParams.set("choices", [...before, choice].join("-"));
    url.searchParams.delete("pinned");
    if (longer && position + 1 === this.steps.length) url.searchParams.set("length", String(longer)); // to go on from there
    const known = new Set([...branches.split("~"), choices].filter(Boolean));
    if (known.size) url.searchParams.set("branches", [...known].slice(-mostBranches).join("~"));
    return url.href;
  }
}

/**
 * Whether a reader has put in a written token.
 * @param {string} choices as links have them: the position of each, and its tokens
 * @param {number} written its number
 */
export function isChosen(choices, written) {
  return choices.split("-").some((choice) => {
    const [position, ...ids] = choice.split(".").map(Number);
    return position <= written && written < position + ids.length;
  });
}

/**
 * @param {string} text
 * @param {string} address empty: the link is not seen
 */
function whyLink(text, address) {
  const link = element("a", "attnviz-page-link", text);
  if (address) link.href = address;
  return link;
}

/**
 * The address of the page that says why a token was written, and not another one.
 * @param {import("./types").WordLinks} links
 * @param {number} written its number
 * @param {number} token
 * @param {number} other
 */
export function wordAddress({ address, parameters: [position, says, rather], after, names }, written, token, other) {
  return `${address}&${new URLSearchParams([[position, after[written]], [says, names[token]], [rather, names[other]]])}`;
}

/** @param {number} probability */
function share(probability) {
  return probability >= 0.01 || probability === 0 ? `${Math.round(100 * probability)} %` : "< 1 %";
}

/**
 * The token of the pinned row of the map: the one that was written from there.
 * @param {Written} data
 */
function tokenOf({ pinned, prompt, queryOffset }) {
  if (pinned === null) return null;
  const query = pinned + queryOffset;
  return query + 1 < prompt ? query : query + 1;
}

/** A text with spaces and line breaks that are seen where there is nothing else. @param {string} text */
function seen(text) {
  return (text.trim() ? text : text.replaceAll(" ", "␣")).replaceAll("\n", "⏎") || "∅";
}

function mapOfPage() {
  return document.querySelector(".st-key-heatmap .attnviz-chart[data-ready=true]");
}
