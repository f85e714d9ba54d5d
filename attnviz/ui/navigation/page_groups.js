/** The groups of pages in Streamlit's menus. In the bar of a wide window it marks the page in an open group, and nothing
 * where all are closed; in the sidebar of a phone its list has groups as items, which screen readers do not expect. */

/** @param {Element | undefined} element @param {Record<string, string | null>} attributes */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes))
    if (value === null) element?.removeAttribute(name);
    else element?.setAttribute(name, value);
}

/** @param {HTMLElement} bar @param {string | undefined} current */
function markCurrent(bar, current) {
  for (const button of bar.getElementsByTagName("button"))
    set(button, { "aria-current": button.firstElementChild?.textContent === current ? "true" : null });
}

/** @param {HTMLElement} sidebar */
function labelGroups(sidebar) {
  set(sidebar.getElementsByTagName("ul")[0], { role: "presentation" });
  for (const item of sidebar.getElementsByTagName("li")) set(item, { role: "presentation" });
  for (const header of sidebar.getElementsByTagName("header"))
    set(header.parentElement ?? undefined, { role: "group", "aria-label": header.firstElementChild?.textContent ?? null });
}

/** Keeps the group marked that an element of the page names, and all groups labeled.
 * @param {Document} document */
export function keepPageGroups(document) {
  const named = /** @type {HTMLCollectionOf<HTMLDataElement>} */ (document.getElementsByClassName("attnviz-group"));
  const menus = document.getElementsByTagName("nav");
  const keep = () => {
    for (const menu of menus)
      if (menu.dataset.testid === "stTopNav") markCurrent(menu, named[0]?.value);
      else if (menu.dataset.testid === "stSidebarNav") labelGroups(menu);
  };
  new MutationObserver(keep).observe(document.body, { subtree: true, childList: true, attributeFilter: ["value"] });
}
