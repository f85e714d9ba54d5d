// What attnviz/pages/steps/stages.py sends.

/** A number: the name of its matrix, its row and its column. */
export type Place = [string, number, number];
/** Numbers of one matrix: its name, rows from and to, columns from and to; the ends are not among them. */
export type Operand = [string, number, number, number, number];

export interface Matrix {
  name: string;
  symbol: string;
  about: string;
  stage: string;
  given: boolean;
  queries: boolean;
  tokens: boolean;
  keys: boolean;
  rows: string[];
  columns: string[];
  texts: string[][];
  exact: string[][];
  tints: (number | null)[][];
  edited: boolean[][];
  formulas: string[][];
  operands: Operand[][][];
}
export interface Stage {
  name: string;
  title: string;
  caption: string;
  cell: Place;
}
export interface Data {
  matrices: Matrix[];
  stages: Stage[];
  stage: string;
  row: number;
  named: string;
  concat: string;
  problem: string;
  edits: boolean;
}
export type Report = (event: string, value: unknown) => void;
