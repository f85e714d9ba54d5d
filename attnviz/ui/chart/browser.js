// What the chart needs that is no chart: the payload, plotly.js, numbers as text, colors, files.

let plotly;

// A header of JSON, then the arrays it mentions as raw bytes, each on a multiple of eight.
function unpack(bytes) {
  const types = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, u2: Uint16Array, i4: Int32Array };
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  let offset = 8 + length;
  const specs = [];
  const find = (value) => {
    if (!value || typeof value !== "object") return;
    for (const [key, inner] of Object.entries(value)) {
      if (inner && inner.array !== undefined && inner.dtype) specs[inner.array] = [value, key, inner];
      else find(inner);
    }
  };
  find(header.figure);
  find(header.spec);
  for (const [owner, key, { dtype, shape }] of specs) {
    const count = shape.reduce((a, b) => a * b, 1);
    const size = count * types[dtype].BYTES_PER_ELEMENT;
    const flat = new types[dtype](bytes.slice(offset, offset + size).buffer);
    owner[key] = shape.length < 2 ? flat : Array.from({ length: shape[0] }, (_, i) => flat.subarray(i * shape[1], (i + 1) * shape[1]));
    offset += Math.ceil(size / 8) * 8;
  }
  return header;
}

function load(url) {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      plotly = undefined;
      reject(new Error(`${url} did not load`));
    };
    document.head.append(script);
  });
  return plotly;
}

function isDark(color) {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = color.trim() || "#fff";
  canvas.fillRect(0, 0, 1, 1);
  const [red, green, blue] = canvas.getImageData(0, 0, 1, 1).data;
  return 0.299 * red + 0.587 * green + 0.114 * blue < 128;
}

// The same digits as sentences.py writes: two, and more when the weight is small.
function number(weight) {
  if (weight < 0) return `−${number(-weight)}`;
  if (weight >= 0.095 || weight === 0) return weight.toFixed(2);
  if (weight >= 1e-4) return weight.toPrecision(2);
  return weight.toExponential(0).replace(/e-(\d)$/, "e-0$1");
}

// What became of a cell whose weight was before and is after; NaN is not allowed.
function kind(before, after) {
  if (Number.isNaN(before)) return Number.isNaN(after) ? "neither" : "added";
  if (Number.isNaN(after)) return "removed";
  // As compare.py has it: up to the last digits, in which sums of other lengths differ.
  return Math.abs(after - before) <= 1e-6 * Math.max(before, after) ? "same" : "re-weighted";
}

// Until the controllers read the specification themselves.
function described(spec) {
  const { mode } = spec;
  if (mode === "heatmap") {
    const { downsampled: cells, difference } = spec;
    return {
      rows: spec.queryTokens.length, columns: spec.keyTokens.length, queries: spec.queryTokens, keys: spec.keyTokens,
      queryLabels: spec.queryLabels, keyLabels: spec.keyLabels, says: spec.sentences.allowed, masked: spec.sentences.masked,
      nothing: spec.sentences.emptyRow, zoom: spec.zoomKey, link: spec.link, fan: spec.fan, whole: spec.wholeNumbers,
      cells: Object.fromEntries(spec.cellSentences.map(([row, column, said]) => [`${row} ${column}`, said])),
      ...(cells && { part: cells.viewport, at: { queries: cells.queryNames, keys: cells.keyNames, query: cells.queryPositions, key: cells.keyPositions } }),
      ...(difference && { of: difference.charts, changed: { ...difference.sentences, same: difference.sentences.kept, "re-weighted": difference.sentences.reweighted } }),
    };
  }
  if (mode === "mosaic")
    return { ...spec, tall: spec.tileHeight, broad: spec.tileWidth, above: spec.tileHeight - spec.height, square: spec.aspect ?? 0 };
  if (mode === "points") return { rows: spec.sentences.length, columns: 1, points: spec.sentences, bars: spec.bars, square: spec.aspect ?? 0 };
  if (mode === "plane") return { rows: spec.rows, square: spec.aspect, drag: { ...spec.drag, from: spec.drag.start, span: spec.drag.limits, says: spec.drag.sentence } };
  return spec;
}

function strongest(weights) {
  return weights.reduce((best, weight, j) => (weight > (weights[best] ?? -1) ? j : best), null);
}

async function raster(svg, width, height) {
  const url = URL.createObjectURL(svg);
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
