// The path through a model at three depths: the whole model, one layer, one part. A click goes in, the trail or Escape
// goes out; steps go by hand or by themselves. What is open belongs to Python, the step to this side.

import { themeOf } from "../../chart/colors.js";
import { button, element } from "../../chart/elements.js";
import { isPlain } from "../../chart/keys.js";
import { _, plural } from "../../chart/words.js";
import { palette } from "./colors.js";
import { LayerView } from "./layer_view.js";
import { ModelView } from "./model_view.js";
import { PartView } from "./part_view.js";
import { Player } from "./player.js";

const NARROW = 860; // pixels, below which it reads down
const ZOOM = 260; // milliseconds from one depth to another
const DEPTHS = { model: 0, layer: 1, part: 2 };

export class Path {
  /** @type {import("./types").Report} */
  report = () => {};
  /** @type {import("./types").AnyPicture | null} */
  picture = null;
  /** @type {import("./view.js").View<any> | null} */
  view = null;
  #wasFocused = false; // in the picture, when a part was opened

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** @type {<T extends HTMLElement>(name: string) => T} */
    const part = (name) => /** @type {any} */ (root.querySelector(`.path-${name}`));
    this.trail = part("trail");
    this.heads = part("heads");
    this.count = part("count");
    this.caption = part("caption");
    this.live = part("live");
    this.stage = part("picture");
    this.playButton = part("play");
    this.motion = matchMedia("(prefers-reduced-motion: reduce)");
    this.player = new Player(() => this.#draw());
    this.closed = new AbortController();
    const options = { signal: this.closed.signal };
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-action]"))) {
      one.onclick = () => this.#act(one.dataset.action ?? "");
    }
    document.addEventListener("keydown", (event) => this.#key(event), options);
    this.width = 0;
    this.resized = new ResizeObserver(() => {
      if (root.clientWidth !== this.width && this.picture) this.#build();
    });
    this.resized.observe(root);
    addEventListener("resize", () => this.picture && this.#build(), options);
  }

  close() {
    this.player.pause();
    this.closed.abort();
    this.resized.disconnect();
  }

  /** @param {import("./types").AnyPicture} picture */
  show(picture) {
    const before = this.picture;
    const moved = before ? DEPTHS[picture.depth] - DEPTHS[before.depth] : 0;
    const same = before && JSON.stringify(before.trail) === JSON.stringify(picture.trail);
    if (same && JSON.stringify(before) === JSON.stringify(picture) && themeOf(this.root) === this.root.dataset.theme) return;
    this.root.dataset.ready = "false";
    this.picture = picture;
    this.root.classList.toggle("path-presenting", picture.presenting);
    if (!same) this.player.restart(0);
    this.#build();
    const count = this.view?.steps.length ?? 0;
    if (this.player.count !== count) this.player.restart(count, (step) => this.view?.steps[step].isShort ?? false);
    this.#trail();
    this.#headButtons();
    this.#draw();
    if (before && !same) this.#enter(moved);
    this.root.dataset.depth = picture.depth;
    this.root.dataset.open = picture.trail.at(-1)?.open ?? "";
    requestAnimationFrame(() => requestAnimationFrame(() => (this.root.dataset.ready = "true")));
  }

  #build() {
    const picture = /** @type {import("./types").AnyPicture} */ (this.picture);
    this.width = this.root.clientWidth;
    const theme = themeOf(this.root);
    this.root.dataset.theme = theme;
    const vertical = this.width < NARROW;
    const letter = picture.presenting ? Math.max(15, Math.min(30, this.width / 90)) : vertical ? 13 : Math.max(13, Math.min(17, this.width / 92));
    this.root.style.setProperty("--letter", `${letter}px`);
    const top = this.stage.getBoundingClientRect().top + window.scrollY - (this.root.closest("section")?.scrollTop ?? 0);
    const above = picture.presenting ? top : Math.min(top, 330);
    const height = Math.max(400, window.innerHeight - Math.max(120, above) - letter * 3);
    const room = { width: this.width, height, vertical, letter };
    const actions = {
      palette: palette(picture.colors, theme),
      open: (/** @type {string} */ name) => this.#open(name),
      draw: () => this.report("draw", Date.now()),
      say: (/** @type {string} */ text) => this.#say(text),
    };
    if (picture.depth === "model") this.view = new ModelView(this.stage, picture, room, actions);
    else if (picture.depth === "layer") this.view = new LayerView(this.stage, picture, room, actions);
    else this.view = new PartView(this.stage, picture, room, actions);
    const { step, share } = this.player;
    this.view.reveal(step !== null && step < this.view.steps.length ? step : null, share);
  }

  /** @param {number} moved deeper, or out where it is negative */
  #enter(moved) {
    this.stage.classList.remove("path-leaving");
    if (this.#wasFocused) this.stage.focus({ preventScroll: true });
    this.#wasFocused = false;
    if (this.motion.matches) return;
    this.stage.animate({ opacity: [0, 1], scale: [moved < 0 ? 1.06 : 0.94, 1] }, { duration: ZOOM, easing: "ease-out" });
  }

  /** @param {string} name */
  #open(name) {
    this.player.pause();
    this.#wasFocused = this.root.contains(document.activeElement);
    this.stage.classList.add("path-leaving");
    this.report("open", name);
  }

  #trail() {
    const picture = /** @type {import("./types").AnyPicture} */ (this.picture);
    const crumbs = [{ open: "", title: _("Whole model") }, ...picture.trail];
    this.trail.replaceChildren(
      ...crumbs.flatMap(({ open, title }, i) => {
        const between = i ? [element("span", "path-between", "›")] : [];
        if (i === crumbs.length - 1) {
          const here = element("b", "", title);
          here.setAttribute("aria-current", "location");
          return [...between, here];
        }
        const out = button(title, "", () => this.#open(open));
        out.title = _("Go back (Escape)");
        return [...between, out];
      }),
      ...(picture.depth === "layer" ? picture.neighbors.map((name, i) => this.#neighbor(name, i > 0)) : []),
    );
  }

  /**
   * @param {string} name of a layer; empty where there is none
   * @param {boolean} isNext
   */
  #neighbor(name, isNext) {
    const made = button(isNext ? "→" : "←", "path-neighbor", () => this.#open(name));
    made.title = isNext ? _("Show the next layer") : _("Show the layer before");
    made.setAttribute("aria-label", made.title);
    made.disabled = !name;
    return made;
  }

  #headButtons() {
    const { heads, head } = /** @type {import("./types").AnyPicture} */ (this.picture);
    this.heads.hidden = !heads;
    this.heads.replaceChildren(
      element("span", "", _("Head")),
      ...Array.from({ length: heads }, (_none, i) => {
        const made = button(String(i), i === head ? "path-chosen-head" : "", () => this.report("head", i));
        made.setAttribute("aria-label", _("Head {head}", { head: i }));
        made.setAttribute("aria-pressed", String(i === head));
        return made;
      }),
    );
  }

  /** @param {string} action */
  #act(action) {
    if (action === "play") {
      if (this.player.isPlaying) this.player.pause();
      else this.player.play();
    } else this.player.go(action === "step" ? 1 : -1);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {Element} */ (event.target);
    const idle = target === document.body || this.root.contains(target);
    if (!idle || event.defaultPrevented || !isPlain(event)) return;
    if (event.key === "Escape" && this.picture?.trail.length) {
      event.preventDefault();
      event.stopPropagation();
      this.#open(this.picture.trail.at(-2)?.open ?? "");
    } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      event.preventDefault();
      this.player.go(event.key === "ArrowRight" ? 1 : -1);
    }
  }

  /** @param {string} text about what the pointer is at; empty: about the step */
  #say(text) {
    const { step } = this.player;
    const steps = this.view?.steps ?? [];
    if (text) this.caption.replaceChildren(text);
    else if (step === null) this.caption.replaceChildren(this.view?.caption ?? "");
    else this.caption.replaceChildren(element("b", "", `${steps[step].title}. `), steps[step].caption);
  }

  #draw() {
    const { player } = this;
    const still = this.motion.matches;
    this.view?.reveal(player.step, still ? 1 : player.share);
    const name = player.step === null ? "" : String(player.step);
    this.playButton.textContent = player.isPlaying ? _("Pause") : _("Play");
    this.root.dataset.playing = String(player.isPlaying);
    if (this.root.dataset.stage === name && this.shown === this.view) return;
    this.root.dataset.stage = name;
    this.shown = this.view;
    this.count.textContent = player.count ? player.step === null ? plural("{count} step", "{count} steps", player.count) : `${player.step + 1} / ${player.count}` : "";
    /** @type {HTMLElement} */ (this.root.querySelector(".path-player")).hidden = !player.count;
    this.#say("");
    // The sentence that changes under the pointer would be too much to be read aloud.
    this.live.textContent = player.step === null ? "" : (this.caption.textContent ?? "");
  }
}
