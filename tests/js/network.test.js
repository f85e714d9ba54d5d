import assert from "node:assert/strict";
import { test } from "node:test";

import { arrange } from "../../attnviz/ui/network/layout.js";
import { lookUp } from "../../attnviz/ui/network/lookup.js";
import { cases } from "./cases.js";

/** @type {(actual: any, expected: any, path: string) => void} */
function near(actual, expected, path) {
  if (typeof expected === "number") assert.ok(Math.abs(actual - expected) < 1e-6, `${path}: ${actual}, not ${expected}`);
  else if (expected === null) assert.equal(actual, null, path);
  else for (const [name, one] of Object.entries(expected)) near(actual[name], one, `${path}.${name}`);
}

for (const { name, data, numbers } of cases("lookups"))
  test(`${name}: numbers and gradients are those of the library`, () => near(lookUp(data, data.query), numbers, name));

test("the nodes of a layer do not overlap, and none leaves the picture", () => {
  for (const [width, large] of /** @type {[number, boolean][]} */ ([[360, false], [640, false], [360, true]]))
    for (const keys of [2, 5, 8]) {
      const { layers, ...picture } = arrange(width, keys, large);
      assert.deepEqual(layers.map((layer) => layer.length), [keys + 1, keys, keys, keys, 1]);
      for (const layer of layers)
        layer.forEach((node, i) => {
          assert.ok(node.x - node.width / 2 >= 0 && node.x + node.width / 2 <= picture.width);
          assert.ok(node.y - node.height / 2 >= 0 && node.y + node.height / 2 <= picture.height);
          const next = layer[i + 1];
          if (next) assert.ok(next.y - node.y >= node.height || next.x - node.x >= node.width);
        });
    }
});
