import assert from "node:assert/strict";
import { test } from "node:test";

import { mounts } from "../../attnviz/chart/mounts.js";

class View {
  isClosed = false;
  close() {
    this.isClosed = true;
  }
}

test("a call that ends after the next has begun removes nothing, the last one does", () => {
  const root = { querySelectorAll: () => [] };
  const element = /** @type {any} */ ({ querySelector: () => root });
  const mounted = mounts(".root", View);
  const first = mounted(element);
  const second = mounted(element);
  first.remove();
  assert.equal(second.view, first.view);
  assert.equal(second.view.isClosed, false);
  second.remove();
  assert.equal(second.view.isClosed, true);
  assert.notEqual(mounted(element).view, first.view);
});
