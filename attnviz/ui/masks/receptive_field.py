"""The receptive field of stacked layers of each mask, or of layers whose masks follow a pattern of both."""

import re
from collections.abc import Sequence

import numpy as np
import streamlit as st
import torch

from attnviz.analysis.receptive_field import field_sizes, layers_needed
from attnviz.figures import heatmap
from attnviz.figures.sentences import CellSentences
from attnviz.formatting import quoted
from attnviz.inputs import Inputs
from attnviz.language import N_, _
from attnviz.ui.chart import chart
from attnviz.ui.head_map import zoom_key
from attnviz.ui.markdown import plain
from attnviz.ui.masks.comparison import SIDES, Comparison

MOST = 24
SENTENCES = CellSentences(
    N_("{query} depends on {key} from {weight} layers on."),
    N_("{query} does not depend on {key} through so many layers."),
)


def show(comparison: Comparison) -> None:
    """Draws for each mask, and for a pattern of both, the number of layers through which a query depends on a key."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        count = st.slider(_("Layers"), 1, MOST, 4, key="layers", bind="query-params")
        text = st.text_input(
            _("Pattern of layers"), key="pattern", bind="query-params", max_chars=MOST, placeholder="AAAAAB", width=240,
            help=_("The mask of the first layer, of the second and so on, repeated over all layers: "
"AAAAAB is five layers of A and one of B."),
        )  # fmt: skip
    masks = dict(zip(SIDES, comparison.allowed, strict=True))
    stacks: dict[str, Sequence[np.ndarray]] = {side: [mask] for side, mask in masks.items()}
    try:
        if pattern := _read_pattern(text):
            stacks[pattern] = [masks[side] for side in pattern]
    except ValueError as problem:
        st.error(plain(str(problem)), icon=":material/error:")
    for (name, stack), place in zip(stacks.items(), st.columns(len(stacks)), strict=True):
        with place:
            _show_stack(comparison.inputs, name, stack, count)
    st.caption(_("Each position also keeps itself from layer to layer, through the residual stream."))


def _read_pattern(text: str) -> str:
    """Returns the sides of the layers, one letter each; empty if there is no pattern, or it is of one layer."""
    if wrong := re.search(rf"[^{''.join(SIDES)}\s,]", text, re.IGNORECASE):
        raise ValueError(
            _("A pattern is made of the letters A and B, such as AAAAAB; it has {wrong}. Delete that.").format(
                wrong=quoted(wrong[0])
            )
        )
    pattern = re.sub(r"[\s,]", "", text).upper()
    return pattern if len(pattern) > 1 else ""


def _show_stack(inputs: Inputs, name: str, stack: Sequence[np.ndarray], count: int) -> None:
    kind = _("mask {name}").format(name=name) if name in SIDES else _("the pattern {name}").format(name=name)
    try:
        needed = layers_needed(stack, count)
    except ValueError as problem:
        st.info(plain(str(problem)))
        return
    each = field_sizes(needed, count)
    depth = torch.where(needed > 0, needed.float(), torch.nan).numpy()
    chart(
        heatmap(
            depth, inputs.query_tokens, inputs.key_tokens, largest=float(count), sentences=SENTENCES,
            zoom_key=zoom_key(inputs), link="layers", fan=False, whole_numbers=True,
        ),
        f"reach-{name.lower()}" if name in SIDES else "reach-pattern",
        label=_("Layers until a query depends on a key, {kind}").format(kind=kind),
        name=_("reach of {kind}").format(kind=kind),
        description=_("The number of layers of {kind} through which each query depends on each key.").format(kind=kind),
        height=330,
        hint=_("Mask {name}: the color is the number of layers.").format(name=name),
    )  # fmt: skip
    growth = " → ".join(map(str, each.each[:, -1].tolist()))
    st.caption(
        _("Under {name} the last query depends on {growth} of {count} keys, layer by layer.").format(
            name=name, growth=growth, count=len(stack[0])
        )
    )
