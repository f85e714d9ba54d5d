// The next word: its candidates as bars, and the one that is drawn.

import { button, element, header } from "../../chart/elements.js";
import { _ } from "../../chart/words.js";

/**
 * @param {import("./types").NextWord} next
 * @param {() => void} draw
 * @param {boolean} scores whether the scores are shown too
 */
export function nextWordTable(next, draw, scores = false) {
  const caption = element("caption", "", _("Next word, temperature {temperature}", { temperature: next.temperature }));
  const table = element("table", "", caption);
  if (scores) {
    const names = [_("word"), _("logit"), _("probability")].map((text) => header("col", text));
    table.createTHead().append(element("tr", "", ...names, element("td")));
  }
  /** @type {(look: string, name: HTMLElement, logit: string, probability: number, text: string) => HTMLElement} */
  const row = (look, name, logit, probability, text) => {
    const bar = element("span");
    bar.style.transform = `scaleX(${probability})`;
    const [track, share] = [element("td", "path-track", bar), element("td", "path-share", text)];
    return element("tr", look, name, scores && element("td", "path-logit", logit), track, share);
  };
  const rows = next.words.map(({ word, logit, probability, text, drawn }) => {
    const name = header("row", word);
    name.lang = next.language;
    return row(drawn ? "path-drawn" : "", name, logit, probability, text);
  });
  const share = next.rest < 0.005 ? "< 0.01" : next.rest.toFixed(2);
  rows.push(row("path-others", header("row", _("{count} others", { count: next.others })), "", next.rest, share));
  table.createTBody().append(...rows);
  const again = button(_("Draw again"), "path-again-button", draw);
  again.title = _("Draw the next word with another random number");
  const written = element("p", "path-written", next.sentence);
  return element("div", "path-next", table, written, element("p", "path-actions attnviz-row", again));
}
