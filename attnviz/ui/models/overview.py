"""The Overview tab: all heads of all layers, and the selected head with its queries, keys and values."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz.analysis.head_metrics import HeadMetric, HeadMetricTable, head_metrics
from attnviz.analysis.work import check_work, heads_work, is_affordable
from attnviz.formatting import number
from attnviz.language import N_, _, in_sentence, option_name, plural
from attnviz.ui import cache, head_charts
from attnviz.ui.chart import chart
from attnviz.ui.downloads import FILE_NOT_LINKED, downloads
from attnviz.ui.head_controls import head_names, open_head
from attnviz.ui.head_map import selected_map, selected_thumbnails
from attnviz.ui.markdown import plain
from attnviz.ui.menus import chosen_option, names_of
from attnviz.ui.models import attention_kinds, grouped_query, layer_table, products
from attnviz.ui.models.metrics_table import offered_metrics, positions_text
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.models.text_box import not_linked_note
from attnviz.ui.selection import mosaic_group, similar_layers
from attnviz.ui.viewport import WHOLE
from attnviz.ui.widgets import help_text

MOST_MOSAICS = 3  # that fit side by side
LOW = 320  # pixels of a mosaic above the large map
MAPS = N_("Attention maps")
DOWNSAMPLED = N_("The part in view, in the cells that are drawn: the number of each that its color shows.")


def show(selection: ModelSelection) -> None:
    """Draws the mosaics, the map of the selected head with what it is computed from, and a table of the layers."""
    with st.sidebar:
        metric = _choose_metric(selection)
    inputs = selection.layer.inputs
    notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
    try:
        selected, *others = mosaics(selection)
        thumbnails = {one.index: selected_thumbnails(one) for one in (selected, *others)}
        selected_map(selected)
        table = _compute_metric(selection, metric) if metric else None
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
    else:
        if note := missing_layers(selection, [selected, *others]):
            notes.info(plain(note))
        if leaks := layer_table.leaks(selection.layers):
            notes.warning(plain(leaks), icon=":material/visibility:")
        _show_heads(selected, others, thumbnails, metric, table)
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
    first = {mosaic_group(layer): i for i, layer in reversed(list(enumerate(selection.layers)))}
    del first[mosaic_group(selection.layer)]
    others = sorted(first.values()) if len(first) < MOST_MOSAICS else []
    return [
        _with_all_layers(selection),
        *(_with_all_layers(replace(selection, index=i, head=0, viewport=WHOLE)) for i in others),
    ]


def _with_all_layers(selection: ModelSelection) -> ModelSelection:
    """Returns the selection with a mosaic of all layers, or of its own layer if all take too much work."""
    indices = similar_layers(selection.layers, selection.index)
    work = heads_work([selection.layers[i] for i in indices], [selection.mechanisms[i] for i in indices])
    return replace(selection, all_layers=is_affordable(work))


def _show_heads(
    selection: ModelSelection,
    others: Sequence[ModelSelection],
    thumbnails: dict[int, np.ndarray],
    metric: HeadMetric | None,
    table: HeadMetricTable | None,
) -> None:
    every = sorted([selection, *others], key=lambda one: one.mosaic_layers[0])
    titles = attention_kinds.distinct_names([one.layer for one in every], selection.model.is_encoder_decoder)
    above, right = _mosaic_places(selection, others)
    below = st.container()
    head_map = selected_map(selection)
    with below:
        row, hidden = head_charts.pin(selection, head_map)
    # Of a long text most weights are small among thousands of keys: its map has a range of colors of its own.
    is_whole = head_map.downsampled is None
    head_map, thumbnails[selection.index] = head_charts.without_row(head_map, thumbnails[selection.index], hidden)
    small = thumbnails[selection.index]
    end = selection.colors.end([head_map.weights if is_whole else small], [small])
    for i, (place, one) in enumerate(zip(above, every, strict=True)):
        key, height = (f"heads-{i}", LOW) if others else ("heads", head_charts.HEIGHT)
        is_selected = one is selection
        hint = "" if others else _("Click a head to open it.")  # the low ones have no room for it
        with place:
            if others:
                st.markdown(f"**{titles[i]}**")
            if metric and table:
                _show_grid(one, is_selected, metric, table, key, height, hint)
            else:
                small = thumbnails[one.index]
                largest = end if is_selected else selection.colors.end([small])
                framed: Sequence[tuple[int, int]] | None = None if is_selected else []
                head_charts.show_mosaic(one, small, largest, key, framed=framed, height=height, hint=hint)
    with right:
        end = end if is_whole else selection.colors.end([head_map.weights])
        figure = head_charts.show_map(selection, head_map, row, end, products.pin_cell(selection))
    with below:
        with st.columns([0.8, 0.2])[1]:
            source = selection.source
            not_linked = f"{_(FILE_NOT_LINKED) if source.private else ''} {not_linked_note(source.text, source.pair)}"
            downloads(head_map, figure, "" if is_whole else _(DOWNSAMPLED), not_linked=not_linked.strip())
        if hidden is None:
            weights = None if row is None else head_charts.row_weights(selection, head_map, row)
            products.show(selection, row, weights)


def _mosaic_places(
    selection: ModelSelection, others: Sequence[ModelSelection]
) -> tuple[Sequence[DeltaGenerator], DeltaGenerator]:
    """Returns the places of the mosaics and of the large map: side by side if there is one mosaic."""
    if others:
        return st.columns(len(others) + 1, gap="medium"), st.container()
    is_wide = max(len(selection.mosaic_layers), selection.layer.inputs.heads) > 16
    left, right = st.columns([0.45, 0.55] if is_wide else [0.32, 0.68], gap="medium")
    return [left], right


def _choose_metric(selection: ModelSelection) -> HeadMetric | None:
    """Draws the menu of metrics that color the heads; returns the metric, or None for attention maps."""
    menu = offered_metrics(selection.layers)
    name = chosen_option("color-by", [MAPS, *menu])
    about = help_text(type(menu[name])) if name in menu else _("Small maps of all heads, or one number for each.")
    chosen = st.selectbox(
        _("Color by"), [MAPS, *menu], key="color-by", bind="query-params", help=about,
        format_func=names_of("color-by", [MAPS, *menu]),
    )  # fmt: skip
    return menu.get(chosen)


def _compute_metric(selection: ModelSelection, metric: HeadMetric) -> HeadMetricTable:
    layers = selection.layers
    work = heads_work(layers, selection.mechanisms)
    check_work(
        work,
        _("To measure all heads"),
        _("Take a shorter text, or see “What heads do”: it computes them in the background."),
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
    layers, names = selection.mosaic_layers, head_names(selection.layer.inputs.heads)
    values = np.stack([table.values[metric.name][table.layers == layer] for layer in layers], axis=1)
    unit = "" if metric.unit == "share" else f" {_(metric.unit)}"
    sentences = [
        f"{option_name(selection.layers[layer].name)}, {in_sentence(name)}: "
        + (_("none") if np.isnan(value) else f"{number(float(value))}{unit}")
        for name, row in zip(names, values, strict=True)
        for layer, value in zip(layers, row, strict=True)
    ]
    everything = table.values[metric.name]
    largest = 1.0 if metric.unit == "share" else float(np.nanmax(everything, initial=0)) or 1.0
    chosen = []
    if is_selected and isinstance(selection.head, int):
        chosen = [selection.head * len(layers) + layers.index(selection.index)]
    picture = figures.head_grid(values, sentences, largest=largest, chosen=chosen)

    def click(row: int, column: int) -> None:
        place = picture.spec.head_at(row, column)
        if place is not None:
            open_head(selection.layers, layers[place % len(layers)], place // len(layers))

    chart(
        picture,
        key,
        label=_(metric.name),
        name=_("heads by {lower}").format(lower=in_sentence(metric.name)),
        description=_("{count} heads, each a cell; the head menu opens one.").format(count=len(sentences)),
        height=height,
        title=", ".join(filter(None, (_(metric.name), positions_text(table.positions[metric.name])))),
        hint=hint,
        on_click=click,
    )


def missing_layers(selection: ModelSelection, drawn: Sequence[ModelSelection]) -> str:
    """Returns a note on the layers that no mosaic has; empty if there are none."""
    there = {i for one in drawn for i in one.mosaic_layers}
    missing = [layer.id for i, layer in enumerate(selection.layers) if i not in there]
    name = selection.layer.name
    if not missing:
        return ""
    if not drawn[0].all_layers:
        return _("All heads of all layers would take long on so long a text: the mosaic has {name} alone.").format(
            name=name
        )
    return plural(
        "The mosaic has the layers that are like {name}; {others} has other numbers of heads or tokens. Choose one in "
        "the menu to see it.",
        "The mosaic has the layers that are like {name}; {others} have other numbers of heads or tokens. Choose one "
        "in the menu to see it.",
        len(missing),
    ).format(name=option_name(name), others=layer_table.layer_ranges(missing))
