import assert from "node:assert/strict";
import { test } from "node:test";

import { keepOneEntryPerChoice } from "../../attnviz/ui/navigation/history.js";
import { pageOf } from "../../attnviz/ui/navigation/links.js";
import { continuation } from "../../attnviz/ui/navigation/return.js";

/** A window whose history writes down what is done to it. */
function fakeWindow() {
  const target = new EventTarget();
  /** @type {string[]} */
  const calls = [];
  const location = { href: "http://host/masks" };
  /** @type {(name: string) => (state: unknown, unused: string, url?: string) => void} */
  const call = (name) => (_state, _unused, url) => {
    calls.push(`${name} ${url}`);
    if (url) location.href = new URL(url, location.href).href;
  };
  return /** @type {any} */ (
    Object.assign(target, { calls, location, history: { pushState: call("push"), replaceState: call("replace") } })
  );
}

test("the first change after an action is an entry, what follows belongs to it", () => {
  const window = fakeWindow();
  keepOneEntryPerChoice(window);
  window.history.pushState({}, "", "?a=1"); // while the page loads
  window.dispatchEvent(new Event("pointerdown"));
  window.history.replaceState({}, "", "?a=1"); // no change
  window.history.replaceState({}, "", "?a=2");
  window.history.pushState({}, "", "?a=2&b=3");
  window.dispatchEvent(Object.assign(new Event("keydown"), { key: "ArrowRight" }));
  window.history.replaceState({}, "", "?a=4");
  assert.deepEqual(window.calls, ["replace ?a=1", "replace ?a=1", "push ?a=2", "replace ?a=2&b=3", "push ?a=4"]);
});

test("a modifier key, a key that is held and the way back are no choices", () => {
  const window = fakeWindow();
  keepOneEntryPerChoice(window);
  window.dispatchEvent(Object.assign(new Event("keydown"), { key: "Alt" }));
  window.dispatchEvent(Object.assign(new Event("keydown"), { key: "ArrowRight", repeat: true }));
  window.dispatchEvent(new Event("pointerdown"));
  window.dispatchEvent(new Event("popstate"));
  window.history.pushState({}, "", "?a=1");
  assert.deepEqual(window.calls, ["replace ?a=1"]);
});

/** @type {(href: string, attributes?: object) => any} */
const link = (href, attributes = {}) => ({
  href: new URL(href, "http://host/attn/masks?a=1").href,
  target: "",
  hasAttribute: (/** @type {string} */ name) => name === "href" || name in attributes,
  ...attributes,
});

test("links to pages of the app open in place, others do not", () => {
  const location = /** @type {Location} */ (new URL("http://host/attn/masks?a=1"));
  assert.equal(pageOf(link("/attn/lookup?b=2"), location), "http://host/attn/lookup?b=2");
  assert.equal(pageOf(link("/attn/"), location), "http://host/attn/");
  for (const other of ["/lookup", "/attn/vendor/a", "/attn/a.csv", "http://else/attn/masks", "#top", "mailto:a@b"])
    assert.equal(pageOf(link(other), location), null, other);
  assert.equal(pageOf(link("/attn/lookup", { target: "_blank" }), location), null);
  assert.equal(pageOf(link("/attn/lookup", { download: "" }), location), null);
});

test("a new visit to the start page continues with the last page of the app", () => {
  const at = (/** @type {string} */ address) => /** @type {Location} */ (new URL(address));
  assert.equal(continuation(at("http://host/attn/"), "masks?a=1", false), "masks?a=1");
  assert.equal(continuation(at("http://host/attn/"), "masks?a=1", true), null);
  assert.equal(continuation(at("http://host/attn/"), null, false), null);
  assert.equal(continuation(at("http://host/attn/lookup"), "masks", false), null);
  for (const bad of ["", "//else", "javascript:alert(1)", "http://else/", "../else", "a/b"])
    assert.equal(continuation(at("http://host/"), bad, false), null, bad);
});
