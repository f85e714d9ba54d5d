"""Models: what do the heads of any Hugging Face model do?"""

from functools import partial

import streamlit as st

from attnviz.ui import head_controls, presentation
from attnviz.ui.models import (
    aggregation,
    head_metrics,
    model_picker,
    overview,
    side_by_side,
    stale_parameters,
    viewport,
    what_if,
)
from attnviz.ui.models.selection import LookedAt
from attnviz.ui.view import title

st.subheader("Models", anchor=False)
st.caption("What do the heads of any Hugging Face model do? Take one that is here, or name another, and type a text.")

choice = st.container()
notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
with choice:
    example, layers = model_picker.example(notes)
with st.sidebar:
    layer, head = head_controls.choose_layer_and_head(layers, example.opening)
    special, _, colors = head_controls.choose_display([layers[layer]], 0)  # the mosaic always has all layers
part = viewport.part(layers[layer].inputs)
seen = LookedAt(example, example.model(), layers, layer, head, special, colors, part)
stale_parameters.clear(seen)
with choice:
    presentation.name(f"{seen.model.name}: {title(seen.shown, head)}")
views = {
    "Overview": partial(overview.show, seen),
    "What heads do": partial(head_metrics.show, seen),
    "Together": partial(aggregation.show, seen),
    "What if": partial(what_if.show, seen),
    "Side by side": partial(side_by_side.show, seen),
}
for tab, view in zip(st.tabs(list(views), key="inspect", bind="query-params"), views.values(), strict=True):
    if tab.open:
        with tab:
            view()
