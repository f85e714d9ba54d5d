// Cases that the tests in Python use, too.

import { readFileSync } from "node:fs";

/** @param {string} name */
export function cases(name) {
  return JSON.parse(readFileSync(new URL(`../cases/${name}.json`, import.meta.url), "utf-8"));
}
