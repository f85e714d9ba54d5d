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
from attnviz.language import N_, _, value_error
from attnviz.state.masks import MOST_LAYERS, SIDES, MasksState
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.views.mask_pair import MaskPair
from attnviz.views.selected_maps import zoom_key

SENTENCES = CellSentences(
    N_("{query} depends on {key} from {weight} layers on."),
    N_("{query} does not depend on {key} through these layers."),
)


def show(pair: MaskPair) -> None:
    """Draws for each mask, and for a pattern of both, the number of layers through which a query depends on a key."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        count = int(draw(MasksState.stacked_layers, widget=st.slider))
        text = draw(MasksState.pattern, max_chars=MOST_LAYERS, placeholder="AAAAAB", width=240)
    masks = dict(zip(SIDES, pair.allowed, strict=True))
    stacks: dict[str, Sequence[np.ndarray]] = {side: [mask] for side, mask in masks.items()}
    try:
        if pattern := _read_pattern(text):
            stacks[pattern] = [masks[side] for side in pattern]
    except ValueError as problem:
        st.error(plain(str(problem)), icon=":material/error:")
    for (name, stack), place in zip(stacks.items(), st.columns(len(stacks)), strict=True):
        with place:
            _show_stack(pair.inputs, name, stack, count)
    st.caption(_("Each position also keeps itself from layer to layer, through the residual stream."))


def _read_pattern(text: str) -> str:
    """Returns the sides of the layers, one letter each; empty if there is no pattern, or it is of one layer."""
    if wrong := re.search(rf"[^{''.join(SIDES)}\s,]", text, re.IGNORECASE):
        raise value_error(
            "A pattern is made of the letters A and B, such as AAAAAB; it has {wrong}. Delete that.",
            wrong=quoted(wrong[0]),
        )
    pattern = re.sub(r"[\s,]", "", text).upper()
    return pattern if len(pattern) > 1 else ""


def _show_stack(inputs: Inputs, name: str, stack: Sequence[np.ndarray], count: int) -> None:
    kind = _("mask {name}", name=name) if name in SIDES else _("the pattern {name}", name=name)
    try:
        needed = layers_needed(stack, count)
    except ValueError as problem:
        st.info(plain(str(problem)))
        return
    each = field_sizes(needed, count)
    depth = torch.where(needed > 0, needed.float(), torch.nan).numpy()
    picture = heatmap(
        depth, inputs.query_tokens, inputs.key_tokens, largest=float(count), sentences=SENTENCES,
        zoom_key=zoom_key(inputs), link="layers", fan=False, whole_numbers=True,
    ).with_about(
        label=_("Layers until a query depends on a key, {kind}", kind=kind),
        hint=_("Mask {name}: the color is the number of layers.", name=name),
    )  # fmt: skip
    chart(picture, f"reach-{name.lower()}" if name in SIDES else "reach-pattern", height=330)
    growth = " → ".join(map(str, each.each[:, -1].tolist()))
    st.caption(
        _(
            "Under {name} the last query depends on {growth} of {count} keys, layer by layer.",
            name=name,
            growth=growth,
            count=len(stack[0]),
        )
    )
