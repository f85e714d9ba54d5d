// plotly.js from compressed bytes, once for a page, and apart from any other plotly.js that the page has.

/**
 * @param {() => Promise<Uint8Array>} read the compressed script
 * @returns {Promise<void>}
 */
export function loadPlotly(read) {
  const page = /** @type {any} */ (window);
  page.attnvizLoading ??= load(page, read).catch((error) => {
    page.attnvizLoading = undefined;
    throw error;
  });
  return page.attnvizLoading;
}

/**
 * @param {any} page
 * @param {() => Promise<Uint8Array>} read
 */
async function load(page, read) {
  const script = await gunzip(await read());
  // A page with require.js or with modules would take the script for a module of its own.
  const parts = ["(function (module, exports, define) {", script, "\n})();"];
  const url = URL.createObjectURL(new Blob(/** @type {BlobPart[]} */ (parts), { type: "text/javascript" }));
  const before = page.Plotly;
  await new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement("script"), { src: url });
    element.addEventListener("load", resolve);
    element.addEventListener("error", () => reject(new Error("The page does not allow plotly.js to run.")));
    document.head.append(element);
  });
  URL.revokeObjectURL(url);
  page.attnvizPlotly = page.Plotly;
  page.Plotly = before;
}

/**
 * @param {Uint8Array} bytes
 * @returns {Promise<Uint8Array>}
 */
export async function gunzip(bytes) {
  const stream = new Blob([/** @type {BlobPart} */ (bytes)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
