import assert from "node:assert/strict";
import { test } from "node:test";

import { symbolParts } from "../../attnviz/ui/symbols.js";
import { normalizedNumber } from "../../attnviz/ui/matrices/edit.js";
import { hint } from "../../attnviz/ui/matrices/hint.js";

test("a symbol has its letters below and above the line", () => {
  assert.deepEqual(symbolParts("W_q"), [{ tag: null, text: "W" }, { tag: "sub", text: "q" }]);
  assert.deepEqual(symbolParts("QK^T"), [{ tag: null, text: "QK" }, { tag: "sup", text: "T" }]);
  assert.deepEqual(symbolParts("softmax"), [{ tag: null, text: "softmax" }]);
});

test("a number is read as a person writes it", () => {
  assert.equal(normalizedNumber(" −0,5 "), "-0.5");
  assert.equal(normalizedNumber("1e3"), "1e3");
  assert.equal(normalizedNumber(""), "");
  for (const text of ["a", "1 2", "1/0", "Infinity", "1,000,000"]) assert.equal(normalizedNumber(text), null, text);
});

test("only beside a computed number the hint speaks of what it was computed from", () => {
  assert.match(hint(true), /computed from/);
  assert.doesNotMatch(hint(false), /computed from/);
  for (const isComputed of [true, false]) assert.match(hint(isComputed), /Click a number to change it/);
});
