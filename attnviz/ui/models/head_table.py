"""A table with a row for each head."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from jaxtyping import Float

from attnviz.language import _, option_name
from attnviz.layer import Layer
from attnviz.server.streamlit_internals import ColumnConfig
from attnviz.ui.head_controls import open_head
from attnviz.ui.session_values import widget_callback, write_widget


def show(
    layers: Sequence[Layer],
    heads: Sequence[tuple[int, int]],
    selected: tuple[int, object],
    values: Mapping[str, Float[np.ndarray, " heads"]],
    columns: Mapping[str, ColumnConfig],
    key: str,
    **options: Any,
) -> None:
    """Draws the `values` of `heads`, each the index of a layer and a head, in `columns`; the row of the `selected` one
    is marked, and a click on a row opens its head. `options` are those of `st.dataframe`."""
    names = [option_name(layers[index].name) for index, _head in heads]
    frame = pd.DataFrame({"Layer": names, "Head": [head for _index, head in heads], **values})

    def select(value: dict[str, Any]) -> None:
        if clicked := value["selection"]["rows"]:
            open_head(layers, *heads[clicked[0]])

    rows = [row for row, head in enumerate(heads) if head == selected]
    write_widget(key, {"selection": {"rows": rows, "columns": [], "cells": []}})
    st.dataframe(
        frame, hide_index=True, key=key, on_select=widget_callback(key, select), selection_mode="single-row",
        column_config={
            "Layer": st.column_config.TextColumn(_("Layer"), pinned=True),
            "Head": st.column_config.NumberColumn(_("Head"), pinned=True),
            **columns,
        },
        **options,
    )  # fmt: skip
