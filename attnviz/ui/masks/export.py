"""The export of a mechanism as a script."""

from functools import partial

import streamlit as st

from attnviz.export import EXPORTS
from attnviz.formatting import byte_size
from attnviz.language import _
from attnviz.state.masks import SIDES, MasksState
from attnviz.ui import cache
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.views.mask_pair import MaskPair

LONGEST_SCRIPT = 100_000  # characters that are shown


def show(pair: MaskPair) -> None:
    """Draws a script for one of the two mechanisms, in one of three libraries, at the length that is chosen."""
    inputs = pair.inputs
    queries, keys = draw(MasksState.tokens, pair, st.select_slider)
    with st.container(horizontal=True):
        side = draw(MasksState.code_of, widget=st.segmented_control)
        kind = draw(MasksState.code_in, widget=st.segmented_control)
    mechanism = pair.mechanisms[SIDES.index(side)]
    sizes = {"heads": inputs.heads, "kv_heads": inputs.key.shape[0], "width": inputs.query.shape[-1]}
    try:
        script = cache.once(
            partial(EXPORTS[kind], mechanism, queries, keys, **sizes),
            *("script", kind, mechanism, queries, keys, sizes),
            work=inputs.heads * queries * keys,
        )
    except ValueError as problem:
        st.info(plain(str(problem)))
        return
    if len(script) > LONGEST_SCRIPT:
        st.info(
            _(
                "This script is long: it holds the numbers of the mask ({count}). Download it.",
                count=byte_size(len(script)),
            )
        )
    else:
        st.code(script, language="python")
    name = f"attention_{kind.lower()}.py"
    st.download_button(_("Download"), script, name, icon=":material/download:", on_click="ignore")
    st.caption(
        _(
            "When it runs, it compares its weights of a random example: in PyTorch with a softmax of "
            "all scores, in NumPy with what attnviz computes. A difference is an error. For a long text, "
            "PyTorch compares some queries and keys, and NumPy nothing."
        )
    )
