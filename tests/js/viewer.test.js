import assert from "node:assert/strict";
import { test } from "node:test";

import { float16 } from "../../attnviz/chart/payload.js";
import { within, zoomed } from "../../attnviz/notebook/viewer.js";

test("numbers of half precision are read as IEEE 754 has them", () => {
  for (const [bits, value] of [[0x3c00, 1], [0xc000, -2], [0x0001, 2 ** -24], [0x03ff, 1023 * 2 ** -24], [0x3555, 0.333251953125], [0x7c00, Infinity]])
    assert.equal(float16(bits), value);
  assert.ok(Number.isNaN(float16(0x7e00)));
});

test("cells of a downsampled map are the queries and keys that they stand for", () => {
  assert.deepEqual(zoomed([0, 1100, 0, 1100], [320, 320], [0, 319, 0, 319]), [0, 1100, 0, 1100]);
  assert.deepEqual(zoomed([100, 110, 0, 20], [10, 5], [2, 3, 1, 1]), [102, 104, 4, 8]);
  assert.deepEqual(within(zoomed([100, 110, 0, 20], [10, 5], [-2, 12, -1, 7]), 120, 24), [98, 113, 0, 24]);
});
