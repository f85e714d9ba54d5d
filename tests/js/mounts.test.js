import assert from "node:assert/strict";
import { test } from "node:test";

import { mounts } from "../../attnviz/chart/mounts.js";

class View {
  closed = 0;
  /** @type {string[]} */
  shown = [];
  /** @param {string} data */
  show(data) {
    this.shown.push(data);
  }
  close() {
    this.closed += 1;
  }
}

/** @type {View[]} */
const views = [];
const component = mounts(
  ".root",
  class extends View {
    constructor() {
      super();
      views.push(this);
    }
  },
);

function element() {
  const root = { querySelectorAll: () => [], isConnected: true };
  return { root, parentElement: /** @type {any} */ ({ querySelector: () => root }) };
}

test("a view stays while its element is in the page, whatever call ends, and is closed once", () => {
  const { root, parentElement } = element();
  const ends = [component({ parentElement, data: "1" }), component({ parentElement, data: "2" })];
  const view = views.at(-1);
  for (const end of ends) end();
  assert.equal(view?.closed, 0);
  root.isConnected = false;
  for (const end of ends) end();
  assert.equal(view?.closed, 1);
  component({ parentElement, data: "3" });
  assert.notEqual(views.at(-1), view);
});

test("a call that comes after a later one, and ends, leaves what the later one has shown", () => {
  const { parentElement } = element();
  component({ parentElement, data: "new" });
  component({ parentElement, data: "old" })();
  assert.deepEqual(views.at(-1)?.shown, ["new", "old", "new"]);
});

test("a call that ends after the next has come changes nothing", () => {
  const { parentElement } = element();
  const end = component({ parentElement, data: "old" });
  component({ parentElement, data: "new" });
  end();
  assert.deepEqual(views.at(-1)?.shown, ["old", "new"]);
});
