// What lies over a picture: the patches that have half of the weights, and the line around them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { coverOf, gridOf, halfOfMass, outline, within } from "../../attnviz/chart/picture.js";

/** @typedef {import("../../attnviz/chart/types").Box} Box */

test("half of the mass is in the fewest patches", () => {
  assert.deepEqual(halfOfMass([0.1, 0.4, 0.2, 0.3]), [1, 3]);
  assert.deepEqual(halfOfMass([0.1, 0.6, NaN, 0.3]), [1]);
  assert.deepEqual(halfOfMass([0.25, 0.25, 0.25, 0.25]), [0, 1]);
  assert.deepEqual(halfOfMass([0, NaN, -1]), []);
});

test("boxes side by side have one line around them", () => {
  /** @type {Box[]} */
  const both = [[0, 0, 14, 14], [14, 0, 28, 14]];
  const lines = outline(both);
  assert.equal(lines.length, 6); // not the edge between them
  assert.ok(!lines.some(([x0, , x1]) => x0 === 14 && x1 === 14));
  assert.equal(outline([both[0], [28, 0, 42, 14]]).length, 8);
});

test("edges that are equal but for rounding are shared", () => {
  const third = 1 / 3;
  assert.equal(outline([[0, 0, third, 1], [1 - 2 * third, 0, 2 * third, 1]]).length, 6);
});

test("a rectangle is dragged from any of its corners", () => {
  /** @type {Box[]} */
  const boxes = Array.from({ length: 12 }, (_, i) => [i % 4, Math.floor(i / 4), (i % 4) + 1, Math.floor(i / 4) + 1]);
  for (const [first, last] of [[1, 6], [6, 1], [2, 5], [5, 2]]) assert.deepEqual(within(boxes, first, last), [1, 2, 5, 6]);
  assert.deepEqual(within(boxes, 7, 7), [7]);
});

test("a patch is covered the more the less weight it has, the one with the largest not at all", () => {
  assert.deepEqual(coverOf([0.2, 0.1, 0, NaN, -1], 0.5), [0, 0.25, 0.5, 0.5, 0.5]);
  assert.deepEqual(coverOf([0, 0], 0.75), [0.75, 0.75]);
  assert.deepEqual(coverOf([0.3, 0.1], 0), [0, 0]);
});

test("boxes that fill a grid have a cell each, in any order", () => {
  const third = 1 / 3;
  /** @type {Box[]} */
  const boxes = [[third, 0, 2 * third, 1], [0, 0, third, 1], [1 - 2 * third, 1, 2 * third, 2], [0, 1, third, 2]];
  assert.deepEqual(gridOf(boxes), { rows: 2, columns: 2, cells: [1, 0, 3, 2], box: [0, 0, 2 * third, 2] });
  assert.deepEqual(gridOf([[4, 2, 8, 6]]), { rows: 1, columns: 1, cells: [0], box: [4, 2, 8, 6] });
});

test("boxes with a hole, or of several grids, are none", () => {
  assert.equal(gridOf([[0, 0, 1, 1], [1, 0, 2, 1], [0, 1, 1, 2]]), null);
  assert.equal(gridOf([[0, 0, 2, 2], [0, 0, 1, 1], [1, 0, 2, 1], [0, 1, 1, 2], [1, 1, 2, 2]]), null);
  assert.equal(gridOf([]), null);
});
