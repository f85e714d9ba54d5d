import assert from "node:assert/strict";
import { test } from "node:test";

import { bottomMargin, keyTicks, leftMargin, shorten, ticks } from "../../attnviz/chart/axes.js";

const labels = [..."abcdefghij"];
/** @type {(range: [number, number], width?: number) => import("../../attnviz/chart/axes.js").Axis} */
const axis = (range, width = 20) => ({ labels, range, widths: labels.map(() => width) });

const many = Array.from({ length: 30 }, (_, i) => `token ${i}`);

test("up to 24 labels are all there, in smaller letters where they must be", () => {
  assert.deepEqual(ticks(axis([-0.5, 9.5]), 150, 14), { tickvals: [...labels.keys()], ticktext: labels, tickfont: { size: 14 } });
  const fitted = ticks(axis([9.5, -0.5]), 110, 14);
  assert.deepEqual(fitted.ticktext, labels);
  assert.equal(fitted.tickfont.size, 10);
  assert.equal(ticks({ labels: many, range: [-0.5, 23.5] }, 24 * 10, 14).tickvals.length, 24);
});

test("an axis has as many labels as are a line apart where letters would be too small, or more than 24", () => {
  assert.deepEqual(ticks(axis([9.5, -0.5]), 75, 14), { tickvals: [0, 2, 4, 6, 8], ticktext: ["a", "c", "e", "g", "i"], tickfont: { size: 14 } });
  assert.equal(ticks({ labels: many, range: [-0.5, 29.5] }, 300, 14).tickvals.length, 15);
});

test("a part in view has labels of its own cells only", () => {
  assert.deepEqual(ticks(axis([2.5, 5.5]), 150, 14).tickvals, [3, 4, 5]);
});

test("the end of a label that is too wide is left out, unless it has markup", () => {
  assert.deepEqual(shorten(["tokenization", "it", "<b>tokenization</b>"], [120, 20, 120], 60), ["token…", "it", "<b>tokenization</b>"]);
});

test("labels below a map are upright where they would touch or leave the picture", () => {
  assert.equal(keyTicks(axis([-0.5, 9.5]), 310, 14).tickangle, 0);
  assert.equal(keyTicks(axis([-0.5, 9.5]), 290, 14).tickangle, 90);
  assert.equal(keyTicks(axis([3.5, 4.5], 60), 50, 14).tickangle, 90);
  const uneven = axis([-0.5, 9.5], 4);
  uneven.widths[5] = 60;
  assert.equal(keyTicks(uneven, 310, 14).tickangle, 90);
});

test("margins have room for the longest label", () => {
  const [short, long] = [axis([-0.5, 9.5]), axis([-0.5, 9.5], 90)];
  assert.equal(leftMargin(long, 12, 14) - leftMargin(short, 12, 14), 70);
  assert.ok(leftMargin(short, null, 14) < leftMargin(short, 0, 14)); // without a title
  assert.equal(bottomMargin(long, 90, 24, 14) - bottomMargin(short, 90, 24, 14), 70);
  assert.equal(bottomMargin(long, 0, 24, 14), bottomMargin(short, 0, 24, 14));
});
