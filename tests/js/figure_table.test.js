import assert from "node:assert/strict";
import { test } from "node:test";

import { csv, figureTable } from "../../attnviz/chart/figure_table.js";

/** @param {object} spec @param {object[]} data */
const header = (spec, data) => /** @type {any} */ ({ spec, figure: { data } });

test("a map has its tokens and an empty cell where nothing may be looked at", () => {
  const spec = { mode: "heatmap", queryTokens: ["a", "b"], keyTokens: ["a", "b"] };
  const z = [Float32Array.of(1, NaN), Float32Array.of(0.25, 0.75)];
  assert.deepEqual(figureTable(header(spec, [{ z }])), [["", "a", "b"], ["a", 1, ""], ["b", 0.25, 0.75]]);
  assert.equal(figureTable(header({ ...spec, downsampled: {} }, [{ z }])), null); // its colors have a scale of their own
});

test("a grid of heads has a row for each head, small maps have no table", () => {
  const spec = { mode: "mosaic", names: ["0.0", "0.1", "", "1.1"], rows: 2, columns: 2, height: 1, width: 1, tileHeight: 1, tileWidth: 1 };
  const z = [Float32Array.of(0.5, 0.25), Float32Array.of(NaN, 2)];
  assert.deepEqual(figureTable(header(spec, [{ z }])), [["0.0", 0.5], ["0.1", 0.25], ["1.1", 2]]);
  assert.equal(figureTable(header({ ...spec, height: 5 }, [{ z }])), null);
});

test("bars and points have the name of their series", () => {
  const data = [{ name: "A", x: ["the", "cat"], y: Float32Array.of(0.5, NaN) }, { name: "B", x: [], y: [] }];
  assert.deepEqual(figureTable(header({ mode: "points" }, data)), [["", "x", "y"], ["A", "the", 0.5], ["A", "cat", ""]]);
  assert.equal(figureTable(header({ mode: "plain" }, [{}])), null);
});

test("a text is no formula of a spreadsheet", () => {
  assert.equal(csv([["=1+1", '"', "a,b", -0.5]]), "\ufeff'=1+1,\"\"\"\",\"a,b\",-0.5\r\n");
});
