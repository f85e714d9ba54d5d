// The part of a heatmap that is in view: its labels, the charts that follow it, and, of a map in fewer cells
// (on_view in Python), the question for a figure of that part.

async function zoomed(chart) {
  const { graph, meta } = chart;
  const full = graph._fullLayout;
  if (!chart.drawn) return;
  if (meta.queries && !chart.relabelling) {
    const home = chart.header.figure.layout;
    const same = (axis) => full[axis].range.every((end, i) => Math.abs(end - home[axis].range[i]) < 1e-6);
    chart.reset.hidden = same("xaxis") && same("yaxis") && !meta.part;
    const { xaxis, yaxis } = chart.ticks(full, full);
    if (String([full.xaxis.tickvals, full.yaxis.tickvals]) !== String([xaxis.tickvals, yaxis.tickvals])) {
      chart.relabelling = true;
      await window.Plotly.relayout(graph, {
        "xaxis.tickvals": xaxis.tickvals,
        "xaxis.ticktext": xaxis.ticktext,
        "yaxis.tickvals": yaxis.tickvals,
        "yaxis.ticktext": yaxis.ticktext,
      });
      chart.relabelling = false;
    }
    for (const peer of chart.peers()) zoomTo(peer, ["xaxis", "yaxis"].map((axis) => [...full[axis].range]));
  }
}

// The part that another chart of the same link shows.
function zoomTo(chart, [x, y]) {
  const { xaxis, yaxis } = chart.graph._fullLayout;
  const apart = [...x, ...y].some((end, i) => Math.abs(end - [...xaxis.range, ...yaxis.range][i]) > 1e-6);
  if (!apart) return;
  chart.following = true; // it is the other chart that asks for what is in view
  window.Plotly.relayout(chart.graph, { "xaxis.range": x, "yaxis.range": y }).then(() => (chart.following = false));
}

// The part in view stays in view, as far as the new figure has it.
function keepZoom(chart, layout) {
  for (const axis of ["xaxis", "yaxis"]) {
    const [low, high] = [Math.min(...layout[axis].range), Math.max(...layout[axis].range)];
    const range = chart.graph._fullLayout[axis].range.map((end) => Math.max(low, Math.min(high, end)));
    if (range[0] !== range[1]) layout[axis].range = range;
  }
}

function unzoom(chart) {
  if (chart.meta.part) return chart.report("view", { cells: null, stamp: chart.header.stamp });
  const { xaxis, yaxis } = chart.header.figure.layout;
  window.Plotly.relayout(chart.graph, { "xaxis.range": [...xaxis.range], "yaxis.range": [...yaxis.range] });
}

// Asks for a figure of the part in view, once somebody has zoomed into it.
function look(chart) {
  if (!chart.header.views || !chart.drawn || chart.relabelling || chart.following) return;
  const [home, full] = [chart.header.figure.layout, chart.graph._fullLayout];
  const cells = ["yaxis", "xaxis"].flatMap((axis) => {
    const [ends, all] = [full[axis].range, home[axis].range].map((range) => [...range].sort((a, b) => a - b));
    const within = [Math.max(ends[0], all[0]) + 0.5, Math.min(ends[1], all[1]) - 0.5];
    const [first, last] = within.map((end) => Number(end.toFixed(3)));
    return [Math.floor(first), Math.max(Math.floor(first), Math.ceil(last))];
  });
  if (chart.viewed === String(cells)) return;
  chart.viewed = String(cells);
  chart.report("view", { cells, stamp: chart.header.stamp });
}
