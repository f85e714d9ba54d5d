// Points and bars that can be read and clicked: those of a figure's first trace, named in layout.meta.points.

const NEAR = 40; // pixels from the pointer to a point that is meant

// The point nearest to the pointer; of bars (layout.meta.bars) the one above or below it.
function nearest(chart, pointer) {
  const box = chart.stage.getBoundingClientRect();
  const { l, t, w, h } = chart.graph._fullLayout._size;
  const [left, top] = [pointer.clientX - box.left, pointer.clientY - box.top];
  const { bars } = chart.meta;
  if (bars && (left < l || left > l + w || top < t || top > t + h)) return null;
  const far = ([x, y]) => Math.hypot(x - left, bars ? 0 : y - top);
  const distances = spots(chart).map((spot) => far(spot));
  const row = distances.reduce((best, one, i) => (one < (distances[best] ?? NEAR) ? i : best), null);
  return row === null ? null : { row, column: 0 };
}

// Where the points are, in pixels of the stage; NaN where one has no place.
function spots(chart) {
  const { x, y } = chart.header.figure.data[0];
  return chart.meta.points.map((_, i) => pixels(chart, [x[i], y[i]]));
}

// The next point to the right or the left, or upwards or downwards; without a point to start from the first at the left.
function beside(chart, { row } = {}, [down, right] = [0, 1]) {
  const places = spots(chart);
  const order = places.map((_, i) => i).filter((i) => !places[i].some(Number.isNaN));
  const along = right ? 0 : 1;
  order.sort((a, b) => places[a][along] - places[b][along]);
  const at = order.indexOf(row) + (right || down);
  return { row: order[Math.max(0, Math.min(order.length - 1, at))] ?? 0, column: 0 };
}

function ring(chart, accent) {
  const [cx, cy] = chart.cursor ? spots(chart)[chart.cursor.row] : [NaN, NaN];
  if (!Number.isNaN(cx + cy)) chart.add("circle", { cx, cy, r: 9, fill: "none", stroke: accent, "stroke-width": 3 });
}
