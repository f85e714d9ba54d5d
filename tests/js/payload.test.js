import assert from "node:assert/strict";
import { test } from "node:test";

import { keepEqual, unpack } from "../../attnviz/chart/payload.js";

/**
 * As attnviz/chart/__init__.py packs it.
 * @param {object} header
 * @param {ArrayBufferView[]} arrays
 */
function pack(header, arrays) {
  const padded = (/** @type {number} */ size) => Math.ceil(size / 8) * 8;
  const plain = new TextEncoder().encode(JSON.stringify(header));
  const text = new Uint8Array(padded(plain.length)).fill(32);
  text.set(plain);
  const size = arrays.reduce((sum, array) => sum + padded(array.byteLength), 8 + text.length);
  const bytes = new Uint8Array(size);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  let offset = 8 + text.length;
  for (const array of arrays) {
    bytes.set(new Uint8Array(array.buffer), offset);
    offset += padded(array.byteLength);
  }
  return bytes;
}

test("arrays are put where the header mentions them, in rows", () => {
  const z = { array: 0, dtype: "f4", shape: [2, 3] };
  const x = { array: 2, dtype: "u1", shape: [3] };
  const positions = { array: 1, dtype: "f8", shape: [1, 2] };
  const header = { figure: { data: [{ z, x }] }, spec: { downsampled: { positions } }, name: "é" };
  const arrays = [Float32Array.of(0, 1, 2, 3, 4, NaN), Float64Array.of(7, -1), Uint8Array.of(1, 2, 3)];
  const shifted = new Uint8Array([9, ...pack(header, arrays)]).subarray(1); // as a message has it
  const found = /** @type {any} */ (unpack(shifted));
  assert.deepEqual(found.figure.data[0].z, [Float32Array.of(0, 1, 2), Float32Array.of(3, 4, NaN)]);
  assert.deepEqual(found.figure.data[0].x, Uint8Array.of(1, 2, 3));
  assert.deepEqual(found.spec.downsampled.positions, [Float64Array.of(7, -1)]);
  assert.equal(found.name, "é");
});

test("what is equal stays the same object", () => {
  const before = { a: [1, { b: 2 }], z: Float32Array.of(1, NaN), c: 1 };
  const after = keepEqual(before, { a: [1, { b: 2 }], z: Float32Array.of(1, NaN), c: 2 });
  assert.notEqual(after, before);
  assert.equal(after.a, before.a);
  assert.equal(after.z, before.z);
  assert.equal(keepEqual(before, structuredClone(before)), before);
  assert.notEqual(keepEqual(Float32Array.of(1), Float32Array.of(1, 2)).length, 1);
});
