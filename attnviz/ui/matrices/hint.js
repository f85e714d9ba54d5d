// What a reader can do with the numbers.

/**
 * @param {boolean} isComputed whether the number that is shown was computed from others here
 * @returns {string}
 */
export function hint(isComputed) {
  const edit = "Click a number to change it.";
  return isComputed ? `Point at a number to see what it was computed from (rounded). ${edit}` : edit;
}
