// What the server says of a class: attnviz/ui/classroom/class_json.py.

export interface Question {
  ask: string;
  rows: string[];
  columns: string[];
  picks: number;
  points: number;
  numeric: boolean;
  hides: boolean;
}
/** A number, or the points of the chosen options. */
export type Value = number | Record<number, number>;
export interface Poll {
  id: string;
  round: number;
  phase: "open" | "closed" | "revealed";
  question: Question;
}
export interface Result {
  sentences: string[];
  charts: { title: string; data: string }[];
}
export interface State {
  version: string;
  title: string;
  link: string;
  picture: string | null;
  poll: Poll | null;
  result: Result | null;
  mine: Value | null;
  distance: string;
  nickname: string;
  names: string[];
}
export interface Message {
  id: string;
  text: string;
  link: string;
  name: string;
  read: boolean;
}
export interface Room {
  version: string;
  participants: number;
  answers: number;
  names: string[];
  showsNames: boolean;
  poll: Poll | null;
  result: Result | null;
  messages: Message[];
}
/** What the page of the teacher sends with each run. */
export interface Panel {
  address: string;
  code: string;
  join: string;
  qr: string;
  warning: string;
  chart: string;
  questions: { label: string; question: object }[];
}
