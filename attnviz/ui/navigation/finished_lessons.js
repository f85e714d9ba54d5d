/** Which lessons have been finished in this browser: their ticks in the list of lessons are shown. */

const KEY = "attnviz-finished-lessons"; // in the browser alone

/** @param {Window} window */
export function tickFinishedLessons({ document, localStorage }) {
  const [results, ticks] = ["attnviz-lesson-result", "attnviz-tick"].map(
    part => /** @type {HTMLCollectionOf<HTMLElement>} */ (document.getElementsByClassName(part)),
  );
  const update = () => {
    if (!results.length && !ticks.length) return;
    const finished = new Set(localStorage.getItem(KEY)?.split(" "));
    for (const { dataset } of results) {
      if (!finished.has(`${dataset.lesson}`)) localStorage.setItem(KEY, [...finished.add(`${dataset.lesson}`)].join(" "));
    }
    for (const tick of ticks) tick.hidden = !finished.has(`${tick.dataset.lesson}`);
  };
  new MutationObserver(update).observe(document.body, { subtree: true, childList: true });
}
