/** Classes of the root that say which parts a page has, such as `has-presenting`, for styles of what is around them.
 *
 * `.stApp:has(.st-key-presenting)` would say the same as `.has-presenting .stApp`, but with such a selector each change
 * of a page has the browser compute the styles of all its elements anew. */

/** The class of each part that styles ask for. @type {Record<string, string>} */
export const PARTS = {
  "class-strip": "st-key-class-strip",
  embedded: "st-key-embedded",
  handout: "attnviz-handout",
  "lesson-strip": "st-key-lesson-strip",
  "open-question": "attnviz-open-question",
  "open-choice": "attnviz-open-choice",
  presenting: "st-key-presenting",
  start: "st-key-start",
};

/** Keeps the classes as the page is, before anything of a change is painted.
 * @param {Document} document */
export function markPageParts(document) {
  const { classList } = document.documentElement;
  const parts = Object.entries(PARTS).map(([name, part]) => ({ name: `has-${name}`, elements: document.getElementsByClassName(part) }));
  const mark = () => parts.forEach(({ name, elements }) => classList.toggle(name, elements.length > 0));
  new MutationObserver(mark).observe(document.body, { subtree: true, childList: true, attributeFilter: ["class"] });
}
