/** The menu of pages on a phone, which is in Streamlit's sidebar: it closes once a page is chosen. */

const NARROW = "(max-width: 768px)"; // where Streamlit lays the sidebar over the page

/** @param {Window} window */
export function closeMenuOnChoice(window) {
  window.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("[data-testid=stSidebarNavLink]");
    if (!link || !window.matchMedia(NARROW).matches) return;
    /** @type {HTMLElement | null} */ (document.querySelector("[data-testid=stSidebarCollapseButton] button"))?.click();
  });
}
