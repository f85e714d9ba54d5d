// Where everything of a whole model stands: stages along the direction of reading, tokens across it. On a wide screen
// that direction is to the right, the encoder above the decoder; on a phone it is down, the decoder after the encoder.

/** @typedef {import("./types").Box} Box */
/** @typedef {import("./types").Line} Line */

const LEAST_WEIGHT = 0.03; // of a weight that is drawn as a line
const LEAST_CELL = 6; // pixels of a column of a map

/**
 * @param {import("./types").ModelPicture} picture
 * @param {import("./types").Room} room
 * @param {boolean} [isCompact] with shorter bars and links, where there is no room for more
 * @returns {import("./types").ModelLayout}
 */
export function modelLayout(picture, room, isCompact = false) {
  const { vertical, letter } = room;
  const bar = vertical ? 20 : isCompact ? letter * 1.7 : Math.max(26, letter * 2.3);
  const slim = vertical ? 16 : isCompact ? letter * 0.65 : Math.max(9, letter * 0.85); // of a bar of a layer that shows nothing else
  const slimPad = vertical ? 5 : 3;
  /** @param {number} s */
  const barOf = (s) => (picture.stages[s].kind === "slim" ? slim : bar);
  const nameSpace = picture.bands.map((band) => {
    const longest = Math.max(...band.tokens.map((token) => token.length), 4);
    return vertical ? Math.min(longest * letter * 0.56 + 14, 74) : Math.min(Math.max(longest * 0.56, 4.7) * letter + 14, 200);
  });
  const fixed = { network: vertical ? 44 : letter * (isCompact ? 2.5 : 3.4), norm: vertical ? 30 : letter * 1.8, pad: vertical ? 8 : letter * 0.6 };
  const nextWidth = picture.next ? (vertical ? 0 : letter * (isCompact ? 13.5 : 14.5)) : 0;

  /** @param {number} link the length of a link with attention */
  const place = (link) => {
    const starts = picture.stages.map(() => 0);
    const ends = picture.stages.map(() => 0);
    let end = 0;
    let reached = 0; // by the bands before
    picture.bands.forEach((band, i) => {
      const own = picture.stages.map((stage, s) => ({ stage, s })).filter(({ stage }) => stage.stack === band.stack);
      let place = nameSpace[i] + (vertical ? letter * 2 : 0);
      for (const { stage, s } of own) {
        const opensFrame = picture.frames.some((frame) => frame.first === s) && stage.kind !== "embedding";
        if (stage.kind === "slim") place += slimPad * 2 + (picture.stages[stage.source].kind === "slim" ? 0 : fixed.pad);
        else if (opensFrame) place += fixed.pad * 2 + (vertical ? letter * 1.7 : 0);
        if (opensFrame && isCompact && picture.stages[stage.source].kind === "embedding") place += letter * 0.7; // for its title
        const room = vertical && stage.kind === "cross" ? link + nameSpace[0] : link;
        const length = { embedding: 0, network: fixed.network, memory: fixed.norm, output: fixed.norm, slim: 0, attention: link, cross: room }[stage.kind];
        starts[s] = place;
        ends[s] = place + length + barOf(s);
        place = ends[s];
      }
      // The decoder looks at the memory after it is there.
      const cross = own.find(({ stage }) => stage.kind === "cross");
      const shift = vertical ? reached : cross ? Math.max(0, ends[cross.stage.memory] + fixed.pad * 2 - starts[cross.s]) : 0;
      for (const { s } of own) {
        starts[s] += shift;
        ends[s] += shift;
      }
      reached = place + shift + (vertical ? letter * 2 : 0);
      end = Math.max(end, place + shift);
    });
    return { starts, ends, end: end + fixed.pad + nextWidth };
  };

  let link = vertical ? 72 : 0;
  if (!vertical) {
    let [low, high] = [letter * (isCompact ? 1.8 : 2.6), letter * 14];
    for (let i = 0; i < 24; i++) {
      link = (low + high) / 2;
      if (place(link).end > room.width - 2) high = link;
      else low = link;
    }
    link = low;
  }
  const { starts, ends, end } = place(link);
  if (!vertical && !isCompact && end > room.width) return modelLayout(picture, room, true);

  const counts = picture.bands.map((band) => band.tokens.length);
  const header = vertical ? 0 : letter * 3.7;
  const gap = letter * 1.5;
  const space = room.height - picture.bands.length * header - (picture.bands.length - 1) * gap - 10;
  const across = vertical
    ? Math.min(46, (room.width - 16) / Math.max(...counts))
    : Math.min(letter * 3, Math.max(letter * 1.25, space / counts.reduce((sum, one) => sum + one, 0)));
  const thickness = Math.max(4, Math.min(across * 0.56, letter * 1.5));
  const bandStart = counts.map((_, i) => {
    if (vertical) return 8;
    return header + counts.slice(0, i).reduce((sum, one) => sum + one * across + gap + header, 0);
  });
  /** @type {(band: number, row: number) => number} */
  const middle = (band, row) => bandStart[band] + (row + 0.5) * across;
  /** @type {(u: number, v: number) => [number, number]} */
  const point = (u, v) => (vertical ? [v, u] : [u, v]);
  /** @type {(u: number, v: number, along: number, wide: number) => Box} */
  const box = (u, v, along, wide) => (vertical ? { x: v, y: u, w: wide, h: along } : { x: u, y: v, w: along, h: wide });
  /** @param {string} stack */
  const bandOf = (stack) => picture.bands.findIndex((band) => band.stack === stack);

  const columns = picture.stages.map((stage, s) => {
    const band = bandOf(stage.stack);
    const rows = stage.cells.map((_, i) => box(ends[s] - barOf(s), middle(band, i) - thickness / 2, barOf(s), thickness));
    /** @type {Line[]} */
    const lines = [];
    /** @type {Line[]} */
    const straight = [];
    const keyBand = stage.memory >= 0 ? bandOf(picture.stages[stage.memory].stack) : band;
    const to = ends[s] - barOf(s);
    if (stage.source >= 0) {
      const from = ends[stage.source];
      stage.cells.forEach((_, i) => straight.push({ row: i, key: i, weight: 1, from: point(from, middle(band, i)), to: point(to, middle(band, i)) }));
      const keysAt = stage.memory >= 0 ? starts[s] + (vertical ? nameSpace[0] : 0) : from;
      stage.weights?.forEach((weights, i) =>
        weights.forEach((weight, j) => {
          if (weight === null || weight < LEAST_WEIGHT) return;
          lines.push({ row: i, key: j, weight, from: point(keysAt, middle(keyBand, j)), to: point(to, middle(band, i)) });
        }),
      );
    }
    const [x, y] = vertical ? [0, 0] : point((starts[s] + to) / 2, bandStart[band] - letter * 0.55);
    const label = stage.label && !(isCompact && stage.kind === "attention") ? { x, y } : null;
    return { box: box(to, bandStart[band], barOf(s), counts[band] * across), rows, link: { lines, straight, label } };
  });

  const frames = picture.frames.map(({ first, last }) => {
    const band = bandOf(picture.stages[first].stack);
    const isSlim = picture.stages[first].kind === "slim";
    const pad = isSlim ? slimPad - 1 : fixed.pad;
    const opens = picture.stages[first].kind === "embedding" ? ends[first] - bar : starts[first];
    const from = opens - pad - (vertical && !isSlim ? letter * 1.7 : 0);
    return box(from, vertical ? 2 : bandStart[band] - header + letter * 0.3, ends[last] + pad - from, vertical ? room.width - 4 : counts[band] * across + header - letter * 0.3 + 5);
  });

  /** @type {(band: number, u: number) => import("./types").ModelLayout["tokens"]} */
  const namesAt = (band, u) =>
    picture.bands[band].tokens.map((_, row) => {
      const [x, y] = point(u, middle(band, row));
      return { band, row, x, y };
    });
  const opening = picture.bands.map(({ stack }) => ends[picture.stages.findIndex((stage) => stage.stack === stack)] - bar);
  const crosses = picture.stages.map((stage, s) => ({ stage, s })).filter(({ stage }) => stage.kind === "cross");
  const tokens = [
    ...opening.flatMap((u, b) => namesAt(b, u - (vertical ? 6 + letter * 1.7 : fixed.pad + 4))),
    ...(vertical ? crosses.flatMap(({ s }) => namesAt(0, starts[s] + nameSpace[0] - 6)) : []),
  ];
  /** @type {Line[]} */
  const rails = [];
  if (!vertical && crosses.length) {
    const from = ends[crosses[0].stage.memory];
    const to = starts[crosses[crosses.length - 1].s];
    picture.bands[0].tokens.forEach((_, row) => rails.push({ row, key: row, weight: 1, from: point(from, middle(0, row)), to: point(to, middle(0, row)) }));
  }
  const titles = opening.map((u, b) => {
    if (vertical) return { x: 8, y: u - nameSpace[b] - letter * 1.7 };
    return { x: Math.max(0, u - fixed.pad - nameSpace[b]), y: bandStart[b] - letter * 2.4 };
  });

  const bottom = vertical ? end : bandStart[bandStart.length - 1] + counts[counts.length - 1] * across + 8;
  const nextHeight = picture.next ? (picture.next.words.length + 1) * letter * 1.75 + letter * 7.6 : 0;
  const lastBand = picture.bands.length - 1;
  const nextTop = Math.max(0, Math.min(bandStart[lastBand] - header + letter * 0.3, bottom - nextHeight));
  const next = vertical
    ? { x: 2, y: end + 6, w: room.width - 4, h: nextHeight }
    : { x: end - nextWidth + fixed.pad, y: nextTop, w: nextWidth - fixed.pad, h: nextHeight };
  const lastColumn = columns[columns.length - 1];
  const lastRow = lastColumn.rows[lastColumn.rows.length - 1];
  const [x, y] = [lastRow.x + lastRow.w / (vertical ? 2 : 1), lastRow.y + lastRow.h / (vertical ? 1 : 2)];
  /** @type {Line} */
  const out = { row: 0, key: 0, weight: 1, from: [x, y], to: vertical ? [x, next.y] : [next.x - 3, next.y + letter * 3] };
  return {
    width: vertical ? room.width : Math.max(room.width, end),
    height: vertical ? end + (picture.next ? nextHeight + 12 : 0) : Math.max(bottom, next.y + next.h),
    columns, frames, tokens, titles, rails, next, out, thickness,
  };
}

/**
 * Which row of which column is at a point, or to the left of it along its link; null where there is none.
 * @param {import("./types").ModelLayout} layout
 * @param {number} x
 * @param {number} y
 * @param {number} reach pixels around a row
 */
export function rowAt(layout, x, y, reach = 4) {
  for (let stage = 0; stage < layout.columns.length; stage++) {
    const row = layout.columns[stage].rows.findIndex(
      (box) => x >= box.x - reach && x <= box.x + box.w + reach && y >= box.y - reach && y <= box.y + box.h + reach,
    );
    if (row >= 0) return { stage, row };
  }
  return null;
}

/**
 * The widths of the panels of a lane: cells of maps are square, or narrower where the vectors would have too little room;
 * vectors share what is left by their lengths.
 * @param {{ columns: number, isMap: boolean, names: number }[]} panels
 * @param {number} width of the lane
 * @param {{ row: number, gap: number, least: number, most: number }} size
 */
export function panelWidths(panels, width, { row, gap, least, most }) {
  const free = width - panels.reduce((sum, one) => sum + one.names, 0) - gap * (panels.length - 1);
  const maps = panels.filter(({ isMap }) => isMap);
  const columns = maps.reduce((sum, one) => sum + one.columns, 0);
  const cell = Math.max(LEAST_CELL, Math.min(row, (free - least * (panels.length - maps.length)) / columns));
  const mapWidth = (/** @type {{ columns: number }} */ one) => Math.max(cell * one.columns, 56);
  const left = maps.reduce((rest, one) => rest - mapWidth(one), free);
  const shares = panels.map((one) => (one.isMap ? 0 : Math.sqrt(one.columns)));
  // Those whose share is too little for their title have the least, and the others share the rest.
  const narrow = new Set();
  let unit = 0;
  for (let before = -1; before !== narrow.size; ) {
    before = narrow.size;
    const total = shares.reduce((sum, one, i) => sum + (narrow.has(i) ? 0 : one), 0) || 1;
    unit = Math.max(0, left - narrow.size * least) / total;
    shares.forEach((one, i) => one && one * unit < least && narrow.add(i));
  }
  return panels.map((one, i) => {
    if (one.isMap) return mapWidth(one);
    return narrow.has(i) ? least : Math.min(most, shares[i] * unit);
  });
}
