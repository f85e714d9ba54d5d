/** Links between the pages of the app, which open without loading the app anew. */

// Streamlit sends the texts of these fields when they are left, or with a key.
const TYPED = ":is([data-testid=stTextInput], [data-testid=stTextArea], [data-testid=stNumberInput]) :is(input, textarea)";
const LONGEST_WAIT = 10_000; // milliseconds that a link waits for a run
const APP = "[data-testid=stApp]";

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

/** Tells whether what was typed into a field and left is still to be seen by a run of the page: Streamlit's client says
 * that a run is under way once the server has begun it, which takes longer on a busy one.
 * @param {Window} window
 * @returns {() => boolean} */
function followRuns(window) {
  const { document } = window;
  let isTyped = false, before = "";
  /** @type {"" | "asked" | "begun"} */
  let run = "";
  /** @type {(event: Event) => HTMLInputElement | HTMLTextAreaElement | null} */
  const field = ({ target }) => (target instanceof Element && target.matches(TYPED) ? /** @type {HTMLInputElement} */ (target) : null);
  /** @type {(event: Event) => void} */
  const begin = event => {
    isTyped = false;
    before = field(event)?.value ?? "";
  };
  /** @type {(event: Event) => void} */
  const end = event => {
    if (isTyped && field(event)?.value !== before) run = "asked";
    begin(event);
  };
  window.addEventListener("focusin", begin, true);
  window.addEventListener("input", event => isTyped ||= field(event) !== null, true);
  window.addEventListener("keydown", event => {
    const isSent = event.ctrlKey || event.metaKey || field(event)?.tagName === "INPUT";
    if (event.key === "Enter" && isSent) end(event);
  }, true);
  window.addEventListener("focusout", end, true);
  new MutationObserver(() => {
    const isRunning = /** @type {HTMLElement | null} */ (document.querySelector(APP))?.dataset.testScriptState === "running";
    if (isRunning && run) run = "begun";
    else if (!isRunning && run === "begun") run = "";
  }).observe(document, { subtree: true, attributeFilter: ["data-test-script-state"] });
  return () => run !== "";
}

/** Waits until a run has seen what was typed, and returns where a link leads after it.
 * @param {Document} document
 * @param {HTMLAnchorElement} link
 * @param {() => boolean} isAwaited */
async function addressAfterRun(document, link, isAwaited) {
  const same = () => [...document.querySelectorAll("a")].filter(one => one.textContent === link.textContent);
  const place = same().indexOf(link), end = performance.now() + LONGEST_WAIT;
  while (isAwaited() && performance.now() < end) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  const now = link.isConnected ? link : same()[place];
  return now ? pageOf(now, document.location) : null;
}

/** @param {Event} event */
const linkOf = event => (event.target instanceof Element ? event.target.closest("a") : null);

/** Opens links to pages in place, unless a key or another button asks for a tab of their own. What was typed into a field
 * that the click leaves is in the state of the page that opens.
 * @param {Window} window */
export function openLinksInPlace(window) {
  const { document } = window;
  const isAwaited = followRuns(window);
  const typedField = () => /** @type {HTMLElement | null} */ (document.activeElement?.closest(TYPED) ?? null);
  // A field that is left before the button is released starts a run, which may replace the link: it would get no click.
  window.addEventListener("mousedown", event => {
    if (linkOf(event) && typedField()) event.preventDefault();
  });
  window.addEventListener("click", async event => {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = linkOf(event);
    if (link) typedField()?.blur();
    const translated = link && inLanguage(link, window.location);
    if (translated) {
      event.preventDefault();
      window.location.assign(translated); // anew: every widget has its names in one language
      return;
    }
    const address = link && pageOf(link, window.location);
    if (!address) return;
    event.preventDefault();
    openPage(window, (isAwaited() && (await addressAfterRun(document, link, isAwaited))) || address);
  });
  window.addEventListener("submit", event => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || !form.matches(".attnviz-own-text")) return;
    event.preventDefault();
    const fields = [...new FormData(form)].map(([name, value]) => [name, `${value}`]);
    openPage(window, `${form.action}?${new URLSearchParams(fields)}`);
  });
}
