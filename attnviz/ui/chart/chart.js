// Shows one plotly figure and keeps it. A heatmap (layout.meta.queries) can be read: the pointer or the arrow keys
// pick a cell, which is said in a sentence, and its query's weights fan out to the keys as lines and bars.
// A mosaic (layout.meta.names) names the head under the pointer, a figure of points (layout.meta.points) the point that
// is nearest. Any other figure is only shown. Heatmaps of one link (layout.meta.link) mark the same cell and show the
// same part. Text goes in as textContent only.

const SVG = "http://www.w3.org/2000/svg";
const LINE_HEIGHT = 15; // pixels between two labels of 14 pixels that can both be read
const DOUBLE_CLICK = 300; // milliseconds, as plotly has it
const mounts = new WeakMap();
const all = new Set();

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".attnviz-chart");
  if (!mounts.has(root)) mounts.set(root, new Chart(root));
  const chart = mounts.get(root);
  chart.report = setTriggerValue;
  all.add(chart);
  chart.show(unpack(data));
  return () => chart.close();
}

class Chart {
  constructor(root) {
    this.root = root;
    for (const name of ["graph", "overlay", "stage", "sentence", "tools", "description", "live"])
      this[name] = root.querySelector(`.attnviz-${name}`);
    this.run = 0;
    this.cursor = null; // the cell under the pointer or the arrow keys
    this.stage.addEventListener("pointermove", (event) => this.point(event));
    this.stage.addEventListener("pointerleave", () => this.readAll(null));
    this.stage.addEventListener("pointerdown", (down) => {
      if (down.button !== 0 || !down.isPrimary) return;
      if (this.header?.drags) return;
      if (this.header?.paints) return paint(this, down);
      // Plotly covers the page while a button is down, so the release arrives at the window alone.
      const press = new AbortController();
      const end = (up) => {
        press.abort();
        if (up.type === "pointerup") this.release(down, up);
      };
      for (const kind of ["pointerup", "pointercancel"])
        window.addEventListener(kind, end, { signal: press.signal });
    });
    this.stage.addEventListener("keydown", (event) => this.key(event));
    draggable(this);
    this.stage.addEventListener("blur", () => this.readAll(null));
    for (const kind of ["PNG", "SVG"]) this.button(kind, `Download ${kind}`, () => this.save(kind));
    this.reset = this.button("Reset zoom", "Reset zoom", () => unzoom(this));
    this.reset.hidden = true;
    this.resized = new ResizeObserver(() => {
      if (this.header && Math.abs(this.width - this.stage.clientWidth) > 1) this.show(this.header);
    });
    this.resized.observe(this.stage);
  }

  button(text, label, action) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.title = label;
    button.setAttribute("aria-label", label);
    button.onclick = action;
    this.tools.append(button);
    return button;
  }

  close() {
    this.resized.disconnect();
    mounts.delete(this.root);
    all.delete(this);
    window.Plotly?.purge(this.graph);
  }

  async show(header) {
    const run = ++this.run;
    if (header.drags) header.figure.data = kept(this.header?.figure.data, header.figure.data);
    this.header = header;
    this.root.dataset.ready = "false";
    const { figure, themes } = header;
    this.stroke = null; // what was painted is in the new figure
    this.stage.classList.toggle("attnviz-paints", header.paints);
    this.stage.classList.toggle("attnviz-drags", header.drags);
    const meta = (this.meta = described(header.spec));
    this.theme = isDark(getComputedStyle(this.root).getPropertyValue("--st-background-color")) ? "dark" : "light";
    this.root.dataset.theme = this.theme;
    // The cells that can be pointed at; a point is a row of one.
    this.z = meta.points?.map(() => [NaN]) ?? (meta.queries || meta.names ? figure.data[0].z : []);
    const { row = 0, column = 0 } = this.cursor ?? {};
    if (row >= this.z.length || column >= this.z[0].length) this.cursor = null;
    this.viewed = String([0, meta.rows - 1, 0, meta.columns - 1]); // the part in view that was asked for last
    this.drawn = false; // until then the pointer would read the new numbers at the places of the old picture
    this.stage.setAttribute("aria-label", header.label);
    this.sentence.dataset.title = header.title;
    this.description.textContent = header.description;
    this.description.id = `attnviz-${header.key}-description`;
    this.stage.setAttribute("aria-describedby", this.description.id);
    this.width = this.stage.clientWidth;
    this.wide = this.width >= 560;
    this.root.classList.toggle("attnviz-small", Boolean(meta.queries && !meta.fan && !this.wide));
    // As high as a window has room for, where charts stand side by side; the letters grow along. Without a fan a
    // heatmap is about as wide as high.
    const fanned = meta.queries && meta.fan;
    const most = meta.queries && !meta.fan ? Math.max(header.height, this.width) : 900;
    const room = header.grows && window.innerWidth > 640 ? Math.min(most, window.innerHeight - 330) : 0;
    const height = meta.square ? Math.min(Math.max(header.height, room), meta.square * this.width + 40) : Math.max(header.height, room);
    // In a presentation the page's own letters are larger, and the chart's follow.
    const large = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    this.letters = Math.max(large, this.wide || meta.names ? Math.min(1.5, height / header.height, this.width / 340) : 1);
    this.root.style.setProperty("--letters", this.letters);
    this.line = LINE_HEIGHT * this.letters;
    const below = fanned && !this.wide ? Math.min(420, 60 + meta.keys.length * this.line) : 0;
    this.height = height + below;
    this.stage.style.height = `${this.height}px`;
    const margin = { ...figure.layout.margin };
    if (fanned && this.wide) margin.r = Math.max(200, Math.min(330 * this.letters, this.width * 0.4));
    if (below) margin.b = below + 96;
    this.fanHeight = below;
    // A copy, because plotly writes into what it is given.
    const layout = structuredClone({ ...figure.layout, template: themes[this.theme], margin });
    Object.assign(layout, { width: this.width, height: this.height });
    layout.font = { size: Math.round(14 * this.letters) };
    // A finger that drags wants to scroll the page.
    if (header.paints || matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
    this.hint = header.hint + (header.views && layout.dragmode ? " Drag to zoom." : "");
    if (meta.zoom === this.zoom && !this.reset.hidden) keepZoom(this, layout);
    this.zoom = meta.zoom;
    if (meta.queries) Object.assign(layout, this.ticks(layout, layout));
    try {
      const Plotly = await load(header.plotly);
      if (run !== this.run) return;
      await Plotly.react(this.graph, figure.data, layout, { displayModeBar: false, doubleClick: false, showTips: false });
      if (run !== this.run) return;
      if (!this.wired) {
        this.wired = true;
        this.graph.on("plotly_relayout", async () => {
          await zoomed(this);
          this.draw();
          look(this);
        });
        this.graph.on("plotly_doubleclick", () => unzoom(this));
      }
      this.drawn = true;
      await zoomed(this);
      look(this); // a zoom that was kept
      this.read(this.cursor);
      if (header.drags) drawn(this);
      for (const peer of this.peers()) if (peer.meta.of) peer.read(peer.cursor); // it says our cells
      this.root.dataset.rows = meta.rows ?? "";
      this.root.dataset.columns = meta.columns ?? "";
      requestAnimationFrame(() => requestAnimationFrame(() => run === this.run && (this.root.dataset.ready = "true")));
    } catch (error) {
      this.say(`The chart could not be drawn: ${error.message}. Reload the page.`);
    }
  }

  // As many labels as fit the part in view, at least LINE_HEIGHT apart.
  ticks(layout, ranges) {
    const pick = (labels, range, pixels) => {
      const [from, to] = [Math.min(...range), Math.max(...range)];
      const step = Math.max(1, Math.ceil((this.line * (to - from)) / pixels));
      const tickvals = labels.map((_, i) => i).filter((i) => i % step === 0 && i >= from && i <= to);
      return { tickvals, ticktext: tickvals.map((i) => labels[i]) };
    };
    const { l = 0, r = 0, t = 0, b = 0 } = layout.margin;
    const size = this.graph._fullLayout?._size ?? { w: this.width - l - r - 70, h: this.height - t - b - 70 };
    return {
      xaxis: { ...layout.xaxis, ...pick(this.meta.keyLabels, ranges.xaxis.range, size.w) },
      yaxis: { ...layout.yaxis, ...pick(this.meta.queryLabels, ranges.yaxis.range, size.h) },
    };
  }

  // The other charts of the same link.
  peers() {
    const { link, rows, columns } = this.meta;
    const like = (chart) => chart.meta?.link === link && chart.meta.rows === rows && chart.meta.columns === columns;
    return link ? [...all].filter((chart) => chart !== this && chart.drawn && like(chart)) : [];
  }

  // Pointer and keys ---------------------------------------------------------------------------------------------

  // The cell at a pointer event. To the left of a heatmap its row alone, without a column.
  cell(event) {
    const full = this.graph._fullLayout;
    if (!this.drawn || !full?.xaxis) return null;
    if (this.meta.points) return nearest(this, event);
    const box = this.stage.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - full._size.l, event.clientY - box.top - full._size.t];
    if (y < 0 || y > full._size.h || x > full._size.w) return null;
    const row = Math.round(full.yaxis.p2l(y));
    const column = Math.round(full.xaxis.p2l(x));
    if (row < 0 || row >= this.z.length) return null;
    if (x < 0) return this.meta.queries ? { row, column: null } : null;
    const outside = column < 0 || column >= this.z[0].length;
    const blank = this.meta.names && !this.meta.names[this.tile({ row, column })];
    return outside || blank ? null : { row, column };
  }

  point(event) {
    this.pointed = event;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.readAll(this.cell(this.pointed));
    });
  }

  release(down, up) {
    const cell = this.cell(up);
    if (!cell || Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY) > 4) return;
    clearTimeout(this.waiting);
    if (this.reset.hidden) return this.click(cell);
    // In a zoomed map it may be the first half of the double click that zooms out again.
    const second = up.timeStamp - this.released < DOUBLE_CLICK;
    this.released = up.timeStamp;
    if (!second) this.waiting = setTimeout(() => this.click(cell), DOUBLE_CLICK);
  }

  // The stamp tells Python which figure was clicked; a click on one that has been replaced by then is dropped.
  click({ row, column }) {
    this.report("click", { row, column: column ?? -1, stamp: this.header.stamp });
  }

  key(event) {
    if (!this.drawn || !this.z.length || event.target !== this.stage || event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    // From cell to cell within the part in view; in a mosaic from head to head.
    const { names, points, tall = 1, broad = 1, above = 0 } = this.meta;
    const [left, right, top, bottom] = ["xaxis", "yaxis"].flatMap((axis) => {
      const range = this.graph._fullLayout[axis].range;
      return [Math.ceil(Math.min(...range)), Math.floor(Math.max(...range))];
    });
    const first = names ? { row: above, column: 0 } : points ? beside(this) : { row: this.header.pinned ?? top, column: left };
    const at = { ...(this.cursor ?? first) };
    const step = steps[event.key];
    if (step && this.cursor && points) Object.assign(at, beside(this, at, step));
    else if (step && this.cursor) {
      at.row = Math.max(top, Math.min(bottom, at.row + step[0] * tall));
      at.column = Math.max(left, Math.min(right, (at.column ?? 0) + step[1] * broad));
    } else if (event.key === "Home") at.column = left;
    else if (event.key === "End") at.column = right;
    else if (this.header.paints && event.key === " ") brush(this, at).end();
    else if (event.key === "Enter" || event.key === " ") this.click(at);
    else if (event.key === "Escape" && Number.isInteger(this.header.pinned)) this.click({ row: this.header.pinned });
    else if (!(event.key in steps)) return;
    event.preventDefault();
    if (names && !names[this.tile(at)]) return;
    this.readAll(at);
    this.live.textContent = this.sentence.textContent;
  }

  // Reading ------------------------------------------------------------------------------------------------------

  readAll(cell) {
    for (const chart of [this, ...this.peers()]) chart.read(cell);
  }

  read(cell) {
    this.cursor = cell;
    const names = this.meta.names ?? this.meta.points;
    if (names) {
      this.say(cell ? names[this.tile(cell)] : this.hint, !cell);
      this.stage.style.cursor = cell && this.header.clicks ? "pointer" : "";
      this.draw();
      return;
    }
    if (!this.drawn) return;
    if (!this.z.length) return this.draw();
    const pinned = this.header.pinned;
    if (!cell && this.header.paints) this.say(this.hint, true);
    else if (cell || pinned !== null) {
      const row = cell ? cell.row : pinned;
      const column = cell?.column ?? strongest(this.meta.of ? this.z[row].map(Math.abs) : this.z[row]);
      if (column === null) this.say(this.meta.nothing, false, { query: this.meta.queries[row] });
      else this.sayCell(row, column);
    } else this.say(this.hint, true);
    this.draw();
  }

  sayCell(row, column) {
    const { queries, keys, says, masked, cells, whole, of, changed, at } = this.meta;
    const weight = this.z[row][column];
    // In a reduced map the cell says where its largest weight stands.
    const [query, key] = at ? [at.queries[at.query[row][column]], at.keys[at.key[row][column]]] : [queries[row], keys[column]];
    const words = { query, key, weight: whole ? String(weight) : number(weight) };
    if (!of) return this.say(cells?.[`${row} ${column}`] ?? (Number.isNaN(weight) ? masked : says), false, words);
    const [before, after] = of.map((key) => this.peers().find((chart) => chart.header.key === key)?.z[row][column]);
    if (before === undefined || after === undefined) return this.say("");
    this.say(changed[kind(before, after)], false, { ...words, before: number(before), after: number(after) });
  }

  say(template, hint = false, words = {}) {
    this.sentence.classList.toggle("attnviz-hint", hint);
    this.sentence.replaceChildren(
      ...template.split(/(\{\w+\})/).map((part) => {
        const name = part.slice(1, -1);
        if (!(part.startsWith("{") && name in words)) return part;
        const element = document.createElement("bdi");
        element.textContent = words[name];
        return element;
      }),
    );
    this.sentence.title = this.sentence.textContent;
  }

  tile({ row, column }) {
    const { tall, broad, columns, points } = this.meta;
    return points ? row : Math.floor(row / tall) * columns + Math.floor(column / broad);
  }

  // Everything drawn over the heatmap: the marked row and cell, and the fan of the query's weights.
  draw() {
    const full = this.graph._fullLayout;
    if (!this.drawn) return;
    this.overlay.replaceChildren();
    if (!this.z.length) return;
    const { l, t, w, h } = full._size;
    const edge = (axis, i, limit) => Math.max(0, Math.min(limit, axis.l2p(i)));
    const frame = (row, column, style) => {
      let top = edge(full.yaxis, row - 0.5, h);
      const left = column === null ? 0 : edge(full.xaxis, column - 0.5, w);
      const right = column === null ? w : edge(full.xaxis, column + 0.5, w);
      let height = edge(full.yaxis, row + 0.5, h) - top;
      if (height > 0 && height < 6) [top, height] = [top - 3, height + 6]; // around a thin row, not over it
      if (height > 0 && right > left)
        this.add("rect", { x: l + left, y: t + top, width: right - left, height, fill: "none", ...style });
    };
    const accent = getComputedStyle(this.root).getPropertyValue("--accent").trim();
    if (this.meta.points) return ring(this, accent);
    if (this.meta.names) {
      if (!this.cursor) return;
      const { tall, broad, above, width } = this.meta;
      const [top, left] = [Math.floor(this.cursor.row / tall) * tall + above, Math.floor(this.cursor.column / broad) * broad];
      const [x, y] = [full.xaxis.l2p(left - 0.5), full.yaxis.l2p(top - 0.5)];
      const size = { width: full.xaxis.l2p(left + width - 0.5) - x, height: full.yaxis.l2p(top + tall - above - 0.5) - y };
      this.add("rect", { x: l + x, y: t + y, ...size, fill: "none", stroke: accent, "stroke-width": 2 });
      return;
    }
    const pinned = this.header.pinned;
    const row = this.cursor?.row ?? pinned;
    if (pinned !== null) frame(pinned, null, { stroke: accent, "stroke-width": 3 });
    if (this.cursor && this.cursor.row !== pinned) frame(this.cursor.row, null, { stroke: accent, "stroke-width": 1.5 });
    if (this.cursor && this.cursor.column !== null)
      frame(this.cursor.row, this.cursor.column, { stroke: accent, "stroke-width": 3 });
    for (const cell of this.stroke?.cells.values() ?? [])
      frame(cell.row, cell.column, { fill: accent, "fill-opacity": this.stroke.value ? 0.7 : 0.25 });
    if (this.meta.fan) fan(this, full, row, this.cursor?.column ?? null, accent);
  }

  add(name, attributes, text) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    this.overlay.append(element);
    return element;
  }

  // Saving -------------------------------------------------------------------------------------------------------

  async save(kind) {
    const { width, height } = this;
    const picture = await window.Plotly.toImage(this.graph, { format: "svg", width, height });
    const page = new DOMParser().parseFromString(decodeURIComponent(picture.slice(picture.indexOf(",") + 1)), "image/svg+xml");
    const paper = document.createElementNS(SVG, "rect");
    paper.setAttribute("width", width);
    paper.setAttribute("height", height);
    paper.setAttribute("fill", getComputedStyle(this.root).getPropertyValue("--st-background-color"));
    page.documentElement.prepend(paper);
    for (const element of this.overlay.children) page.documentElement.append(element.cloneNode(true));
    page.documentElement.setAttribute("font-family", "Source Sans, Helvetica, Arial, sans-serif");
    const source = new XMLSerializer().serializeToString(page);
    const svg = new Blob([source], { type: "image/svg+xml" });
    download(kind === "SVG" ? svg : await raster(svg, width, height), `${this.header.name}.${kind.toLowerCase()}`);
  }
}
