"""Heads by what they do: a table and a scatter, in which each point is a head."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.column_types import ColumnConfig

from attnviz.analysis.head_metrics import MEASURES, HeadMeasure, HeadMeasures, Without, head_measures
from attnviz.analysis.work import is_affordable
from attnviz.figures.scatter import SHAPES, scatter
from attnviz.formatting import number
from attnviz.layer import Layer
from attnviz.ui import cache
from attnviz.ui.chart import chart
from attnviz.ui.head_controls import open_head
from attnviz.ui.head_map import selected_map
from attnviz.ui.markdown import plain
from attnviz.ui.models import attention_kinds
from attnviz.ui.models.selection import ModelSelection
from attnviz.ui.widgets import help_text

MENU = {measure.name: measure for measure in MEASURES}
ACROSS, UP = "Distance", "Entropy"  # of the scatter, to begin with
LEFT_OUT: dict[str, Without] = {"Nothing": "none", "The first token": "first", "Special tokens": "special"}
TABLE = "heads-table"
MANY, SMALL = 300, 8  # so many points are smaller, of so many pixels
HEIGHT, WIDTH = 400, 112  # of a chart, and of a column of the table


@dataclass(frozen=True, eq=False)
class Found:
    """What the heads of these layers do."""

    layers: Sequence[Layer]
    measures: HeadMeasures  # its layers are those of the whole list

    @property
    def names(self) -> list[str]:
        """The heads, in the order of the table."""
        return [f"{self.layers[i].name}, head {head}" for i, head in self.heads]

    @property
    def heads(self) -> list[tuple[int, int]]:
        return list(zip(self.measures.layers.tolist(), self.measures.heads.tolist(), strict=True))

    @property
    def values(self) -> dict[str, Float[np.ndarray, " heads"]]:
        """The measures that some head has."""
        return {name: values for name, values in self.measures.values.items() if not np.isnan(values).all()}


def show(selection: ModelSelection) -> None:
    """Draws the heads as points and as rows, and the opened one as a map."""
    places = st.columns(3, gap="medium")
    with places[0]:
        across = _measure("Across", ACROSS)
    with places[1]:
        up = _measure("Up", UP)
    with places[2]:
        without = st.selectbox(
            "Leave out", list(LEFT_OUT), key="leave-out", bind="query-params",
            help="What is left out does not count as a query, and what lies on it as a key does not count either.",
        )  # fmt: skip
    notes = st.container()
    found = _found(selection, LEFT_OUT[without])
    if len({*found.measures.layers.tolist()}) < len(selection.layers):
        notes.caption(
            f"These are the heads of {plain(selection.layer.name)}: all would be too many for so long a text."
        )
    for one in dict.fromkeys((across, up)):
        if one.name not in found.values:
            notes.info(f"No head here has a number for “{one.name}”. Choose another measure, or leave nothing out.")
    opened = next((i for i, head in enumerate(found.heads) if head == (selection.index, selection.head)), None)
    left, right = st.columns([0.56, 0.44], gap="medium")
    with left:
        _scatter(found, across, up, opened)
        explained = (f"<p><b>{one.name}.</b> {escape(_about(one))}</p>" for one in dict.fromkeys((across, up)))
        st.html(
            f"<div class='attnviz-measures'>{_shapes(selection)}{_unseen(found, across, up)}{''.join(explained)}</div>"
        )
    with right:
        _map(selection, notes)
    _table(found, opened)


def _measure(label: str, start: str) -> HeadMeasure:
    name = st.selectbox(label, list(MENU), list(MENU).index(start), key=label.lower(), bind="query-params")
    return MENU[name]


def _found(selection: ModelSelection, without: Without) -> Found:
    """The measures of all heads, or of those of one layer where all would be too many."""
    work = [layer.inputs.heads * layer.inputs.queries * layer.inputs.keys for layer in selection.layers]
    shown = list(range(len(work))) if is_affordable(sum(work)) else [selection.index]

    def make() -> HeadMeasures:
        return head_measures([selection.layers[i] for i in shown], without_queries=without, without_keys=without)

    made = cache.once(make, "what heads do", selection.source, without, shown)
    return Found(selection.layers, HeadMeasures(np.array(shown)[made.layers], made.heads, made.values))


def _about(measure: HeadMeasure) -> str:
    """What a measure is."""
    return help_text(type(measure)).split("\n\n")[0].replace("\n", " ")


def _title(measure: HeadMeasure) -> str:
    return measure.name if measure.unit == "share" else f"{measure.name}, {measure.unit}"


def _said(measure: HeadMeasure, value: float) -> str:
    """A measure of a head, with its unit."""
    if np.isnan(value):
        return "none"
    return f"{number(value)} {measure.unit}" if measure.unit != "share" else number(value)


def _numbers(layers: Sequence[Layer]) -> list[tuple[int, int]]:
    """The kind of each layer's attention, and which of its kind the layer is, both as numbers."""
    all_kinds = [attention_kinds.kind(layer) for layer in layers]
    order = list(dict.fromkeys(all_kinds))
    return [(order.index(kind), all_kinds[:i].count(kind)) for i, kind in enumerate(all_kinds)]


def _shapes(selection: ModelSelection) -> str:
    """Which shape is which kind of attention, in HTML, where there are several."""
    called = {}
    for layer, (kind, _) in zip(selection.layers, _numbers(selection.layers), strict=True):
        called[kind] = attention_kinds.called(layer, selection.model.is_encoder_decoder)
    marks = [f"{list(SHAPES.values())[kind % len(SHAPES)]} {escape(name)}" for kind, name in called.items()]
    return f"<p>{' · '.join(marks)}</p>" if len(marks) > 1 else ""


def _unseen(found: Found, across: HeadMeasure, up: HeadMeasure) -> str:
    """How many heads have no point, and why, in HTML."""
    said = ""
    for one in dict.fromkeys((across, up)):
        values = found.measures.values[one.name]
        if 0 < (none := int(np.isnan(values).sum())) < len(values):
            said += f"<p>{none} of {len(values)} heads have no {one.name.lower()} and no point; the table has them.</p>"
    return said


def _scatter(found: Found, across: HeadMeasure, up: HeadMeasure, opened: int | None) -> None:
    x, y = (found.measures.values[one.name] for one in (across, up))
    numbers = _numbers(found.layers)
    picture = scatter(
        x,
        y,
        [
            f"{name}: {across.name.lower()} {_said(across, a)}, {up.name.lower()} {_said(up, b)}"
            for name, a, b in zip(found.names, x.tolist(), y.tolist(), strict=True)
        ],
        np.array([numbers[i][1] for i, _ in found.heads]),
        [] if opened is None else [opened],
        titles=(_title(across), _title(up)),
        kinds=[numbers[i][0] for i, _ in found.heads],
        aspect=0.7,  # beside a map that is as high as it is wide
    )
    if len(x) > MANY:
        picture.figure.data[0].marker.size = SMALL
    chart(
        picture,
        "heads-scatter",
        label="Heads by what they do",
        name=f"heads {across.name} {up.name}",
        description=f"{len(x)} heads, each a point: {across.name} across, {up.name} up. The table has them, too.",
        height=HEIGHT,
        hint="Each point is a head. Click to open it.",
        on_click=lambda point, _: open_head(found.layers, *found.heads[point]),
    )


def _map(selection: ModelSelection, notes: DeltaGenerator) -> None:
    """The opened head."""
    try:
        opened = selected_map(selection)
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
        return
    chart(
        opened.chart(largest=selection.colors.end([opened.weights])),
        "opened-map",
        title=opened.title,
        label="Attention weights of the opened head",
        name=f"attention {opened.title}",
        description=f"{opened.title}: {opened.size}.",
        height=HEIGHT,
        hint="Point at a cell.",
        on_view=opened.on_view,
    )


def _table(found: Found, opened: int | None) -> None:
    """All heads as rows; one that is selected is opened."""
    layers = [found.layers[i].name for i, _ in found.heads]
    table = pd.DataFrame({"Layer": layers, "Head": found.measures.heads, **found.values})

    def select() -> None:
        if rows := st.session_state[TABLE]["selection"]["rows"]:
            open_head(found.layers, *found.heads[rows[0]])

    st.session_state[TABLE] = {"selection": {"rows": [] if opened is None else [opened], "columns": [], "cells": []}}
    st.dataframe(
        table,
        hide_index=True,
        key=TABLE,
        on_select=select,
        selection_mode="single-row",
        column_config={
            "Layer": st.column_config.TextColumn(pinned=True),
            "Head": st.column_config.NumberColumn(pinned=True),
            **{name: _column(MENU[name], values) for name, values in found.values.items()},
        },
        alt="Heads by what they do",
    )


def _column(measure: HeadMeasure, values: Float[np.ndarray, " heads"]) -> ColumnConfig:
    """A bar and a number for each head."""
    most = 1.0 if measure.unit == "share" else float(np.nanmax(values)) or 1.0
    return st.column_config.ProgressColumn(
        _title(measure), width=WIDTH, help=plain(_about(measure)), format="%.2f", min_value=0.0, max_value=most
    )
