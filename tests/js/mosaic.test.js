// The size of a picture of tiles.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MosaicController } from "../../attnviz/chart/mosaic.js";

/** @param {object} spec */
const fit = (spec) => new MosaicController(/** @type {any} */ ({}), /** @type {any} */ ({ spec })).fit(390, 600);

test("a picture is as wide as its place, or as its least tiles", () => {
  assert.deepEqual(fit({ rows: 4, columns: 5, least: 0, leastWidth: 0 }), { width: 390, height: 600 });
  assert.deepEqual(fit({ rows: 4, columns: 5, least: 0, leastWidth: 58 }), { width: 390, height: 600 });
  assert.deepEqual(fit({ rows: 4, columns: 14, least: 0, leastWidth: 58 }), { width: 14 * 58 + 46, height: 600 });
});
