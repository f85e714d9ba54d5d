// The picture of the start page as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { Picture } from "./picture.js";

export default mounts(".attnviz-start", Picture);
