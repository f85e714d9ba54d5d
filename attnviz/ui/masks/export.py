"""The export of a mechanism as a script."""

import streamlit as st

from attnviz.export import EXPORTS
from attnviz.ui.markdown import plain
from attnviz.ui.masks.comparison import SIDES, Comparison


def show(comparison: Comparison) -> None:
    """Draws a script for one of the two mechanisms, in one of three libraries."""
    inputs = comparison.inputs
    with st.container(horizontal=True):
        side = st.segmented_control("Mechanism", SIDES, default="B", required=True, key="code-of", bind="query-params")
        kind = st.segmented_control(
            "Library", list(EXPORTS), default=next(iter(EXPORTS)), required=True, key="code-in", bind="query-params"
        )
    try:
        script = EXPORTS[kind](
            comparison.mechanisms[SIDES.index(side)], inputs.queries, inputs.keys,
            heads=inputs.heads, kv_heads=inputs.key.shape[0], width=inputs.query.shape[-1],
        )  # fmt: skip
    except ValueError as problem:
        st.info(plain(str(problem)))
        return
    st.code(script, language="python")
    name = f"attention_{kind.lower()}.py"
    st.download_button("Download", script, name, icon=":material/download:", on_click="ignore")
