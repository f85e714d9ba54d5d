// The network as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { Network } from "./network.js";

export default mounts(".attnviz-network", Network);
