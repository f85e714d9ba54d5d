import assert from "node:assert/strict";
import { test } from "node:test";

import { number } from "../../attnviz/chart/number.js";
import { cases } from "./cases.js";

for (const [value, text] of cases("numbers")) test(`${value} is written ${text}`, () => assert.equal(number(value), text));
