import assert from "node:assert/strict";
import { test } from "node:test";

import { apart, heaviest, namedKeys } from "../../attnviz/chart/fan.js";
import { scaled, visibleCells } from "../../attnviz/chart/heatmap.js";
import { line } from "../../attnviz/chart/painting.js";
import { snap } from "../../attnviz/chart/plane.js";

const letters = [..."abcdefghij"];

test("the cells in view are those that a range shows, even in part", () => {
  assert.deepEqual(visibleCells([-0.5, 9.5], [-0.5, 9.5]), [0, 9]);
  assert.deepEqual(visibleCells([5.5, 2.5], [9.5, -0.5]), [3, 5]);
  assert.deepEqual(visibleCells([2.4, 5.6], [-0.5, 9.5]), [2, 6]);
  assert.deepEqual(visibleCells([-7, 40], [-0.5, 9.5]), [0, 9]);
  assert.deepEqual(visibleCells([4.1, 4.2], [-0.5, 9.5]), [4, 4]);
});

test("a stroke has every cell between two events", () => {
  const cells = line({ row: 0, column: 0 }, { row: 1, column: 3 }).map(({ row, column }) => [row, column]);
  assert.deepEqual(cells, [[0, 0], [0, 1], [1, 2], [1, 3]]);
  assert.deepEqual(line({ row: 2, column: 2 }, { row: 2, column: 2 }).at(-1), { row: 2, column: 2 });
});

test("a dragged point stays inside, on its step, and is never −0", () => {
  const drag = { limits: /** @type {[number, number]} */ ([-2, 2]), step: 0.1 };
  assert.equal(snap(0.3000001, drag), 0.3);
  assert.equal(snap(7, drag), 2);
  assert.ok(Object.is(snap(-0.01, drag), 0));
});

test("a fan has the heaviest lines, and names that have room, the most important first", () => {
  const weights = [Float32Array.of(0.5, 0.003, NaN), Float32Array.of(0.25, 0.75, 0.125)];
  assert.deepEqual(heaviest(weights, [0, 1], 0.004, 3).map(({ i, j }) => [i, j]), [[1, 1], [0, 0], [1, 0]]);
  assert.deepEqual(namedKeys(weights[1], 3, null), [1, 0, 2]);
  assert.deepEqual(namedKeys(weights[0], 3, 2), [2, 0, 1, 2]);
  assert.deepEqual(namedKeys(null, 3, null), [0, 1, 2]);
  const many = new Float32Array(50);
  many[7] = 1;
  assert.deepEqual(namedKeys(many, 50, null), [7]);
  assert.deepEqual(apart([5, 4, 0], (i) => 10 * i, 15), [5, 0]);
});

test("a range is scaled around a point, within limits and to no less than half a cell", () => {
  assert.deepEqual(scaled([0, 10], 5, 0.5, [0, 10]), [2.5, 7.5]);
  assert.deepEqual(scaled([10, 0], 10, 0.5, [10, 0]), [10, 5]); // queries run down
  assert.deepEqual(scaled([2, 4], 3, 100, [0, 10]), [0, 10]);
  const [from, to] = scaled([2, 4], 3, 0.001, [0, 10]);
  assert.ok(Math.abs(to - from - 0.5) < 1e-9);
  assert.deepEqual(scaled([0, 10], 50, 2, [0, 10]), [0, 10]); // the pointer beside the map
});
