// The matrices as a Streamlit component.

import { mounts } from "../../chart/mounts.js";
import { Matrices } from "./matrices.js";

export default mounts(".attnviz-matrices", Matrices, (view, data) => {
  view.standBelow([...document.querySelectorAll("[data-testid=stHeader], :has(> .st-key-lesson-strip)")]);
  view.show(data);
});
