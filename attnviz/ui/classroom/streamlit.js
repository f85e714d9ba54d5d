// The teacher's panel as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { TeacherPanel } from "./teacher.js";

export default mounts(".attnviz-classroom", TeacherPanel);
