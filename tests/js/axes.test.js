import assert from "node:assert/strict";
import { test } from "node:test";

import { bottomMargin, keyTicks, leftMargin, ticks } from "../../attnviz/ui/chart/axes.js";

const labels = [..."abcdefghij"];
/** @type {(range: [number, number], width?: number) => import("../../attnviz/ui/chart/axes.js").Axis} */
const axis = (range, width = 20) => ({ labels, range, widths: labels.map(() => width) });

test("an axis has as many labels as are a line apart", () => {
  assert.deepEqual(ticks(axis([-0.5, 9.5]), 150, 15).ticktext, labels);
  assert.deepEqual(ticks(axis([-0.5, 9.5]), 149, 15).ticktext, ["a", "c", "e", "g", "i"]);
  assert.deepEqual(ticks(axis([9.5, -0.5]), 75, 15).tickvals, [0, 2, 4, 6, 8]);
});

test("a part in view has labels of its own cells only", () => {
  assert.deepEqual(ticks(axis([2.5, 5.5]), 150, 15).tickvals, [3, 4, 5]);
});

test("labels below a map are upright where they would touch or leave the picture", () => {
  assert.equal(keyTicks(axis([-0.5, 9.5]), 310, 15).tickangle, 0);
  assert.equal(keyTicks(axis([-0.5, 9.5]), 290, 15).tickangle, 90);
  assert.equal(keyTicks(axis([3.5, 4.5], 60), 50, 15).tickangle, 90);
  const uneven = axis([-0.5, 9.5], 4);
  uneven.widths[5] = 60;
  assert.equal(keyTicks(uneven, 310, 15).tickangle, 90);
});

test("margins have room for the longest label", () => {
  const [short, long] = [axis([-0.5, 9.5]), axis([-0.5, 9.5], 90)];
  assert.equal(leftMargin(long, 12, 14) - leftMargin(short, 12, 14), 70);
  assert.equal(bottomMargin(long, 90, 24, 14) - bottomMargin(short, 90, 24, 14), 70);
  assert.equal(bottomMargin(long, 0, 24, 14), bottomMargin(short, 0, 24, 14));
});
