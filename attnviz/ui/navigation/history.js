/** The browser's history: one entry for each choice of a person.
 *
 * Streamlit's client replaces the entry when a widget changes, and adds one for each parameter that the server changes:
 * a slider could not be undone, and one click on a plane had to be undone twice. */

const MODIFIERS = new Set(["Alt", "AltGraph", "Control", "Meta", "Shift"]);

/** Makes the first change of the address after an action of a person a new entry; further changes belong to it.
 * @param {Window} window */
export function keepOneEntryPerChoice(window) {
  const { history, location } = window;
  const push = history.pushState.bind(history);
  const replace = history.replaceState.bind(history);
  let acted = false;

  /** @type {typeof history.pushState} */
  const write = (state, unused, url) => {
    const changes = url != null && new URL(url, location.href).href !== location.href;
    if (changes && acted) {
      acted = false;
      push(state, unused, url);
    } else replace(state, unused, url);
  };
  history.pushState = write;
  history.replaceState = write;

  const act = () => (acted = true);
  window.addEventListener("pointerdown", act, true);
  window.addEventListener("keydown", event => event.repeat || MODIFIERS.has(event.key) || act(), true);
  window.addEventListener("popstate", () => (acted = false), true);
}
