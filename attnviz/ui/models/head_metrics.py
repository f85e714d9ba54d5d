"""The metrics of heads as a table and a scatter plot, in which each point is a head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.column_types import ColumnConfig

from attnviz.analysis.head_metrics import HEAD_METRICS, Excluded, HeadMetric, HeadMetricTable, head_metrics
from attnviz.analysis.work import heads_work, is_affordable
from attnviz.figures.scatter import SHAPES, scatter
from attnviz.formatting import number
from attnviz.language import N_, _, in_sentence, option_name
from attnviz.layer import Layer
from attnviz.ui import cache, html
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_map import selected_map
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.models import attention_kinds
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.widgets import help_text

MENU = {metric.name: metric for metric in HEAD_METRICS}
ACROSS, UP = N_("Distance"), N_("Entropy")  # of the scatter, to begin with
LEFT_OUT: dict[str, Excluded] = {N_("Nothing"): "none", N_("The first token"): "first", N_("Special tokens"): "special"}
TABLE = "heads-table"
MANY, SMALL = 300, 8  # so many points are smaller, of so many pixels
HEIGHT, WIDTH = 400, 112  # of a chart, and of a column of the table


@dataclass(frozen=True, eq=False)
class MetricsTable:
    """The metrics of heads, with the heads' names."""

    layers: Sequence[Layer]
    metrics: HeadMetricTable  # its layers are indices of the whole list

    @property
    def names(self) -> list[str]:
        """The heads, in the order of the table."""
        return [
            _("{name}, head {head}").format(name=option_name(self.layers[i].name), head=head) for i, head in self.heads
        ]

    @property
    def heads(self) -> list[tuple[int, int]]:
        return list(zip(self.metrics.layers.tolist(), self.metrics.heads.tolist(), strict=True))

    @property
    def values(self) -> dict[str, Float[np.ndarray, " heads"]]:
        """The metrics that are defined for at least one head."""
        return {name: values for name, values in self.metrics.values.items() if not np.isnan(values).all()}


def show(selection: ModelSelection) -> None:
    """Draws the heads as points and as rows of a table, and the map of the selected one."""
    places = st.columns(3, gap="medium")
    with places[0]:
        across = _choose_metric(N_("Across"), ACROSS)
    with places[1]:
        up = _choose_metric(N_("Up"), UP)
    with places[2]:
        excluded = st.selectbox(
            _("Leave out"), list(LEFT_OUT), key="leave-out", bind="query-params",
            format_func=names_of("leave-out", LEFT_OUT),
            help=_("What is left out does not count as a query, and what lies on it as a key does not "
"count either."),
        )  # fmt: skip
    notes = st.container()
    table = _compute(selection, LEFT_OUT[excluded])
    if len({*table.metrics.layers.tolist()}) < len(selection.layers):
        name = plain(selection.layer.name)
        notes.caption(_("These are the heads of {name}: all would be too many for so long a text.").format(name=name))
    metrics = list(dict.fromkeys((across, up)))
    for metric in metrics:
        if metric.name not in table.values:
            notes.info(
                _("No head here has a number for “{name}”. Choose another measure, or leave nothing out.").format(
                    name=_(metric.name)
                )
            )
    row = next((i for i, head in enumerate(table.heads) if head == (selection.index, selection.head)), None)
    left, right = st.columns([0.56, 0.44], gap="medium")
    with left:
        _show_scatter(table, across, up, row)
        explained = (html.element("p", html.element("b", f"{one.name}."), f" {_definition(one)}") for one in metrics)
        texts = [*_kinds_legend(selection), *_missing_points(table, metrics)]
        st.html(html.element("div", html.paragraphs(texts), *explained, class_="attnviz-measures"))
    with right:
        _show_map(selection, notes)
    _show_table(table, row)


def _choose_metric(label: str, start: str) -> HeadMetric:
    name = st.selectbox(
        _(label), list(MENU), list(MENU).index(start), key=label.lower(), bind="query-params",
        format_func=names_of(label.lower(), MENU),
    )  # fmt: skip
    return MENU[name]


def _compute(selection: ModelSelection, excluded: Excluded) -> MetricsTable:
    """Returns the metrics of all heads, or of those of one layer if all take too much work."""
    work = heads_work(selection.layers, selection.mechanisms)
    indices = list(range(len(selection.layers))) if is_affordable(work) else [selection.index]
    layers = [selection.layers[i] for i in indices]
    metrics = cache.once(
        lambda: head_metrics(layers, excluded_queries=excluded, excluded_keys=excluded),
        *("head metrics", selection.source, excluded, indices),
        work=heads_work(layers, [layer.mechanism for layer in layers]),
    )
    return MetricsTable(selection.layers, replace(metrics, layers=np.array(indices)[metrics.layers]))


def _definition(metric: HeadMetric) -> str:
    return help_text(type(metric)).split("\n\n")[0].replace("\n", " ")


def _title(metric: HeadMetric) -> str:
    return _(metric.name) if metric.unit == "share" else f"{_(metric.name)}, {_(metric.unit)}"


def value_text(metric: HeadMetric, value: float) -> str:
    """Returns a metric's value with its unit."""
    if np.isnan(value):
        return _("none")
    return number(value) if metric.unit == "share" else f"{number(value)} {_(metric.unit)}"


def _numbered_kinds(layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """Returns for each layer the number of its kind of attention, and which of its kind it is."""
    groups = [attention_kinds.group(layer) for layer in layers]
    order = list(dict.fromkeys(groups))
    return [(order.index(group), groups[:i].count(group)) for i, group in enumerate(groups)]


def _kinds_legend(selection: ModelSelection) -> list[str]:
    """Returns the legend of the shapes of points; empty if there is one kind of attention."""
    names = {
        kind: attention_kinds.kind_name(layer, selection.model.is_encoder_decoder)
        for layer, (kind, place) in zip(selection.layers, _numbered_kinds(selection.layers), strict=True)
    }
    shapes = list(SHAPES.values())
    return [" · ".join(f"{shapes[kind % len(shapes)]} {name}" for kind, name in names.items())] * (len(names) > 1)


def _missing_points(table: MetricsTable, metrics: Sequence[HeadMetric]) -> list[str]:
    """Returns notes on the heads without a point."""
    counts = {metric.name: int(np.isnan(table.metrics.values[metric.name]).sum()) for metric in metrics}
    total = len(table.heads)
    return [
        _("{count} of {total} heads have no {lower} and no point; the table has them.").format(
            count=count, total=total, lower=in_sentence(name)
        )
        for name, count in counts.items()
        if 0 < count < total
    ]


def _show_scatter(table: MetricsTable, across: HeadMetric, up: HeadMetric, selected: int | None) -> None:
    x, y = (table.metrics.values[metric.name] for metric in (across, up))
    kinds = _numbered_kinds(table.layers)
    picture = scatter(
        x,
        y,
        [
            f"{name}: {in_sentence(across.name)} {value_text(across, a)}, {in_sentence(up.name)} {value_text(up, b)}"
            for name, a, b in zip(table.names, x.tolist(), y.tolist(), strict=True)
        ],
        np.array([kinds[i][1] for i, head in table.heads]),
        [] if selected is None else [selected],
        titles=(_title(across), _title(up)),
        kinds=[kinds[i][0] for i, head in table.heads],
        aspect=0.7,  # beside a map that is as high as it is wide
    )
    if len(x) > MANY:
        picture.figure.data[0].marker.size = SMALL
    chart(
        picture,
        "heads-scatter",
        label=_("Heads by what they do"),
        name=_("heads {name} {name_2}").format(name=across.name, name_2=up.name),
        description=_("{count} heads, each a point: {name} across, {name_2} up. The table has them, too.").format(
            count=len(x), name=across.name, name_2=up.name
        ),
        height=HEIGHT,
        hint=_("Each point is a head. Click to open it."),
        on_click=lambda point, column: open_head(table.layers, *table.heads[point]),
    )


def _show_map(selection: ModelSelection, notes: DeltaGenerator) -> None:
    """Draws the selected head."""
    try:
        head_map = selected_map(selection)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    chart(
        head_map.chart(largest=selection.colors.end([head_map.weights])),
        "opened-map",
        title=head_map.title,
        label=_("Attention weights of the opened head"),
        name=_("attention {title}").format(title=head_map.title),
        description=f"{head_map.title}: {head_map.size}.",
        height=HEIGHT,
        hint=_("Point at a cell."),
        on_view=head_map.on_view,
    )


def _show_table(table: MetricsTable, selected: int | None) -> None:
    """Draws all heads as rows; a click on one opens it."""
    layers = [option_name(table.layers[i].name) for i, head in table.heads]
    frame = pd.DataFrame({"Layer": layers, "Head": table.metrics.heads, **table.values})

    def select() -> None:
        if clicked := st.session_state[TABLE]["selection"]["rows"]:
            open_head(table.layers, *table.heads[clicked[0]])

    st.session_state[TABLE] = {
        "selection": {"rows": [] if selected is None else [selected], "columns": [], "cells": []}
    }
    st.dataframe(
        frame,
        hide_index=True,
        key=TABLE,
        on_select=select,
        selection_mode="single-row",
        column_config={
            "Layer": st.column_config.TextColumn(_("Layer"), pinned=True),
            "Head": st.column_config.NumberColumn(_("Head"), pinned=True),
            **{name: _column(MENU[name], values) for name, values in table.values.items()},
        },
        alt=_("Heads by what they do"),
    )


def _column(metric: HeadMetric, values: Float[np.ndarray, " heads"]) -> ColumnConfig:
    """Returns the column of a metric, with bars."""
    most = 1.0 if metric.unit == "share" else float(np.nanmax(values)) or 1.0
    return st.column_config.ProgressColumn(
        _title(metric), width=WIDTH, help=plain(_definition(metric)), format="%.2f", min_value=0.0, max_value=most
    )
