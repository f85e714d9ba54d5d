"""The same tokens under several similarities, side by side."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import streamlit as st
import torch

from attnviz.analysis.difference import ADDED, REMOVED, difference, kinds
from attnviz.analysis.head_maps import HeadChoice, Special
from attnviz.figures import heatmap
from attnviz.figures.difference import difference as difference_figure
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.mechanism import Mechanism
from attnviz.scores import SCORES, Additive, Cosine, ScaledDot, Score
from attnviz.sources import Source
from attnviz.ui import cache, mechanism_controls, widgets
from attnviz.ui.chart import chart
from attnviz.ui.color_range import largest_weight
from attnviz.ui.view import head_weights, tokens_stamp
from attnviz.ui.widgets import title

START = (ScaledDot(), Cosine(), Additive())
LINK = "scores"
HEIGHT = 330


def show(
    source: Source,
    layers: Sequence[Layer],
    layer: int,
    head: HeadChoice,
    shared: Mechanism,
    pinned: int | None,
    toggle: Callable[[int], None],
) -> None:
    """A map for each chosen similarity in one color range, and the difference of two of them."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.popover("Choose similarities", icon=":material/tune:", width=220):
            scores: list[Score] = widgets.choose_several("Similarities", SCORES, START)
        shared = mechanism_controls.choose_normalizer(shared)
    notes = st.container()

    def made() -> tuple[Inputs, dict[str, np.ndarray]]:
        mechanisms = {title(type(score)): replace(shared, score=score) for score in scores}
        return layers[layer].inputs, {
            name: head_weights(source, layers, layer, mechanism, head, Special.SHOWN)
            for name, mechanism in mechanisms.items()
        }

    inputs, maps = cache.or_last_good("similarities", made, lambda: (layers[layer].inputs, {}), notes)
    if not maps:
        notes.info("Choose at least one similarity.")
        return
    tokens, stamp = (inputs.query_tokens, inputs.key_tokens), tokens_stamp(inputs)
    end, columns = largest_weight(list(maps.values())), st.columns(3, gap="medium")
    for i, (name, weights) in enumerate(maps.items()):
        with columns[i % 3]:
            st.markdown(f"**{name}**")
            chart(
                heatmap(weights, *tokens, largest=end, fan=False, zoom_key=stamp, link=LINK),
                f"score-{name.lower().replace(' ', '-')}",
                label=f"Attention weights with {name}",
                name=f"attention {name}",
                description=f"Weights of {weights.shape[0]} queries on {weights.shape[1]} keys, similarity: {name}.",
                height=HEIGHT,
                pinned=pinned,
                hint="Point at a cell: it is marked in all maps.",
                on_click=lambda row, _: toggle(row),
            )
    if len(maps) < 2:
        return
    names = list(maps)
    with st.container(horizontal=True):
        first = st.selectbox("Difference: from", names, 0, key="from", bind="query-params")
        second = st.selectbox("to", names, 1, key="to", bind="query-params")
    before, after = (torch.from_numpy(maps[name]) for name in (first, second))
    what = kinds(before, after).numpy()
    with st.container(width=420):
        chart(
            difference_figure(
                difference(before, after).numpy(), what == REMOVED, what == ADDED, *tokens,
                charts=tuple(f"score-{name.lower().replace(' ', '-')}" for name in (first, second)),  # type: ignore[arg-type]
                zoom_key=stamp, link=LINK,
            ),
            "score-change",
            label=f"{second} minus {first}",
            name=f"{second} minus {first}",
            description=f"{second} minus {first}, cell by cell.",
            height=HEIGHT,
            pinned=pinned,
            hint=f"More attention with {second} is blue, less is brown.",
            on_click=lambda row, _: toggle(row),
        )  # fmt: skip
