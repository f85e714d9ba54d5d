// The teacher's panel as a Streamlit component: the only module here that knows Streamlit.

import { mounts } from "../../chart/mounts.js";
import { TeacherPanel } from "./teacher.js";

const mounted = mounts(".attnviz-classroom", TeacherPanel);

/** @param {{ data: import("./types").Panel, parentElement: Element }} component */
export default function ({ data, parentElement }) {
  const { view, remove } = mounted(parentElement);
  view.show(data);
  return remove;
}
