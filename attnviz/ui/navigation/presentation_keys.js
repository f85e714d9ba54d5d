// The keys of a presentation: Escape leaves it; the arrow keys to the right and to the left, and the keys of a remote
// control, go to the next step and back: that of a lesson, or of a slider that stays, or else the next page.

/** @type {Record<string, "next" | "previous">} */
const DIRECTIONS = { ArrowRight: "next", PageDown: "next", ArrowLeft: "previous", PageUp: "previous" };
const FIELDS = "input, textarea, select, [contenteditable], [role=slider], [role=combobox], [role=tab], [role=application]";
const STAYS = ':is([class*="st-key-play-"], [class*="st-key-present-control-"])';
const OPEN = "[role=listbox], [role=dialog], dialog[open], [data-testid=stPopoverBody]";

/**
 * @param {string} selector
 * @returns {HTMLElement | undefined} the last such element that can be seen, of several sliders that of the open tab
 */
function visible(selector) {
  const all = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(selector));
  return [...all].findLast((element) => element.checkVisibility() && element.getClientRects().length > 0);
}

/**
 * Does what a key means in a presentation.
 * @param {KeyboardEvent} event
 */
function press(event) {
  const { key, target } = event;
  if (!event.isTrusted || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (!visible(".st-key-presenting")) return;
  const field = target instanceof Element ? target.closest(FIELDS) : null;
  if (key === "Escape") {
    if (!field?.matches("input:not([type=range])")) visible(".st-key-present-switch button")?.click();
    return;
  }
  const slider = /** @type {HTMLInputElement | undefined} */ (visible(`${STAYS} input[type=range]`));
  const direction = DIRECTIONS[key];
  const step = direction && visible(`.attnviz-ways a[rel=${direction === "next" ? "next" : "prev"}]`);
  if (!direction || (field && (step || field !== slider))) return;
  event.preventDefault();
  if (step) return step.click();
  if (!slider) return visible(`.st-key-present-${direction} a`)?.click();
  const arrow = direction === "next" ? "ArrowRight" : "ArrowLeft";
  for (const kind of ["keydown", "keyup"]) slider.dispatchEvent(new KeyboardEvent(kind, { key: arrow, bubbles: true }));
}

/** @param {Window} window */
export function obeyPresentationKeys(window) {
  let isOpen = false; // whether a menu was open when the key went down, which it closes
  window.addEventListener(
    "keydown",
    (event) => {
      isOpen = Boolean(visible(OPEN));
      const onSlider = event.target instanceof HTMLElement && event.target.matches("input[type=range]");
      if (isOpen || !onSlider || !event.key.startsWith("Page")) return;
      press(event); // before the slider, for which these keys are several steps
      if (event.defaultPrevented) event.stopPropagation();
    },
    true,
  );
  window.addEventListener("keydown", (event) => isOpen || press(event));
}
