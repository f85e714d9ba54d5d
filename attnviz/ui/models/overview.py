"""All heads of all layers, and the chosen one with its queries, keys and values."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz.analysis.head_metrics import MEASURES, HeadMeasure, HeadMeasures, head_measures
from attnviz.analysis.work import check_work, heads_work, is_affordable
from attnviz.formatting import number
from attnviz.ui import cache, head_charts
from attnviz.ui.chart import chart
from attnviz.ui.downloads import downloads
from attnviz.ui.head_controls import head_names
from attnviz.ui.markdown import plain
from attnviz.ui.models import attention_kinds, grouped_query, layer_table, long, products
from attnviz.ui.models.long import LongView
from attnviz.ui.models.one_head import open_head
from attnviz.ui.models.selection import LookedAt
from attnviz.ui.models.viewport import ALL, is_long
from attnviz.ui.view import View, fitting
from attnviz.ui.widgets import help_text

APART = 3  # mosaics that find room side by side
LOW = 320  # pixels of a mosaic above the large map
MAPS = "Attention maps"


def show(seen: LookedAt) -> None:
    """Draws it."""
    with st.sidebar:
        colored = _colored()
    inputs = seen.shown.inputs
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    try:
        view, *others = views(seen)
        measured = _measured(seen, colored) if colored else None
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
    else:
        if unsaid := unfit(seen, [view, *others]):
            notes.info(plain(unsaid))
        _heads(seen, view, others, colored, measured)
    if grouped_query.shared(inputs):
        st.markdown("##### Heads that share keys")
        st.html(grouped_query.picture(inputs, seen.head if isinstance(seen.head, int) else None))
    st.markdown("##### The layers")
    st.html(layer_table.table(seen.layers, seen.layer))
    if meaning := layer_table.explained(seen.layers):
        st.caption(meaning)


def views(seen: LookedAt) -> list[View]:
    """The layers that fit into one mosaic with the chosen one, and then those of each other kind, if they find room.

    Raises ValueError, in words, for what would be too much to compute.
    """
    others = {fitting(layer): i for i, layer in reversed(list(enumerate(seen.layers)))}
    del others[fitting(seen.shown)]
    return [_view(seen, i) for i in (seen.layer, *(sorted(others.values()) if len(others) < APART else []))]


def _view(seen: LookedAt, layer: int) -> View:
    inputs, mechanisms = seen.layers[layer].inputs, [one.mechanism for one in seen.layers]
    like = [i for i, one in enumerate(seen.layers) if fitting(one) == fitting(seen.layers[layer])]
    mine = layer == seen.layer
    make: Callable[..., View] = View
    if is_long(inputs):
        make = partial(LongView, part=seen.part if mine else ALL)
    return make(
        source=seen.example,
        layers=seen.layers,
        mechanisms=mechanisms,
        layer=layer,
        head=seen.head if mine else 0,
        special=seen.special,
        every=is_affordable(heads_work([seen.layers[i] for i in like], [mechanisms[i] for i in like])),
        colors=seen.colors,
    )


def _heads(
    seen: LookedAt, view: View, others: Sequence[View], colored: HeadMeasure | None, measured: HeadMeasures | None
) -> None:
    every = sorted([view, *others], key=lambda one: one.beside[0])
    titles = attention_kinds.told_apart([one.layers[one.layer] for one in every], seen.model.is_encoder_decoder)
    above, right = _places(view, others)
    below = st.container()
    with below:
        row, secret = (long.pin(view), None) if isinstance(view, LongView) else head_charts.pin(view)
    shown = view if secret is None else head_charts.without(view, secret)
    for i, (place, one) in enumerate(zip(above, every, strict=True)):
        key, height = (f"heads-{i}", LOW) if others else ("heads", head_charts.HEIGHT)
        with place:
            if others:
                st.markdown(f"**{titles[i]}**")
            if colored and measured:
                _grid(one, one is view, colored, measured, key, height)
            else:
                head_charts.small_maps(shown if one is view else one, key, one is view, height)
    with right:
        if isinstance(view, LongView):
            figure = long.draw(view)
        else:
            figure = head_charts.large_map(shown, row, secret is not None, products.pick(view))
    with below:
        with st.columns([0.8, 0.2])[1]:
            downloads(shown, figure, long.NOTE if isinstance(view, LongView) else "")
        if secret is None:
            weights = None if row is None else view.of_row(row) if isinstance(view, LongView) else view.weights[row]
            products.show(seen, view, row, weights)


def _places(view: View, others: Sequence[View]) -> tuple[Sequence[DeltaGenerator], DeltaGenerator]:
    """Where the mosaics stand, and where the large map does: beside the only mosaic, or below several."""
    if others:
        return st.columns(len(others) + 1, gap="medium"), st.container()
    wide = max(len(view.beside), view.heads) > 16
    left, right = st.columns([0.45, 0.55] if wide else [0.32, 0.68], gap="medium")
    return [left], right


def _colored() -> HeadMeasure | None:
    """The measure that the heads are colored by, if not by their maps."""
    menu = {measure.name: measure for measure in MEASURES}
    name = st.session_state.get("color-by", st.query_params.get("color-by"))
    about = help_text(type(menu[name])) if name in menu else "Small maps of all heads, or one number for each."
    chosen = st.selectbox("Color by", [MAPS, *menu], key="color-by", bind="query-params", help=about)
    return menu.get(chosen)


def _measured(seen: LookedAt, measure: HeadMeasure) -> HeadMeasures:
    layers = seen.layers
    work = heads_work(layers, [layer.mechanism for layer in layers])
    check_work(work, "To measure all heads", "Take a shorter text, or color by attention maps.")
    return cache.once(
        partial(head_measures, layers, measures=[measure]), "heads colored by", seen.example, measure.name
    )


def _grid(view: View, mine: bool, measure: HeadMeasure, measured: HeadMeasures, key: str, height: int) -> None:
    """The heads of the view's layers as cells, colored by a measure; a click opens a head."""
    layers, names = view.beside, head_names(view.heads)
    values = np.stack([measured.values[measure.name][measured.layers == layer] for layer in layers], axis=1)
    unit = "" if measure.unit == "share" else f" {measure.unit}"
    said = [
        f"{view.layers[layer].name}, {name.lower()}: "
        + ("none" if np.isnan(value) else f"{number(float(value))}{unit}")
        for name, row in zip(names, values, strict=True)
        for layer, value in zip(layers, row, strict=True)
    ]
    everything = measured.values[measure.name]
    largest = 1.0 if measure.unit == "share" else float(np.nanmax(everything, initial=0)) or 1.0
    chosen = [view.head * len(layers) + layers.index(view.layer)] if mine and isinstance(view.head, int) else []
    picture = figures.head_grid(values, said, largest=largest, chosen=chosen, titles=("heads", "layers"))

    def click(row: int, column: int) -> None:
        place = picture.spec.head_at(row, column)
        if place is not None:
            open_head(view.layers, layers[place % len(layers)], place // len(layers))

    chart(
        picture,
        key,
        label=measure.name,
        name=f"heads by {measure.name.lower()}",
        description=f"{len(said)} heads, each a cell; the head menu opens one.",
        height=height,
        title=measure.name,
        hint="" if height == LOW else "Click to open",
        on_click=click,
    )


def unfit(seen: LookedAt, shown: Sequence[View]) -> str:
    """Which layers are in no mosaic, and why."""
    there = {i for one in shown for i in one.beside}
    left = [layer.id for i, layer in enumerate(seen.layers) if i not in there]
    if not left:
        return ""
    if not shown[0].every:
        return f"All heads of all layers would take long on so long a text: the mosaic has {seen.shown.name} alone."
    return (
        f"The mosaic has the layers that are like {seen.shown.name}; {layer_table.named(left)} "
        f"{'has' if len(left) == 1 else 'have'} other numbers of heads or tokens. Choose one in the menu to see it."
    )
