// What attnviz/pages/lookup/network.py sends.

export type Pair = [number, number];

export type Score =
  | { kind: "equal" }
  | { kind: "bilinear"; matrix: [Pair, Pair] }
  | { kind: "cosine"; tau: number }
  | { kind: "additive"; queryWeight: Pair[]; keyWeight: Pair[]; vector: number[] };

export interface Normalizer {
  kind: "identity" | "hard" | "uniform" | "softmax";
  temperature: number;
}

/** The numbers of one query; keys are in the order of the entries, and paths[i][j] leads from weight i to similarity j. */
export interface Numbers {
  similarities: number[];
  weights: number[];
  products: number[];
  result: number | null;
  gradients: {
    query: Pair;
    keys: Pair[];
    similarities: number[];
    paths: number[][];
    weights: number[];
    values: number[];
  };
}

export interface Data {
  plane: string; // the key of the chart whose query is dragged
  words: string[];
  colors: string[];
  keys: Pair[];
  values: number[];
  query: Pair;
  score: Score;
  normalizer: Normalizer;
  numbers: Numbers;
  projects: boolean; // whether the score has a matrix of its own, W
  backward: boolean; // whether gradients are shown instead of numbers
  formulas: { similarity: string; weight: string };
  sentence: string;
  movingSentence: string; // while the query is dragged
  description: string;
}
