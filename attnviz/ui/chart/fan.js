// The fan of one query's weights, drawn over the chart.

const MOST_LINES = 400;

// Lines from the query to every key it looks at, and a bar at each key. Beside the heatmap the lines start at the
// query's own row; below it (on a narrow screen) at its name. Without a query: the lines of all queries.
function fan(chart, full, row, column, accent) {
  const { l, t, w, h } = full._size;
  const { queries, keys } = chart.meta;
  const color = getComputedStyle(chart.root).getPropertyValue("--st-text-color").trim();
  const count = keys.length;
  const top = chart.wide ? t : chart.height - chart.fanHeight + 24;
  const height = chart.wide ? h : chart.fanHeight - 32;
  const from = chart.wide ? l + w + 6 : Math.min(110, chart.width * 0.3);
  const span = chart.width - from;
  const to = from + span * (chart.wide ? 0.27 : 0.25);
  const longest = Math.max(3, ...keys.map((token) => token.length));
  const words = Math.min(96 * chart.letters, span * 0.34, 8 * chart.letters * longest);
  const bars = { x: to + words + 8, width: chart.width - to - words - 8 - 44 * chart.letters };
  const y = (j, of = count) => top + ((j + 0.5) * height) / of;
  const scale = chart.header.figure.layout.coloraxis.cmax || 1;
  const origin = (i) => {
    if (chart.wide) return t + Math.max(0, Math.min(h, full.yaxis.l2p(i)));
    return row === null ? y(i, queries.length) : top + height / 2;
  };
  const text = { "font-family": "inherit", "font-size": 13 * chart.letters, fill: color, "dominant-baseline": "central" };

  const [low, high] = [Math.min(...full.yaxis.range), Math.max(...full.yaxis.range)];
  const inView = (i) => !chart.wide || (i >= low && i <= high);
  const rows = row === null ? queries.map((_, i) => i).filter(inView) : [row];
  const lines = [];
  const least = row === null ? 0.02 : 0.004;
  for (const i of rows) chart.z[i].forEach((weight, j) => weight > least && lines.push({ i, j, weight }));
  lines.sort((a, b) => b.weight - a.weight);
  for (const { i, j, weight } of lines.slice(0, MOST_LINES)) {
    const [y0, y1, middle] = [origin(i), y(j), (from + to) / 2];
    chart.add("path", {
      d: `M${from} ${y0}C${middle} ${y0} ${middle} ${y1} ${to} ${y1}`,
      fill: "none",
      stroke: j === column ? accent : color,
      "stroke-opacity": j === column ? 1 : (row === null ? 0.45 : 0.9) * Math.min(1, 0.08 + weight / scale),
      "stroke-width": 1 + 3 * Math.min(1, weight / scale),
    });
  }

  // As many names as can be read, the keys that get most of the query's attention first.
  const apart = (order, place) => {
    const placed = [];
    for (const i of order)
      if (placed.every((other) => Math.abs(place(other) - place(i)) >= chart.line * 0.95)) placed.push(i);
    return placed;
  };
  const names = [];
  if (!chart.wide)
    for (const i of apart(rows, origin)) {
      const weight = row === null ? 400 : 600;
      const at = { x: from - 6, y: origin(i), "text-anchor": "end", "font-weight": weight };
      names.push([chart.add("text", { ...text, ...at }, queries[i]), from - 10]);
    }
  // Of many keys, those that get next to nothing need no name.
  const order = keys.map((_, j) => j).filter((j) => row === null || count <= 40 || chart.z[row][j] > 0.002);
  if (row !== null) order.sort((a, b) => (chart.z[row][b] || 0) - (chart.z[row][a] || 0));
  if (column !== null) order.unshift(column);
  const placed = apart(order, (j) => y(j));
  for (const j of placed) {
    const marked = j === column ? { fill: accent, "font-weight": 600 } : {};
    names.push([chart.add("text", { ...text, x: to + 4, y: y(j), ...marked }, keys[j]), words]);
  }
  if (row === null) return shorten(names);
  const thick = Math.max(1, Math.min(chart.line - 4, (height / count) * 0.7));
  for (let j = 0; j < count; j++) {
    const weight = chart.z[row][j];
    if (Number.isNaN(weight)) continue;
    const width = Math.max(1, Math.min(1, weight / scale) * bars.width);
    const fill = j === column ? accent : color;
    chart.add("rect", { x: bars.x, y: y(j) - thick / 2, width, height: thick, fill, "fill-opacity": j === column ? 1 : 0.75, rx: 1 });
    if (placed.includes(j)) chart.add("text", { ...text, "font-size": 12 * chart.letters, x: bars.x + width + 4, y: y(j), fill }, number(weight));
  }
  shorten(names);
}

// Names of at most so many pixels. All are measured before any is changed: the browser lays out once.
function shorten(names) {
  const texts = names.map(([element]) => element.textContent);
  names.forEach(([element], i) => texts[i].length > 40 && (element.textContent = `${texts[i].slice(0, 40)}…`));
  const long = names.map(([element, width]) => element.getComputedTextLength() > width);
  names.forEach(([element, width], i) => {
    for (let length = Math.min(texts[i].length, 40) - 1; long[i] && length > 0; length--) {
      element.textContent = `${texts[i].slice(0, length)}…`;
      long[i] = element.getComputedTextLength() > width;
    }
  });
}
