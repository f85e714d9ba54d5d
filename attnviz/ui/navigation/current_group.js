/** The group of the menu that the page is in: Streamlit marks the page in an open group, and nothing where all are
 * closed. */

/** Keeps the group marked that an element of the page names.
 * @param {Document} document */
export function markCurrentGroup(document) {
  const named = /** @type {HTMLCollectionOf<HTMLDataElement>} */ (document.getElementsByClassName("attnviz-group"));
  const menus = document.getElementsByTagName("nav");
  const mark = () => {
    const menu = [...menus].find(({ dataset }) => dataset.testid === "stTopNav");
    for (const button of menu?.getElementsByTagName("button") ?? []) {
      if (button.firstElementChild?.textContent === named[0]?.value) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  };
  new MutationObserver(mark).observe(document.body, { subtree: true, childList: true, attributeFilter: ["value"] });
}
