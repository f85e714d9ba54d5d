/** Links between the pages of the app, which open without loading the app anew. */

const TYPED = "textarea, input[type=text], input[type=number]"; // Streamlit sends their texts when they are left
const STARTS = 500, RUNS = 5000; // milliseconds until a run begins, and until it has ended

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

/** Waits until a condition holds, for at most so many milliseconds.
 * @param {() => boolean} holds
 * @param {number} most */
async function until(holds, most) {
  const end = performance.now() + most;
  while (!holds() && performance.now() < end) await new Promise(requestAnimationFrame);
}

/** Waits for the run of the page that a field has begun, and returns where a link leads after it.
 * @param {Document} document
 * @param {HTMLAnchorElement} link */
async function addressAfterRun(document, link) {
  const same = () => [...document.querySelectorAll("a")].filter(one => one.textContent === link.textContent);
  const place = same().indexOf(link);
  const app = /** @type {HTMLElement | null} */ (document.querySelector("[data-testid=stApp]"));
  const runs = () => app?.dataset.testScriptState === "running";
  await until(runs, STARTS);
  await until(() => !runs(), RUNS);
  await new Promise(requestAnimationFrame);
  const now = link.isConnected ? link : same()[place];
  return now ? pageOf(now, document.location) : null;
}

/** Opens links to pages in place, unless a key or another button asks for a tab of their own. What was typed into a field
 * that the click leaves is in the state of the page that opens.
 * @param {Window} window */
export function openLinksInPlace(window) {
  let isTyped = false, leftAt = -Infinity;
  window.addEventListener("input", event => isTyped ||= event.target instanceof Element && event.target.matches(TYPED), true);
  window.addEventListener("focusout", () => {
    if (isTyped) leftAt = performance.now();
    isTyped = false;
  }, true);
  window.addEventListener("click", async event => {
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
    const isFresh = performance.now() - leftAt < STARTS;
    openPage(window, (isFresh && (await addressAfterRun(window.document, link))) || address);
  });
}
