// Starts the viewers of a page that needs no Python. It stands in the page as a script of its own, once for each
// viewer, and starts those that are there by then.

(() => {
  const page = /** @type {any} */ (window);

  /**
   * Waits for an element: it may be further down, or in a part of a notebook that is not drawn yet.
   * @param {string} selector
   * @returns {Promise<Element>}
   */
  const found = (selector) =>
    new Promise((resolve) => {
      const look = () => {
        const element = document.querySelector(selector);
        if (element) resolve(element);
        return element;
      };
      if (look()) return;
      const observer = new MutationObserver(() => look() && observer.disconnect());
      observer.observe(document.documentElement, { childList: true, subtree: true });
    });

  const loadLibrary = async () => {
    const { script, styles, plotly } = JSON.parse((await found("script[data-attnviz-library]")).textContent ?? "");
    document.head.append(Object.assign(document.createElement("style"), { textContent: styles }));
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    return { start: (await import(address)).default, plotly };
  };

  /**
   * @param {HTMLElement} root
   * @returns {Promise<void>}
   */
  const visible = (root) =>
    new Promise((resolve) => {
      const observer = new IntersectionObserver(
        ([{ isIntersecting }]) => {
          if (!isIntersecting) return;
          observer.disconnect();
          resolve();
        },
        { rootMargin: "400px" },
      );
      observer.observe(root);
    });

  /** @param {HTMLElement} root */
  const start = async (root) => {
    const { attnviz: key = "", wait = "0" } = root.dataset;
    root.dataset.started = "true";
    await new Promise((resolve) => setTimeout(resolve, Number(wait))); // with a kernel, the widget takes its place
    if (page.attnvizLive?.has(key)) return root.remove();
    const data = JSON.parse((await found(`script[data-attnviz-data="${key}"]`)).textContent ?? "");
    const library = await (page.attnvizLibrary ??= loadLibrary());
    await visible(root);
    library.start(root, data, library.plotly);
  };

  for (const root of document.querySelectorAll("[data-attnviz]:not([data-started])")) start(/** @type {HTMLElement} */ (root));
})();
