/** Links between the pages of the app, which open without loading the app anew. */

/** Returns the address of a link to a page of the app that a click opens in this tab, or null.
 * @param {HTMLAnchorElement} link
 * @param {Location} location */
export function pageOf(link, location) {
  if (link.target || link.hasAttribute("download") || !link.hasAttribute("href")) return null;
  const to = new URL(link.href, location.href);
  if (to.origin !== location.origin) return null;
  const folder = (/** @type {string} */ address) => new URL(".", address.split("?")[0]).href;
  const isPage = /\/[a-z]*$/.test(to.pathname) && !to.hash && folder(to.href) === folder(location.href);
  return isPage ? to.href : null;
}

/** Returns the address of this page in the language of a link, or null if the link is in no other language.
 * @param {HTMLAnchorElement} link
 * @param {Location} location */
export function inLanguage(link, location) {
  if (!link.hreflang) return null;
  const to = new URL(location.href);
  to.searchParams.set("lang", link.hreflang);
  return to.href;
}

/** Opens a page of the app in the state that its address says, as the browser's Back and Forward do.
 * @param {Window} window
 * @param {string} address */
export function openPage(window, address) {
  window.history.pushState({}, "", address);
  window.dispatchEvent(new PopStateEvent("popstate"));
}

/** Opens links to pages in place, unless a key or another button asks for a tab of their own.
 * @param {Window} window */
export function openLinksInPlace(window) {
  window.addEventListener("click", event => {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const translated = link && inLanguage(link, window.location);
    if (translated) {
      event.preventDefault();
      window.location.assign(translated); // anew: every widget has its names in one language
      return;
    }
    const address = link && pageOf(link, window.location);
    if (!address) return;
    event.preventDefault();
    openPage(window, address);
  });
}
