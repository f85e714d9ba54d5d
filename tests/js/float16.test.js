import assert from "node:assert/strict";
import { test } from "node:test";

import { float16 } from "../../attnviz/chart/payload.js";

test("numbers of half precision are read as IEEE 754 has them", () => {
  for (const [bits, value] of [[0x3c00, 1], [0xc000, -2], [0x0001, 2 ** -24], [0x03ff, 1023 * 2 ** -24], [0x3555, 0.333251953125], [0x7c00, Infinity]])
    assert.equal(float16(bits), value);
  assert.ok(Number.isNaN(float16(0x7e00)));
});
