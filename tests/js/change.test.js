import assert from "node:assert/strict";
import { test } from "node:test";

import { changeOf, strongest } from "../../attnviz/chart/change.js";
import { cases } from "./cases.js";

for (const { before, after, change } of cases("changes"))
  test(`from ${before} to ${after} is ${change}`, () => {
    assert.equal(changeOf(Math.fround(before ?? NaN), Math.fround(after ?? NaN)), change);
  });

test("the strongest weight is the greatest that is not masked", () => {
  assert.equal(strongest(Float32Array.of(NaN, 0.2, 0.7, NaN)), 2);
  assert.equal(strongest(Float32Array.of(NaN, -3, -2)), 2);
  assert.equal(strongest(Float32Array.of(NaN, NaN)), null);
});
