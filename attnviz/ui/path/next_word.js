// The next word: its candidates as bars, and the one that is drawn.

import { _ } from "../../chart/words.js";
import { element } from "../elements.js";

/**
 * @param {import("./types").NextWord} next
 * @param {() => void} draw
 * @param {boolean} scores whether the scores are shown too
 */
export function nextWordTable(next, draw, scores = false) {
  const box = element("div", "path-next");
  const table = element("table");
  const caption = element("caption", "", _("Next word, temperature {temperature}", { temperature: next.temperature }));
  table.append(caption);
  if (scores) {
    const head = element("tr");
    head.append(...[_("word"), _("logit"), _("probability")].map((text) => {
      const cell = element("th", "", text);
      cell.scope = "col";
      return cell;
    }), element("td"));
    table.createTHead().append(head);
  }
  const body = table.createTBody();
  for (const one of next.words) {
    const row = element("tr", one.word === next.drawn ? "path-drawn" : "");
    const name = element("th", "", one.word);
    name.scope = "row";
    name.lang = "fr";
    const track = element("td", "path-track");
    const bar = element("span");
    bar.style.transform = `scaleX(${one.probability})`;
    track.append(bar);
    row.append(name, ...(scores ? [element("td", "path-logit", one.logit)] : []), track, element("td", "path-share", one.text));
    body.append(row);
  }
  const others = element("tr", "path-others");
  const name = element("th", "", _("{count} others", { count: next.others }));
  name.scope = "row";
  const track = element("td", "path-track");
  const bar = element("span");
  bar.style.transform = `scaleX(${next.rest})`;
  track.append(bar);
  others.append(name, ...(scores ? [element("td")] : []), track, element("td", "path-share", next.rest < 0.005 ? "< 0.01" : next.rest.toFixed(2)));
  body.append(others);
  const again = element("button", "path-again-button", _("Draw again"));
  again.type = "button";
  again.title = _("Draw the next word with another random number");
  again.onclick = draw;
  const actions = element("p", "path-actions");
  actions.append(again);
  box.append(table, element("p", "path-written", next.sentence), actions);
  return box;
}
