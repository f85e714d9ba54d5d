// What keys mean in all pictures.

/** @type {Record<string, [number, number]>} rows down and columns to the right */
export const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** @param {KeyboardEvent} event */
export function isPlain(event) {
  return !event.altKey && !event.ctrlKey && !event.metaKey;
}
