import assert from "node:assert/strict";
import { test } from "node:test";

import { isDark } from "../../attnviz/chart/colors.js";
import { between } from "../../attnviz/ui/path/colors.js";
import { modelLayout, panelWidths, rowAt } from "../../attnviz/ui/path/layout.js";
import { greatestColored, operands, sentence, written } from "../../attnviz/ui/path/numbers.js";
import { Player } from "../../attnviz/ui/path/player.js";

const matrix = (symbol, rows, columns, values) => ({ name: symbol, symbol, about: "", shape: "", rows, columns, values, map: "" });

function part(operation, sources, result, more = {}) {
  return { operation, sources, result, weight: null, bias: null, function: "", rotated: 0, ...more };
}

test("a color between two stops, and a dark one", () => {
  assert.equal(between(["#000000", "#ffffff"], 0.5), "rgb(128 128 128)");
  assert.equal(between(["#000000", "#ff0000", "#ffffff"], 1), "rgb(255 255 255)");
  assert.ok(isDark("#0e1117") && isDark("rgb(14, 17, 23)") && !isDark("#ffffff") && !isDark(""));
});

test("numbers are written as a person reads them", () => {
  assert.deepEqual([1.234, -0.5, 0.0123, -0.00001, null].map(written), ["1.23", "−0.50", "0.012", "0.00", "−∞"]);
});

test("a linear map: a row of the source times a column of the weights", () => {
  const source = matrix("z", ["a", "b"], [], [[1, 2], [3, 4]]);
  const weight = { symbol: "W", values: [[10, 20, 30], [40, 50, 60]] };
  const one = part("linear", [source], matrix("Q", ["a", "b"], [], [[91, 121, 151], [191, 261, 331]]), { weight, bias: [1, 1, 1] });
  assert.deepEqual(operands(one, 1, 2), [
    { matrix: 0, rows: [1, 2], columns: [0, 2] },
    { matrix: -1, rows: [0, 2], columns: [2, 3] },
  ]);
  assert.equal(sentence(one, 1, 2), "Q[b, 3] = 4.00 · 60.00 + 3.00 · 30.00 + … (2 products) + b 1.00 = 331.00");
  // Logits are of the last row alone.
  const last = { ...one, result: matrix("logits", ["b"], ["x", "y", "z"], [[191, 261, 331]]) };
  assert.deepEqual(operands(last, 0, 1)[0].rows, [1, 2]);
});

test("scores, weights and the weighted sum: which rows and columns they come from", () => {
  const [query, key] = [matrix("Q", ["a", "b"], [], [[1, 0, 0, 0], [0, 2, 0, 0]]), matrix("K", ["c", "d"], [], [[1, 1, 0, 0], [3, 4, 0, 0]])];
  const scores = part("scores", [query, key], matrix("S", ["a", "b"], ["c", "d"], [[0.5, 1.5], [1, null]]));
  assert.deepEqual(operands(scores, 1, 0).map(({ rows }) => rows), [[1, 2], [0, 1]]);
  assert.equal(sentence(scores, 0, 1), "S[a → d] = q · k / √4 = 3.00 / 2.00 = 1.50");
  assert.match(sentence(scores, 1, 1), /“b” may not look at “d”: the mask/);
  const weights = part("softmax", [scores.result], matrix("A", ["a", "b"], ["c", "d"], [[0.27, 0.73], [1, 0]]));
  assert.match(sentence(weights, 0, 1), /^“a” gives 0.73 of its attention to “d”: e\^1.50 \/ 6.13/);
  assert.match(sentence(weights, 1, 1), /may not look/);
  const values = matrix("V", ["c", "d"], [], [[1, 2], [3, -4]]);
  const sum = part("weighted sum", [weights.result, values], matrix("H", ["a", "b"], [], [[2.46, -2.38], [1, 2]]));
  assert.deepEqual(operands(sum, 0, 1)[1], { matrix: 1, rows: [0, 2], columns: [1, 2] });
  assert.equal(sentence(sum, 0, 1), "H[a, 2] = 0.73 · (−4.00) (d) + 0.27 · 2.00 (c) = −2.38");
});

test("a rotation: a number comes from itself and its partner, half of the columns further on", () => {
  // By 90°: (1, 2) becomes (−2, 1); the last column is not rotated.
  const turned = part("rotation", [matrix("Q", ["a"], [], [[1, 2, 7]])], matrix("Q_R", ["a"], [], [[-2, 1, 7]]), { rotated: 2 });
  assert.deepEqual(operands(turned, 0, 1).map(({ columns }) => columns), [[1, 2], [0, 1]]);
  assert.equal(sentence(turned, 0, 0), "QR[a, 1] = 1.00 · cos φ − 2.00 · sin φ = −2.00, φ = 90.00°, which grows with the position");
  assert.equal(sentence(turned, 0, 1), "QR[a, 2] = 1.00 · sin φ + 2.00 · cos φ = 1.00, φ = 90.00°, which grows with the position");
  assert.deepEqual(operands(turned, 0, 2).map(({ columns }) => columns), [[2, 3]]);
  assert.equal(sentence(turned, 0, 2), "QR[a, 3] = not rotated: 7.00");
});

test("a gate, a map with a function after it, and a norm without a mean", () => {
  const [gate, up] = [matrix("G", ["a"], [], [[0.5, 2]]), matrix("U", ["a"], [], [[3, -1]])];
  const hidden = part("product", [gate, up], matrix("F", ["a"], [], [[1.5, -2]]));
  assert.equal(sentence(hidden, 0, 1), "F[a, 2] = 2.00 · (−1.00) = −2.00");
  assert.deepEqual(operands(hidden, 0, 1).map(({ matrix }) => matrix), [0, 1]);
  const weight = { symbol: "W^G", values: [[1], [1]] };
  assert.match(sentence(part("linear", [up], matrix("G", ["a"], [], [[1.76]]), { weight, function: "SiLU" }), 0, 0), /, after SiLU: 1.76$/);
  const scaled = { function: "RMSNorm", weight: { symbol: "γ", values: [[2, 2]] } };
  const norm = part("norm", [matrix("x", ["a"], [], [[1, 7]])], matrix("z", ["a"], [], [[0.4, 2.8]]), scaled);
  assert.equal(sentence(norm, 0, 1), "z[a, 2] = 2.00 · 7.00 / 5.00 = 2.80");
});

test("a row that is far larger than the others does not make them pale", () => {
  assert.equal(greatestColored([[1, -2], [3, 0], [2, null]]), 3);
  assert.equal(greatestColored([[900, 1], [2, 0], [1, -1]]), 8);
  assert.equal(greatestColored([[0], [0]]), 1);
});

test("add, norm and concat", () => {
  const [x, y] = [matrix("x", ["a"], [], [[1, 3]]), matrix("y", ["a"], [], [[2, -1]])];
  assert.equal(sentence(part("add", [x, y], matrix("s", ["a"], [], [[3, 2]])), 0, 1), "s[a, 2] = 3.00 + (−1.00) = 2.00");
  const norm = part("norm", [x], matrix("z", ["a"], [], [[-1.5, 2.5]]), { weight: { symbol: "γ", values: [[2, 2]] }, bias: [0.5, 0.5] });
  assert.equal(sentence(norm, 0, 1), "z[a, 2] = 2.00 · (3.00 − 2.00) / 1.00 + 0.50 = 2.50");
  const concat = part("concat", [x, y], matrix("C", ["a"], [], [[1, 3, 2, -1]]));
  assert.deepEqual(operands(concat, 0, 3), [{ matrix: 1, rows: [0, 1], columns: [1, 2] }]);
  assert.equal(sentence(concat, 0, 3), "C[a, 4] = number 2 of head 1 = −1.00");
});

const stage = (stack, kind, rows, source, more = {}) => ({
  name: `${stack} ${kind}`, stack, kind, title: "", label: kind, caption: "", source, memory: -1, weights: null,
  cells: Array.from({ length: rows }, () => [1, 0]), ...more,
});
const picture = {
  depth: "model",
  bands: [{ stack: "encoder", title: "Encoder", tokens: ["the", "cat", "."] }, { stack: "decoder", title: "Decoder", tokens: ["<start>", "le"] }],
  stages: [
    stage("encoder", "embedding", 3, -1),
    stage("encoder", "attention", 3, 0, { weights: [[0.5, 0.5, 0], [0.01, 0.99, 0], [0, 0, 1]] }),
    stage("encoder", "memory", 3, 1),
    stage("decoder", "embedding", 2, -1),
    stage("decoder", "attention", 2, 3, { weights: [[1, 0], [0.5, 0.5]] }),
    stage("decoder", "cross", 2, 4, { memory: 2, weights: [[1, 0, 0], [0, 1, 0]] }),
  ],
  frames: [{ open: "encoder embedding", title: "", about: "", first: 0, last: 0 }, { open: "decoder 0", title: "", about: "", first: 4, last: 5 }],
  next: { words: [{}, {}] },
};

test("on a wide screen everything is read to the right, and the decoder looks back at a memory that is there", () => {
  const layout = modelLayout(picture, { width: 1200, height: 500, vertical: false, letter: 13 });
  assert.ok(layout.width <= 1200);
  picture.stages.forEach(({ source }, i) => source >= 0 && assert.ok(layout.columns[i].box.x > layout.columns[source].box.x));
  const cross = layout.columns[5].link.lines;
  assert.ok(cross.every(({ from, to }) => from[0] > layout.columns[2].box.x && to[0] > from[0] && to[1] > from[1]));
  // A line for each weight that can be seen, from its key to its query.
  assert.deepEqual(layout.columns[1].link.lines.map(({ row, key }) => [row, key]), [[0, 0], [0, 1], [1, 1], [2, 2]]);
  assert.deepEqual(rowAt(layout, layout.columns[1].rows[2].x + 1, layout.columns[1].rows[2].y + 1), { stage: 1, row: 2 });
  assert.equal(rowAt(layout, 1, 1), null);
});

test("where there is little room, bars and links are shorter, and all of it is still in view", () => {
  const many = { ...picture, stages: [...picture.stages] };
  for (let i = 0; i < 6; i++) many.stages.push(stage("decoder", "network", 2, many.stages.length - 1));
  const room = { width: 860, height: 500, vertical: false, letter: 13 };
  const layout = modelLayout(many, room);
  assert.ok(layout.next.x + layout.next.w <= room.width);
  assert.ok(layout.columns[0].rows[0].w < modelLayout(many, { ...room, width: 1400 }).columns[0].rows[0].w);
});

test("on a phone everything is read down, within its width", () => {
  const layout = modelLayout(picture, { width: 358, height: 500, vertical: true, letter: 13 });
  assert.equal(layout.width, 358);
  picture.stages.forEach(({ source }, i) => source >= 0 && assert.ok(layout.columns[i].box.y > layout.columns[source].box.y));
  for (const { rows } of layout.columns) for (const { x, w } of rows) assert.ok(x >= 0 && x + w <= 358);
  assert.ok(layout.next.y >= layout.columns[5].box.y + layout.columns[5].box.h);
});

test("of many layers those between the first and the last are slim, and each can be clicked", () => {
  const cells = [[1], [2], [3]];
  const stage = (name, kind, source) => ({ name, stack: "decoder", kind, title: "", label: "", source, memory: -1, cells, weights: kind === "attention" ? [[1], [0.5, 0.5], [0.2, 0.3, 0.5]] : null });
  const stages = [stage("e", "embedding", -1), stage("0a", "attention", 0), stage("0n", "network", 1)];
  for (let i = 1; i < 29; i++) stages.push(stage(`${i}`, "slim", stages.length - 1));
  stages.push(stage("29a", "attention", 30), stage("29n", "network", 31));
  const frame = (first, last) => ({ open: "", title: "", about: "", first, last });
  const frames = [frame(0, 0), frame(1, 2), ...Array.from({ length: 28 }, (_none, i) => frame(3 + i, 3 + i)), frame(31, 32)];
  const many = { depth: "model", stages, frames, bands: [{ stack: "decoder", title: "Decoder", tokens: ["The", "cat", "sat"] }], next: { words: [1, 2, 3] } };
  for (const [room, side, least] of [[{ width: 1216, height: 500, vertical: false, letter: 13 }, "x", 14], [{ width: 358, height: 500, vertical: true, letter: 13 }, "y", 24]]) {
    const layout = modelLayout(many, room);
    const length = side === "x" ? "w" : "h";
    assert.ok(layout.width <= room.width);
    layout.frames.slice(1).forEach((box, i) => assert.ok(box[side] >= layout.frames[i][side] + layout.frames[i][length] - 1, `frame ${i}`));
    for (const box of layout.frames) assert.ok(box[length] >= least, `${box[length]}`);
    layout.columns.slice(1).forEach(({ box }, i) => assert.ok(box[side] >= layout.columns[i].box[side] + layout.columns[i].box[length]));
  }
});

test("the panels of a lane fill its width", () => {
  const panels = [{ columns: 64, isMap: false, names: 40 }, { columns: 16, isMap: false, names: 0 }, { columns: 5, isMap: true, names: 0 }];
  const widths = panelWidths(panels, 600, { row: 20, gap: 10, least: 40, most: 1000 });
  assert.equal(widths[2], 100);
  assert.ok(Math.abs(widths.reduce((sum, one) => sum + one, 0) + 40 + 20 - 600) < 1e-9);
  assert.equal(panelWidths(panels, 300, { row: 20, gap: 10, least: 50, most: 1000 })[1], 50);
});

test("the player goes through all steps by frames, pauses anywhere, and goes by hand", () => {
  /** @type {((now: number) => void)[]} */
  const frames = [];
  const [requestAnimationFrame, cancelAnimationFrame] = [(action) => frames.push(action), () => (frames.length = 0)];
  Object.assign(globalThis, { requestAnimationFrame, cancelAnimationFrame });
  const player = new Player(() => {});
  let now = 0;
  const run = (milliseconds) => {
    for (const end = now + milliseconds; now < end; now += 50) frames.splice(0).forEach((frame) => frame(now));
  };
  player.restart(3);
  assert.equal(player.step, null);
  player.play();
  run(1000);
  assert.equal(player.step, 0);
  assert.ok(player.share > 0.3 && player.share < 1);
  player.pause();
  const share = player.share;
  run(5000);
  assert.deepEqual([player.step, player.share, player.isPlaying], [0, share, false]);
  player.play();
  run(10000);
  assert.deepEqual([player.step, player.share, player.isPlaying], [2, 1, false]);
  player.play(); // again from the start
  assert.deepEqual([player.step, player.share], [0, 0]);
  player.go(1);
  assert.deepEqual([player.step, player.share, player.isPlaying], [1, 1, false]);
  player.go(1);
  player.go(1);
  assert.equal(player.step, null);
  player.go(-1);
  assert.equal(player.step, 2);
  player.restart(20, (step) => step > 0); // short ones after the first
  player.play();
  run(4000);
  assert.ok((player.step ?? 0) > 8);
});
