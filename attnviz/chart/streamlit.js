// The chart as a Streamlit component.

import { Chart } from "./chart.js";
import { mounts } from "./mounts.js";
import { unpack } from "./payload.js";

export default mounts(".attnviz-chart", Chart, (view, data) => view.show(unpack(data)));
