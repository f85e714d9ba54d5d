// What Python sends: attnviz/figures/chart_spec.py in camel case, and the arguments of attnviz.ui.chart.chart.

export type Pair = [number, number];
/** A cell of a heatmap or a mosaic, or the number of a point as its row. Column null: the label of a row. */
export type Cell = { row: number; column: number | null };
export type Row = Float32Array;

export interface PlainSpec {
  mode: "plain";
  rows: number | null;
  columns: number | null;
}
export interface PointsSpec {
  mode: "points";
  sentences: string[];
  bars: boolean;
  aspect: number | null;
}
export interface MosaicSpec {
  mode: "mosaic";
  names: string[];
  rows: number;
  columns: number;
  height: number;
  width: number;
  tileHeight: number;
  tileWidth: number;
  aspect: number | null;
  least: number;
  leastWidth: number;
}
export type Change = "neither" | "kept" | "reweighted" | "removed" | "added";
export interface CellLinks {
  text: string;
  address: string;
  parameters: [string, string];
  queries: string[];
  keys: string[];
}
export interface HeatmapSpec {
  mode: "heatmap";
  queryTokens: string[];
  keyTokens: string[];
  queryLabels: string[];
  keyLabels: string[];
  sentences: { allowed: string; masked: string; emptyRow: string };
  cellSentences: [number, number, string][];
  wholeNumbers: boolean;
  zoomKey: string;
  link: string;
  fan: boolean;
  difference: { charts: [string, string]; sentences: Record<Change, string> } | null;
  downsampled: {
    tokens: string[];
    queryTokens: Int32Array[];
    keyTokens: Int32Array[];
    queryPositions: Int32Array[];
    keyPositions: Int32Array[];
    mass: Row[];
    maximum: Row[];
    mean: Row[];
    allowed: Int32Array[];
    several: string;
    viewport: boolean;
  } | null;
  cellLinks: CellLinks | null;
  places: [number[], number[]] | null;
}
export interface PlaneSpec {
  mode: "plane";
  rows: number;
  aspect: number;
  drag: {
    start: Pair;
    limits: Pair;
    step: number;
    color: string;
    shapes: number[];
    annotations: number[];
    sentence: string;
    matrix: [Pair, Pair] | null;
  };
}
export type Box = [left: number, top: number, right: number, bottom: number];
export interface PictureSpec {
  mode: "picture";
  link: string;
  aspect: number;
  patches: { box: Box; name: string; row: number; column: number }[];
  rowSentence: string;
  turnedSentence: string;
  row: { query: string; weights: Row; sentence: string; largest: number | null; marked: number[] } | null;
  region: number[];
}
export type Spec = PictureSpec | PlainSpec | PointsSpec | MosaicSpec | HeatmapSpec | PlaneSpec;

interface ColorAxis {
  cmax?: number;
  colorbar?: { tickfont?: { size: number } };
}
interface Axis {
  range: Pair;
  title: { text: string; standoff: number };
  [name: string]: any;
}
interface Template {
  layout: { font: { family: string } };
}
/** A layout of plotly; the rest of it is passed on as it is. */
export interface Layout {
  margin: { l: number; r: number; t: number; b: number };
  xaxis: Axis;
  yaxis: Axis;
  font: { size: number };
  template: Template;
  coloraxis: ColorAxis;
  coloraxis3?: ColorAxis;
  annotations?: object[];
  dragmode?: string | false;
  [name: string]: unknown;
}
export interface Figure {
  data: { x?: Row; y?: Row; z?: Row[]; textfont?: { size: number }; [name: string]: unknown }[];
  layout: Layout;
}
export interface Header {
  figure: Figure;
  spec: Spec;
  stamp: number;
  themes: Record<string, Template>;
  label: string;
  description: string;
  height: number;
  pinned: number | null;
  hint: string;
  title: string;
  grows: boolean | "beside";
  clicks: boolean;
  paints: boolean;
  drags: boolean;
  views: boolean;
  clickStamp: number;
  dragStamp: number;
  drop: number;
  key: string;
  name: string;
  plotly: string;
}
/** Rows of a map that were blank, from the first on, and the names of their queries and of as many keys. */
export interface Growth {
  first: number;
  rows: Row[];
  queryTokens: string[];
  queryLabels: string[];
  keyTokens: string[];
  keyLabels: string[];
}
/** Tells Python, or whoever shows the chart, what a person did: "click", "stroke", "drag" or "view". */
export type Report = (event: string, value: unknown) => void;
