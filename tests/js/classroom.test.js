import assert from "node:assert/strict";
import { test } from "node:test";

import { commonWord, spent, tapped } from "../../attnviz/ui/classroom/ballot.js";
import { Connection } from "../../attnviz/ui/classroom/connection.js";
import { pageLink, showWayBack } from "../../attnviz/ui/classroom/guest.js";

/** @param {object} question @param {number[]} options */
function taps(question, ...options) {
  /** @type {Record<number, number>} */
  const nothing = {};
  return options.reduce((chosen, option) => tapped(/** @type {any} */ (question), chosen, option), nothing);
}

test("of one choice the last tap counts", () => {
  assert.deepEqual(taps({ picks: 1, points: 0 }, 3, 3, 1), { 1: 1 });
});

test("of several choices a second tap takes one back, and no more are taken than there are", () => {
  assert.deepEqual(taps({ picks: 2, points: 0 }, 4, 2, 7), { 2: 1, 4: 1 });
  assert.deepEqual(taps({ picks: 2, points: 0 }, 4, 2, 4, 7), { 2: 1, 7: 1 });
});

test("points add up until all are given; what cannot change is the same object", () => {
  const question = { picks: 0, points: 3 };
  const chosen = taps(question, 0, 5, 5);
  assert.deepEqual(chosen, { 0: 1, 5: 2 });
  assert.equal(spent(chosen), 3);
  assert.equal(tapped(/** @type {any} */ (question), chosen, 1), chosen);
});

test("a table says the common first word of its columns once", () => {
  assert.equal(commonWord(["Head 1", "Head 2"]), "Head ");
  assert.equal(commonWord(["Head 1", "Mean"]), "");
  assert.equal(commonWord(["cat", "cat"]), "");
});

test("a link of a page begins below the folder of the first page", () => {
  assert.equal(pageLink(/** @type {any} */ ({ pathname: "/attn/masks", search: "?mask-b=band(2)" })), "masks?mask-b=band(2)");
  assert.equal(pageLink(/** @type {any} */ ({ pathname: "/attn/", search: "" })), "explore");
});

class Events extends EventTarget {
  static CLOSED = 2;
  /** @type {Events[]} */
  static all = [];
  readyState = 1;
  onmessage = (/** @type {{ data: string }} */ _event) => {};
  onerror = () => {};
  constructor() {
    super();
    Events.all.push(this);
  }
  close() {
    this.readyState = Events.CLOSED;
  }
}

/** A connection whose server answers when it is told to. */
function connect() {
  Events.all = [];
  const page = Object.assign(new EventTarget(), { visibilityState: "visible", documentElement: { lang: "en" } });
  /** @type {((response: object) => void)[]} */
  const requests = [];
  const fetch = () => new Promise((resolve) => requests.push(resolve));
  Object.assign(globalThis, { window: new EventTarget(), document: page, EventSource: Events, fetch });
  /** @type {any[]} */
  const shown = [];
  /** @type {string[]} */
  const statuses = [];
  const connection = new Connection("/class/K7M2Q", "state", (state) => shown.push(state.version), (status) => statuses.push(status));
  /** @param {number} status @param {object} [state] */
  const answer = async (status, state) => {
    /** @type {any} */ (requests.shift())({ status, ok: status === 200, json: async () => state, text: async () => "No." });
    await new Promise(setImmediate);
  };
  return { connection, shown, statuses, requests, answer, page };
}

test("each version is read once, and what changes while it is read after it", async () => {
  const { shown, requests, answer } = connect();
  const [source] = Events.all;
  source.onmessage({ data: "1" });
  source.onmessage({ data: "2" });
  assert.equal(requests.length, 1);
  await answer(200, { version: 1 });
  await answer(200, { version: 2 });
  source.onmessage({ data: "2" });
  assert.deepEqual(shown, [1, 2]);
  assert.equal(requests.length, 0);
});

test("a class that is gone has ended, and nobody listens to it any longer", async () => {
  const { connection, statuses, answer, page } = connect();
  Events.all[0].onmessage({ data: "1" });
  await answer(404);
  assert.equal(statuses.at(-1), "ended");
  page.dispatchEvent(new Event("visibilitychange"));
  assert.equal(Events.all.length, 1);
  assert.ok(connection.ended);
});

test("a device that wakes up listens anew", () => {
  const { page } = connect();
  page.dispatchEvent(new Event("visibilitychange"));
  assert.deepEqual(Events.all.map(({ readyState }) => readyState), [Events.CLOSED, 1]);
});

test("what was not sent is said in a sentence", async () => {
  const { connection, answer } = connect();
  const refused = assert.rejects(connection.send("answer", {}), /^Error: No\.$/);
  await answer(400);
  await refused;
  Object.assign(globalThis, { fetch: async () => Promise.reject(new TypeError("network")) });
  await assert.rejects(connection.send("answer", {}), /Nothing was sent/);
});

test("in a frame whose site may keep nothing there is no way back, and no error", () => {
  const frame = { get sessionStorage() { throw new DOMException("Access is denied for this document.", "SecurityError"); } };
  showWayBack(/** @type {any} */ (frame));
});
