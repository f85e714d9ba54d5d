"""The pinned query of a long map: its weights at all keys as a curve, and the text around it and its strongest key."""

from collections.abc import Sequence

import streamlit as st
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import strongest_keys
from attnviz.analysis.peaks import peak_positions
from attnviz.figures.query_curve import query_curve
from attnviz.language import _
from attnviz.page import html
from attnviz.page.block_html import block_html
from attnviz.state.selection import Selection
from attnviz.state.viewport import numbered_token
from attnviz.ui import viewport_sliders
from attnviz.ui.chart import chart
from attnviz.views.long_map_blocks import around, context_blocks
from attnviz.views.selected_maps import HeadMap

CURVE = "query-curve"
HEIGHT = 190


def show(selection: Selection, head_map: HeadMap, row: int, weights: Float[torch.Tensor, " keys"]) -> None:
    """Draws the exact weights of one of the shown queries at all shown keys; a click moves the viewport there.

    Below stands the text around the query and around the key with its largest weight.
    """
    inputs, query = head_map.inputs, selection.queries[row]
    if not len(weights):
        return
    peaks = peak_positions(weights)
    positions = [selection.keys[i] for i in peaks.tolist()]
    name = numbered_token(inputs, inputs.query_tokens, query)
    first, end = head_map.viewport.keys

    def click(point: int, _: int) -> None:
        viewport_sliders.move(around(query, inputs.queries), around(positions[point], inputs.keys))

    picture = query_curve(
        weights[peaks],
        torch.tensor(positions),
        name,
        [numbered_token(inputs, inputs.key_tokens, key) for key in positions],
        shaded=None if end is None else (first, end),
        scale=head_map.cell_colors.scale,
        allowed=head_map.sentences.allowed,
    ).with_about(
        name=_("attention of query {query} {title}", query=query, title=head_map.title),
        hint=_("All keys of the pinned query. Click one to go there."),
    )
    chart(picture, CURVE, height=HEIGHT, grows=False, on_click=click)
    best = strongest_keys(weights, 1)
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_context(_("The query in its text"), inputs.query_tokens, query)
    if best:
        with right:
            _draw_context(_("Its strongest key"), inputs.key_tokens, selection.keys[best[0][0]])


def _draw_context(title: str, tokens: Sequence[str], position: int) -> None:
    st.html(
        html.join(block_html(block, lambda _anchor: None) or "" for block in context_blocks(title, tokens, position))
    )
