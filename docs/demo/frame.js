// Gives the pages of the demo that a page holds its own colors, light or dark, in their addresses.

const scheme = () => (document.body.dataset.mdColorScheme === "slate" ? "#dark" : "#light");

for (const frame of /** @type {NodeListOf<HTMLIFrameElement>} */ (document.querySelectorAll("iframe.demo"))) {
  let shown = frame.src;
  const follow = () => {
    const address = new URL(scheme(), shown).href;
    if (address !== shown) frame.contentWindow?.location.replace((shown = address)); // only the colors change
  };
  frame.src = shown = new URL(scheme(), shown).href;
  new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
}
