// A lookup in the browser, for a query that is being dragged: the same numbers as attnviz/pages/lookup/dictionary.py and
// gradients.py. Derivatives of similarities are central differences.

import { project } from "../../chart/projection.js";

/** @typedef {import("./types").Pair} Pair */
/** @typedef {import("./types").Score} Score */
/** @typedef {import("./types").Normalizer} Normalizer */
/** @typedef {import("./types").Numbers} Numbers */

const STEP = 1e-5;

/**
 * @param {{ keys: Pair[], values: number[], score: Score, normalizer: Normalizer }} dictionary
 * @param {Pair} query
 * @returns {Numbers}
 */
export function lookUp({ keys, values, score, normalizer }, query) {
  const similarities = compare(score, query, keys);
  const weights = normalize(normalizer, similarities);
  const products = weights.map((weight, i) => weight * values[i]);
  const result = weights.some(Boolean) ? sum(products) : null;
  const paths = slopes(normalizer, weights).map((row, i) => row.map((slope) => values[i] * slope));
  const back = keys.map((_, j) => sum(paths.map((row) => row[j])));
  /** @type {(pair: Pair, similarity: (moved: Pair) => number) => Pair} */
  const gradient = (pair, similarity) => /** @type {Pair} */ (pair.map((_, axis) => slope(pair, axis, similarity)));
  /** @type {Pair[]} */
  const ofKeys = keys.map((key, j) => scaled(gradient(key, (moved) => compare(score, query, [moved])[0]), back[j]));
  const ofQuery = keys.map((key, j) => scaled(gradient(query, (moved) => compare(score, moved, [key])[0]), back[j]));
  return {
    similarities,
    weights,
    products,
    result,
    gradients: {
      query: [sum(ofQuery.map(([x]) => x)), sum(ofQuery.map(([, y]) => y))],
      keys: ofKeys,
      similarities: back,
      paths,
      weights: values,
      values: weights,
    },
  };
}

/**
 * @param {Score} score
 * @param {Pair} query
 * @param {Pair[]} keys
 * @returns {number[]}
 */
function compare(score, query, keys) {
  if (score.kind === "equal") {
    const last = keys.findLastIndex((key) => key[0] === query[0] && key[1] === query[1]);
    return keys.map((_, i) => Number(i === last));
  }
  if (score.kind === "bilinear") {
    const moved = project(score.matrix, query);
    return keys.map((key) => dot(moved, key));
  }
  if (score.kind === "cosine") {
    /** @param {Pair} pair */
    const unit = (pair) => scaled(pair, 1 / Math.max(Math.hypot(...pair), 1e-12));
    return keys.map((key) => dot(unit(query), unit(key)) / score.tau);
  }
  const { queryWeight, keyWeight, vector } = score;
  return keys.map((key) => sum(vector.map((part, h) => part * Math.tanh(dot(queryWeight[h], query) + dot(keyWeight[h], key)))));
}

/**
 * @param {Normalizer} normalizer
 * @param {number[]} scores
 */
function normalize({ kind, temperature }, scores) {
  if (kind === "identity") return scores;
  const greatest = Math.max(...scores);
  /** @type {Record<string, (score: number) => number>} */
  const shares = {
    softmax: (score) => Math.exp((score - greatest) / temperature),
    hard: (score) => Number(score === greatest),
    uniform: () => 1,
  };
  const parts = scores.map(shares[kind]);
  return parts.map((part) => part / sum(parts));
}

/**
 * The derivative of each weight with respect to each similarity.
 * @param {Normalizer} normalizer
 * @param {number[]} weights
 */
function slopes({ kind, temperature }, weights) {
  return weights.map((weight, i) =>
    weights.map((other, j) => {
      if (kind === "identity") return Number(i === j);
      return kind === "softmax" ? (weight * (Number(i === j) - other)) / temperature : 0;
    }),
  );
}

/**
 * @param {Pair} pair
 * @param {number} axis
 * @param {(moved: Pair) => number} similarity
 */
function slope(pair, axis, similarity) {
  /** @param {number} by */
  const moved = (by) => /** @type {Pair} */ (pair.map((value, i) => value + (i === axis ? by : 0)));
  return (similarity(moved(STEP)) - similarity(moved(-STEP))) / (2 * STEP);
}

/** @type {(pair: Pair, by: number) => Pair} */
const scaled = ([x, y], by) => [x * by, y * by];
/** @type {(a: Pair, b: Pair) => number} */
const dot = (a, b) => a[0] * b[0] + a[1] * b[1];
/** @type {(numbers: number[]) => number} */
const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);
