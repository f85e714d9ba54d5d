import assert from "node:assert/strict";
import { test } from "node:test";

import { cellAddress } from "../../attnviz/chart/cell_links.js";
import { linkedCell } from "../../attnviz/chart/linked_cells.js";
import { isChosen, wordAddress } from "../../attnviz/ui/write/write.js";

/** @param {string} address */
const parameters = (address) => [...new URL(address, "http://host/app/explore").searchParams];

test("the address of a cell names its query and its key, whatever is in their names", () => {
  const links = {
    text: "Why there?",
    address: "./why?why-head=4",
    parameters: /** @type {[string, string]} */ (["from", "at"]),
    queries: ["0 · a&b", "1 · ␣=?#"],
    keys: ["0 · +", "1 · %41", "2 · שלום"],
  };
  const head = ["why-head", "4"];
  assert.deepEqual(parameters(cellAddress(links, 0, 1)), [head, ["from", "0 · a&b"], ["at", "1 · %41"]]);
  assert.deepEqual(parameters(cellAddress(links, 1, 2)), [head, ["from", "1 · ␣=?#"], ["at", "2 · שלום"]]);
  assert.equal(new URL(cellAddress(links, 1, 0), "http://host/app/explore").pathname, "/app/why");
});

test("the address of a word names the token before it, itself and another one", () => {
  const links = {
    address: "./why?text=a+b",
    parameters: /** @type {[string, string, string]} */ (["after", "says", "rather-than"]),
    after: ["1 · b", "2 · c"],
    names: { 7: "Rome", 9: "#9" },
  };
  const text = ["text", "a b"];
  assert.deepEqual(parameters(wordAddress(links, 1, 7, 9)), [text, ["after", "2 · c"], ["says", "Rome"], ["rather-than", "#9"]]);
});

test("a token that a reader has put in is known by the choices of the link", () => {
  const written = [0, 1, 4, 5, 6, 7];
  assert.deepEqual(written.map((number) => isChosen("0.7042-5.260.3575", number)), [true, false, false, true, true, false]);
  assert.equal(isChosen("", 0), false);
});

test("maps of other sizes share the cells whose rows and columns have the same numbers", () => {
  /** @type {[number[], number[]]} */
  const left = [[0, -1, 1, 2], [0, 1]];
  /** @type {[number[], number[]]} */
  const right = [[0, 1, 2], [-1, 0, 1]];
  assert.deepEqual(linkedCell({ row: 2, column: 1 }, left, right), { row: 1, column: 2 });
  assert.deepEqual(linkedCell({ row: 1, column: 2 }, right, left), { row: 2, column: 1 });
  assert.deepEqual(linkedCell({ row: 3, column: null }, left, right), { row: 2, column: null });
  assert.equal(linkedCell({ row: 1, column: 0 }, left, right), null);
  assert.equal(linkedCell({ row: 0, column: 0 }, right, left), null);
  assert.deepEqual(linkedCell({ row: 5, column: 7 }, null, null), { row: 5, column: 7 });
});
