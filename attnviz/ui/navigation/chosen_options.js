/** @param {Window} window in whose menus of several options Enter takes no other one when the typed one is chosen */
export function keepChosenOptions(window) {
  window.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
      const typed = event.target.value.trim().toLowerCase();
      const chosen = event.target.closest("[data-testid=stMultiSelect]")?.querySelectorAll("[data-tag]") ?? [];
      if (![...chosen].some((tag) => tag.textContent?.trim().toLowerCase() === typed)) return;
      event.preventDefault();
      event.stopPropagation();
    },
    true,
  );
}
