"""The metrics of heads as a table and a scatter plot, in which each point is a head."""

from collections.abc import Sequence

import numpy as np
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator

from attnviz.analysis.head_metrics import HEAD_METRICS, HeadMetric
from attnviz.figures.scatter import SHAPES, scatter
from attnviz.language import _, in_sentence
from attnviz.layer import Layer
from attnviz.page import html
from attnviz.server.streamlit_internals import ColumnConfig
from attnviz.state.models import ABOUT_RANDOM, ModelSelection, ModelsState
from attnviz.state.parts import help_text
from attnviz.ui import viewport_sliders
from attnviz.ui.chart import chart
from attnviz.ui.field_widgets import draw
from attnviz.ui.head_controls import open_head
from attnviz.ui.markdown import plain
from attnviz.ui.models import head_table
from attnviz.ui.models.metrics_table import (
    MetricsTable,
    metric_title,
    metrics_of_random_tokens,
    metrics_of_text,
    value_text,
)
from attnviz.ui.models.strongest_heads import roles_table, short_name
from attnviz.views import attention_kinds
from attnviz.views.selected_maps import selected_map

METRICS = {metric.name: metric for metric in HEAD_METRICS}
TABLE = "heads-table"
MANY_POINTS, SMALL_SIZE = 300, 8  # points from which on they are smaller, and their pixels
HEIGHT, WIDTH = 400, 112  # of a chart, and of a column of the table


def show(selection: ModelSelection) -> None:
    """Draws the heads as points and as rows of a table, and the map of the selected one. Raises ValueError if there are
    no metrics."""
    is_random = draw(ModelsState.measured_on, selection.state, st.segmented_control)
    state = selection.state.updated(measured_on=is_random)
    roles = st.empty()
    places = st.columns(3, gap="medium")
    with places[0]:
        across = draw(ModelsState.across, state)
    with places[1]:
        up = draw(ModelsState.up, state)
    with places[2]:
        excluded = draw(ModelsState.leave_out)
    notes = st.container()
    with notes:  # the progress of a job comes and goes here
        on_text = metrics_of_text(selection, excluded)
        on_random = metrics_of_random_tokens(selection, excluded) if is_random else None
    table = on_random or on_text
    reads_text = ModelsState.measured_on.is_offered(state)
    if reads_text:
        roles.html(roles_table(on_text, on_random))
    if len(table.indices) < len(selection.layers):
        name = plain(selection.layer.name)
        notes.caption(
            _(
                "These are the heads of {name}: all would take too long on a text of this length. Choose "
                "another layer in the menu, or shorten the text.",
                name=name,
            )
        )
    metrics = list(dict.fromkeys((across, up)))
    for metric in metrics:
        if table.heads and metric.name not in table.values:
            notes.info(
                _(
                    "No head here has a number for “{name}”. Choose another metric, or leave nothing out.",
                    name=_(metric.name),
                )
            )
    selected = selection.index, selection.head
    left, right = st.columns([0.56, 0.44], gap="medium")
    with left:
        if table.heads:  # else the first layer is still to come
            _show_scatter(table, across, up, selected)
        explained = (
            html.element("p", html.element("b", f"{metric_title(one, table.metrics)}."), f" {_definition(one)}")
            for one in metrics
        )
        texts = [*_kinds_legend(selection), *_missing_points(table, metrics), *([_(ABOUT_RANDOM)] if is_random else [])]
        st.html(html.element("div", html.paragraphs(texts), *explained, class_="attnviz-measures"))
    with right:
        _show_map(selection, notes)
    if table.heads:
        _show_table(table, selected, up)
    if reads_text and not is_random:  # last: it takes several forward passes, and only the text is asked for
        try:
            roles.html(roles_table(on_text, metrics_of_random_tokens(selection, excluded)))
        except ValueError as problem:
            roles.caption(plain(str(problem)))


def _definition(metric: HeadMetric) -> str:
    return help_text(type(metric)).split("\n\n")[0].replace("\n", " ")


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
        _(
            "{count} of {total} heads have no {lower} and no point; the table has them.",
            count=count,
            total=total,
            lower=in_sentence(name),
        )
        for name, count in counts.items()
        if 0 < count < total
    ]


def _show_scatter(table: MetricsTable, across: HeadMetric, up: HeadMetric, selected: tuple[int, object]) -> None:
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
        [i for i, head in enumerate(table.heads) if head == selected],
        titles=(metric_title(across, table.metrics), metric_title(up, table.metrics)),
        labels=[short_name(table.layers, i, head) for i, head in table.heads],
        kinds=[kinds[i][0] for i, head in table.heads],
        aspect=0.7,  # beside a map that is as high as it is wide
    )
    if len(x) > MANY_POINTS:
        picture.figure.data[0].marker.size = SMALL_SIZE
    chart(
        picture.with_about(hint=_("Each point is a head. Click to open it.")), "heads-scatter", height=HEIGHT,
        on_click=lambda point, column: open_head(table.layers, *table.heads[point]),
    )  # fmt: skip


def _show_map(selection: ModelSelection, notes: DeltaGenerator) -> None:
    """Draws the selected head."""
    try:
        head_map = selected_map(selection)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    picture = head_map.chart(largest=selection.colors.end([head_map.weights]))
    chart(picture, "opened-map", title=head_map.title, height=HEIGHT, on_zoom=viewport_sliders.on_zoom(head_map))


def _show_table(table: MetricsTable, selected: tuple[int, object], by: HeadMetric) -> None:
    """Draws all heads as rows, the largest numbers of a metric first; a click on one opens it."""
    order = np.argsort(-table.metrics.values[by.name], kind="stable")  # NaN comes last
    st.caption(
        _(
            "{names}. Sorted by {metric}, the largest first.",
            names=" · ".join(metric_title(METRICS[name], table.metrics) for name in table.values),
            metric=in_sentence(by.name),
        )
    )
    head_table.show(
        table.layers, [table.heads[i] for i in order], selected,
        {name: values[order] for name, values in table.values.items()},
        {name: _column(METRICS[name], values) for name, values in table.values.items()},
        TABLE, alt=_("Heads by what they do"),
    )  # fmt: skip


def _column(metric: HeadMetric, values: Float[np.ndarray, " heads"]) -> ColumnConfig:
    """Returns the column of a metric, with bars."""
    most = 1.0 if metric.unit == "share" else float(np.nanmax(values)) or 1.0
    title = _(metric.name) if metric.unit == "share" else f"{_(metric.name)}, {_(metric.unit)}"
    return st.column_config.ProgressColumn(
        title, width=WIDTH, help=plain(_definition(metric)), format="%.2f", min_value=0.0, max_value=most
    )
