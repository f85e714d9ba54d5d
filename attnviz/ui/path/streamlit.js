// The path as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { Path } from "./path.js";

export default mounts(".attnviz-path", Path);
