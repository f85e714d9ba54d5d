/** A visitor who opens the start page again continues where they were. */

const KEY = "attnviz-last-page"; // in the browser alone
const VISITED = "attnviz-visited"; // in this tab

/** Returns the address of the page that was last open, if a new visit begins at the start page; or null.
 * @param {Location} location
 * @param {string | null} last the path and the parameters of the last page, below the folder of the start page
 * @param {boolean} visited whether this tab has shown the app before */
export function continuation(location, last, visited) {
  const atStart = location.pathname.endsWith("/") && !location.search && !location.hash;
  return atStart && !visited && last !== null && /^[a-z]+(\?|$)/.test(last) ? last : null;
}

/** Opens the last page instead of the start page, and remembers from now on which page is open.
 * @param {Window} window */
export function continueLastVisit(window) {
  const { history, location } = window;
  let local, tab;
  try {
    [local, tab] = [window.localStorage, window.sessionStorage];
  } catch {
    return; // the browser lets this site keep nothing
  }
  const last = continuation(location, local.getItem(KEY), tab.getItem(VISITED) !== null);
  tab.setItem(VISITED, "1");
  if (last) history.replaceState({}, "", last);
  const remember = () => {
    const page = location.pathname.split("/").at(-1);
    if (page) local.setItem(KEY, page + location.search);
  };
  window.addEventListener("pagehide", remember);
  window.addEventListener("visibilitychange", remember);
}
