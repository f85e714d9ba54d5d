"""The Overview tab: all heads of all layers, and the selected head with its queries, keys and values."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st
from jaxtyping import Int
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.head_metrics import HeadMetric, HeadMetricTable, head_metrics
from attnviz.analysis.work import check_work, heads_work, is_affordable
from attnviz.formatting import grouped, number
from attnviz.language import N_, _, option_name, plural
from attnviz.layer import head_name
from attnviz.state.models import ModelSelection, ModelsState
from attnviz.state.parts import help_text
from attnviz.state.selection import mosaic_groups, similar_layers
from attnviz.state.viewport import WHOLE
from attnviz.ui import cache, head_charts, head_grid
from attnviz.ui.downloads import downloads
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.menus import chosen_option
from attnviz.ui.models import grouped_query, layer_table, products
from attnviz.views import attention_kinds
from attnviz.views.head_view import HeadView, head_view
from attnviz.views.selected_maps import map_files, row_weights, selected_thumbnails

MOST_MOSAICS = 3  # that fit side by side
LOW = 320  # pixels of a mosaic above the large map
DOWNSAMPLED = N_("The part in view, in the cells that are drawn: the number of each that its color shows.")


def show(selection: ModelSelection) -> None:
    """Draws the mosaics, the map of the selected head with what it is computed from, and a table of the layers."""
    with st.sidebar:
        metric = _choose_metric(selection)
    inputs = selection.inputs
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    try:
        selected, *others = mosaics(selection)
        view = head_view(selected)
        smaller = [(one, selected_thumbnails(one)) for one in others]
        table = _compute_metric(selection, metric) if metric else None
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
    else:
        if note := missing_layers(selection, [selected, *others]):
            notes.info(plain(note))
        if metric and table and np.isnan(table.values[metric.name]).all():
            notes.info(_("No head here has a number for “{name}”. Choose another metric.", name=_(metric.name)))
        if leaks := layer_table.leaks(selection.layers):
            notes.warning(plain(leaks), icon=":material/visibility:")
        _show_heads(selected, view, smaller, metric, table)
    if grouped_query.is_grouped(inputs):
        st.markdown(f"#### {_('Heads that share keys')}")
        st.html(grouped_query.diagram(inputs, selection.head if isinstance(selection.head, int) else None))
    st.markdown(f"#### {_('The layers')}")
    st.html(layer_table.layers_table(selection.layers, selection.index))
    if meaning := layer_table.fidelity_legend(selection.layers):
        st.caption(meaning)
    if comparison := selection.layer.comparison:
        st.caption(plain(f"{option_name(selection.layer.name)}: {comparison}"))


def mosaics(selection: ModelSelection) -> list[ModelSelection]:
    """Returns a selection for each mosaic: that of the selected layer, and of the other kinds of layers if they fit."""
    first = [group[0] for group in mosaic_groups(selection.layers) if selection.index not in group]
    others = first if len(first) < MOST_MOSAICS else []
    return [
        _with_all_layers(selection),
        *(_with_all_layers(replace(selection, index=i, head=0, viewport=WHOLE)) for i in others),
    ]


def _with_all_layers(selection: ModelSelection) -> ModelSelection:
    """Returns the selection with a mosaic of all layers, or of its own layer if all take too much work."""
    indices = similar_layers(selection.layers, selection.index)
    work = heads_work([selection.layers[i] for i in indices])
    return replace(selection, all_layers=is_affordable(work))


def _show_heads(
    selection: ModelSelection,
    view: HeadView,
    others: Sequence[tuple[ModelSelection, np.ndarray]],
    metric: HeadMetric | None,
    table: HeadMetricTable | None,
) -> None:
    above, right = _mosaic_places(selection, others)
    below = st.container()
    with below:
        row, hidden = head_charts.pin(view)
    view = view.without_row(hidden)
    every = sorted([(selection, view.thumbnails), *others], key=lambda one: one[0].mosaic_layers[0])
    titles = attention_kinds.distinct_names([one.layer for one, _small in every], selection.model.is_encoder_decoder)
    for i, (place, (one, small)) in enumerate(zip(above, every, strict=True)):
        key, height = (f"heads-{i}", LOW) if others else ("heads", head_charts.HEIGHT)
        is_selected = one is selection
        hint = "" if others else _("Click a head to open it.")  # the low ones have no room for it
        with place:
            if others:
                st.markdown(f"**{titles[i]}**")
            if metric and table:
                _show_grid(one, is_selected, metric, table, key, height, hint)
            else:
                largest = view.mosaic_end if is_selected else selection.colors.end([small])
                framed: Sequence[tuple[int, int]] | None = None if is_selected else []
                head_charts.show_mosaic(one, small, largest, key, framed=framed, height=height, hint=hint)
    with right:
        figure = head_charts.show_map(view, row, products.pin_cell(selection))
    with below:
        with st.columns([0.8, 0.2])[1]:
            note = "" if view.is_whole else _(DOWNSAMPLED)
            downloads(map_files(view.head_map, lambda: figure, selection.source.weights_note), note)
        if hidden is None:
            weights = None if row is None else row_weights(selection, view.head_map, row)
            products.show(selection, row, weights)


def _mosaic_places(
    selection: ModelSelection, others: Sequence[object]
) -> tuple[Sequence[DeltaGenerator], DeltaGenerator]:
    """Returns the places of the mosaics and of the large map: side by side if there is one mosaic."""
    if selection.tiles.is_wide:
        return [st.container() for _mosaic in range(len(others) + 1)], st.container()
    if others:
        return st.columns(len(others) + 1, gap="medium"), st.container()
    left, right = head_charts.places(selection)
    return [left], right


def _choose_metric(selection: ModelSelection) -> HeadMetric | None:
    """Draws the menu of metrics that color the heads; returns the metric, or None for attention maps."""
    field, state = ModelsState.color_by, selection.state
    menu = field.options(state)
    chosen = menu.get(chosen_option(field.parameter, menu))
    about = help_text(type(chosen)) if chosen else _("Small maps of all heads, or one number for each.")
    return draw(field, state, help=about)


def _compute_metric(selection: ModelSelection, metric: HeadMetric) -> HeadMetricTable:
    layers = selection.layers
    work = heads_work(layers)
    check_work(
        work,
        _("To measure all heads"),
        _("Use a shorter text, or see “What heads do”: it computes them in the background."),
    )
    return cache.once(
        partial(head_metrics, layers, metrics=[metric]), "heads colored by", selection.source, metric.name, work=work
    )


def _show_grid(
    selection: ModelSelection,
    is_selected: bool,
    metric: HeadMetric,
    table: HeadMetricTable,
    key: str,
    height: int,
    hint: str,
) -> None:
    """Draws the heads of the mosaic's layers as cells, colored by a metric; a click opens a head."""
    layers = selection.mosaic_layers
    values = np.stack([table.values[metric.name][table.layers == layer] for layer in layers])
    sentences = [
        f"{head_name(selection.layers[layer].id, head)}: {_value_text(metric, float(value))}"
        for layer, row in zip(layers, values, strict=True)
        for head, value in enumerate(row)
    ]
    everything = table.values[metric.name]
    largest = 1.0 if metric.unit == "share" else float(np.nanmax(everything, initial=0)) or 1.0
    head_grid.show(
        selection, layers, values, sentences, key, _metric_title(metric, table),
        largest=largest, hint=hint, framed=is_selected, height=height, titled=True,
    )  # fmt: skip


def missing_layers(selection: ModelSelection, drawn: Sequence[ModelSelection]) -> str:
    """Returns a note on the layers that no mosaic has; empty if there are none."""
    there = {i for one in drawn for i in one.mosaic_layers}
    missing = [layer.id for i, layer in enumerate(selection.layers) if i not in there]
    name = selection.layer.name
    if not missing:
        return ""
    if not drawn[0].all_layers:
        return _(
            "All heads of all layers would take long on a text of this length: the mosaic shows only {name}.", name=name
        )
    return plural(
        "The mosaic has the layers that are like {name}; {others} has other numbers of heads or tokens. Choose one in "
        "the menu to see it.",
        "The mosaic has the layers that are like {name}; {others} have other numbers of heads or tokens. Choose one "
        "in the menu to see it.",
        len(missing),
        name=option_name(name),
        others=layer_table.layer_ranges(missing),
    )


def _positions_text(positions: Int[np.ndarray, " heads"]) -> str:
    """Returns on how many tokens the numbers of heads rest, as “over 3 tokens”; empty if none has a number."""
    counts = positions[positions > 0].tolist()
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    if least < most:
        return _("over {least} to {most} tokens", least=grouped(least), most=grouped(most))
    return plural("over {count} token", "over {count} tokens", most, count=grouped(most))


def _metric_title(metric: HeadMetric, table: HeadMetricTable) -> str:
    """Returns a metric's name with its unit, and on how many tokens it rests."""
    unit = "" if metric.unit == "share" else _(metric.unit)
    return ", ".join(filter(None, (_(metric.name), unit, _positions_text(table.positions[metric.name]))))


def _value_text(metric: HeadMetric, value: float) -> str:
    """Returns a metric's value with its unit."""
    if np.isnan(value):
        return _("none")
    return number(value) if metric.unit == "share" else f"{number(value)} {_(metric.unit)}"
