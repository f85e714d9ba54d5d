// What Python sends: attnviz/ui/write/written_text.py.

/** An alternative: the id of a token, its text, and its probability. */
export type Alternative = [number, string, number];

export interface Step {
  id: number;
  probability: number;
  alternatives: Alternative[];
}

/** What the addresses are made of that ask why a word was written. */
export interface WordLinks {
  address: string;
  parameters: [string, string, string]; // after which token, the word, and rather than which one
  after: string[]; // the names of the tokens before the written ones
  names: Record<number, string>; // of tokens, by their ids
}

export interface Written {
  stamp: number; // of the text and the head
  tokens: string[];
  special: number[];
  roles: string[]; // of the tokens of a chat
  hidden: number[]; // the tokens that are not shown, of the template of a chat
  image: number[]; // those of an image, which are not shown either
  turns: Record<number, string>; // where messages begin, and by whom they are; none where the template is shown
  prompt: number; // tokens
  queryOffset: number; // of the map's first row among the tokens
  keyOffset: number; // of its first column
  start: number; // the number of the first written token whose step and row are here
  steps: Step[];
  rows: Float32Array[];
  growth: Omit<import("../../chart/types").Growth, "rows">; // the first of these rows of the map, and their names
  choices: string;
  branches: string;
  mostBranches: number;
  running: boolean;
  longer: number; // written tokens if the model goes on; 0 if it cannot
  chat: boolean;
  earlier: number; // messages of the chat before the last one
  why: WordLinks | null;
  looks: import("../../chart/types").CellLinks | null; // of all rows and columns of the map
  ending: string;
  pinned: number | null; // a row of the map
  heads: boolean; // whether the rows are of several heads as one
  colors: Record<"light" | "dark", string[]>;
}
