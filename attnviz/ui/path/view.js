// A picture of one depth: what the whole model, a layer and a part have in common.

import { element } from "../../chart/elements.js";
import { _ } from "../../chart/words.js";

const FAINT = 0.1; // the opacity of what is still to come

/** @template {import("./types").AnyPicture} Picture */
export class View {
  caption = "";
  /** @type {import("./types").Step[]} */
  steps = [];

  /** @param {import("./types").Shown<Picture>} shown */
  constructor(...[stage, picture, room, { palette, open, say, draw }]) {
    this.picture = picture;
    this.room = room;
    this.palette = palette;
    this.open = open;
    this.say = say;
    this.draw = draw;
    this.host = element("div", room.vertical ? "path-down" : "");
    stage.replaceChildren(this.host);
  }

  /**
   * Shows everything up to a step, and of that step a share from 0 to 1; all of it where the step is null.
   * @param {number | null} _step
   * @param {number} _share
   */
  reveal(_step, _share) {}
}

/** @param {import("./types").NextWord} next */
export function nextWordStep(next) {
  return { title: _("Next word"), caption: `${next.caption} ${next.sentence}` };
}

/** @param {number} share of a step, as motion shows it: slow at its start and its end */
export function eased(share) {
  return share * share * (3 - 2 * share);
}

/**
 * The opacity, as CSS has it, of what comes at a place among the steps.
 * @param {number} place
 * @param {number | null} step
 * @param {number} now that of the step
 */
export function opacity(place, step, now) {
  return String(step === null || place < step ? 1 : Math.max(FAINT, place > step ? 0 : now));
}

/**
 * The names of rows, in lines of `width` × `height` pixels.
 * @param {string[]} names
 * @param {number} width
 * @param {number} height
 */
export function rowNames(names, width, height) {
  const list = element("span", "path-names");
  list.style.width = `${width}px`;
  for (const name of names) {
    const made = element("span", "attnviz-one-line", name);
    Object.assign(made.style, { height: `${height}px`, lineHeight: `${height}px` });
    list.append(made);
  }
  return list;
}

/**
 * The row and the column under the pointer, or the nearest.
 * @param {PointerEvent} event
 * @param {unknown[][]} cells
 * @param {number} width in pixels
 * @param {number} height
 */
export function cellUnder(event, cells, width, height) {
  /** @type {(share: number, count: number) => number} */
  const place = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
  return [place(event.offsetY / height, cells.length), place(event.offsetX / width, cells[0]?.length ?? 1)];
}
