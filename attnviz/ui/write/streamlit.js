// The written text as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { unpack } from "../../chart/payload.js";
import { WrittenText } from "./write.js";

export default mounts(".attnviz-write", WrittenText, (view, data) => view.show(unpack(data)));
