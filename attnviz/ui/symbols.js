// Symbols of matrices: W_q has its q below the line, QK^T its T above it.

import { element } from "../chart/elements.js";

/**
 * @param {HTMLElement} place
 * @param {string} symbol
 */
export function setSymbol(place, symbol) {
  place.replaceChildren(...symbolParts(symbol).map(({ tag, text }) => (tag ? element(tag, "", text) : text)));
  return place;
}

/**
 * @param {string} symbol
 * @returns {{ tag: "sub" | "sup" | null, text: string }[]}
 */
export function symbolParts(symbol) {
  return symbol
    .split(/([_^].)/)
    .filter(Boolean)
    .map((part) => {
      if (!/^[_^]./.test(part)) return { tag: null, text: part };
      return { tag: part[0] === "_" ? "sub" : "sup", text: part[1] };
    });
}

/** @param {string} symbol in a line of text */
export function symbolText(symbol) {
  return symbol.replace(/[_^]/g, "");
}
