// What attnviz/pages/transformer/path_picture.py makes.

export type Scale = { light: string[]; dark: string[] };
export interface Colors {
  weights: Scale;
  changes: Scale;
  masked: { light: string; dark: string };
}
export interface Palette {
  /** of a share from 0 to 1 */
  weight: (share: number) => string;
  /** of a number from −1 to 1 */
  change: (value: number) => string;
  masked: string;
}
export interface Crumb {
  open: string;
  title: string;
}
export interface NextWord {
  /** the layer with all scores */
  open: string;
  words: { word: string; logit: string; probability: number; text: string; drawn: boolean }[];
  /** of the words, where it is not that of the page */
  language: string;
  rest: number;
  others: string;
  drawn: string;
  greedy: string;
  random: number;
  temperature: string;
  sentence: string;
  caption: string;
}
interface Picture {
  trail: Crumb[];
  heads: number;
  head: number;
  colors: Colors;
  presenting: boolean;
}
export interface Stage {
  name: string;
  stack: string;
  kind: "embedding" | "attention" | "cross" | "network" | "memory" | "output" | "slim";
  title: string;
  hasPositions: boolean; // of an embedding: whether vectors of positions are added
  label: string;
  caption: string;
  source: number;
  memory: number;
  weights: (number | null)[][] | null;
  cells: number[][];
}
export interface Frame {
  open: string;
  title: string;
  about: string;
  first: number;
  last: number;
}
export interface Band {
  stack: string;
  title: string;
  tokens: string[];
}
export interface ModelPicture extends Picture {
  depth: "model";
  bands: Band[];
  stages: Stage[];
  frames: Frame[];
  next: NextWord | null;
}
export interface Panel {
  name: string;
  title: string;
  symbol: string;
  shape: string;
  caption: string;
  kind: "vectors" | "scores" | "weights";
  rows: string[];
  columns: string[];
  cells: (number | null)[][];
  sources: string[];
  entering: boolean;
  slices: number;
}
export interface Lane {
  title: string;
  about: string;
  kind: string;
  panels: Panel[];
}
export interface LayerPicture extends Picture {
  depth: "layer";
  /** the layer before and the next one; empty where there is none */
  neighbors: [string, string];
  lanes: Lane[];
  next: NextWord | null;
}
export interface Matrix {
  name: string;
  symbol: string;
  about: string;
  shape: string;
  rows: string[];
  columns: string[];
  values: (number | null)[][] | null;
  map: "" | "scores" | "weights";
}
export interface Weight {
  symbol: string;
  about: string;
  shape: string;
  values: number[][] | null;
}
export type Operation = "input" | "linear" | "rotation" | "norm" | "scores" | "softmax" | "weighted sum" | "concat" | "product" | "add";
export interface PartPicture extends Picture {
  depth: "part";
  caption: string;
  formula: string;
  operation: Operation;
  /** after a linear map; or "RMSNorm" of a norm that subtracts no mean */
  function: string;
  /** the columns that are rotated in pairs */
  rotated: number;
  sources: Matrix[];
  weight: Weight | null;
  bias: number[] | null;
  /** to this head on other pages */
  links: { title: string; address: string }[];
  result: Matrix;
  next: NextWord | null;
}
export type AnyPicture = ModelPicture | LayerPicture | PartPicture;
export type Report = (event: string, value: unknown) => void;

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}
/** Where the picture of a model has room: in pixels, and the height of its letters. */
export interface Room {
  width: number;
  height: number;
  vertical: boolean;
  letter: number;
}
/** One line from a key to a query, or from a row to itself. */
export interface Line {
  row: number;
  key: number;
  weight: number;
  from: [number, number];
  to: [number, number];
}
export interface Column {
  box: Box;
  rows: Box[];
  /** where the line into the column begins and ends */
  link: { lines: Line[]; straight: Line[]; label: { x: number; y: number } | null };
}
export interface ModelLayout {
  width: number;
  height: number;
  columns: Column[];
  frames: Box[];
  tokens: { band: number; row: number; x: number; y: number }[];
  titles: { x: number; y: number }[];
  rails: Line[];
  next: Box;
  /** from the last row to the next word */
  out: Line;
  thickness: number;
}
/** What a view gives to the player and the reader. */
export interface Step {
  title: string;
  caption: string;
  isShort?: boolean; // goes by quickly
}
/** What a view takes, and whom it tells what a person does. */
export interface Actions {
  palette: Palette;
  open: (name: string) => void;
  say: (text: string) => void;
  draw: () => void;
}
/** The element that a view fills, its picture, and what both need. */
export type Shown<Picture> = [HTMLElement, Picture, Room, Actions];
/** Cells of a matrix that a number was computed from. */
export interface Operands {
  matrix: number; // of the sources; −1 the weight
  rows: [number, number];
  columns: [number, number];
}
