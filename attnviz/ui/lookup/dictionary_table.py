"""The table of keys and values. Its state is its text, which is in the link; edited rows rewrite the text."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from attnviz.language import _, value_error
from attnviz.lookup.dictionary import LARGEST_VALUE, SIDE, Dictionary, Entry
from attnviz.state.lookup import EXAMPLE, LookupState
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import SessionValue
from attnviz.ui.widget_values import field_text, set_field_value


@dataclass
class _Table:
    """The session state of the table."""

    good: Dictionary = EXAMPLE  # the last one without a mistake
    text: str | None = None  # that of the last run
    start: Dictionary = EXAMPLE  # what the rows began with
    rows: Dictionary = EXAMPLE  # what they hold now
    edition: int = 0  # a new one is a new widget, with rows of its own


def _columns() -> dict[str, Any]:
    place: dict[str, Any] = {
        "default": 0.0,
        "min_value": -SIDE,
        "max_value": SIDE,
        "step": 0.01,
        "format": "%g",
        "required": True,
    }
    most: dict[str, Any] = {"min_value": -LARGEST_VALUE, "max_value": LARGEST_VALUE}
    return {
        "word": st.column_config.TextColumn(_("word"), default=_("new"), required=True, width=110),
        "x": st.column_config.NumberColumn(_("key x"), **place, width=70),
        "y": st.column_config.NumberColumn(_("key y"), **place, width=70),
        "value": st.column_config.NumberColumn(_("value"), default=0.0, **most, format="%g", required=True, width=80),
    }


def edit_rows() -> Dictionary:
    """Draws the table; returns its rows, or the last valid ones after a mistake, which is shown."""
    table = SessionValue("dictionary table", _Table).get()
    text = field_text(LookupState.table)
    good, problem = table.good, ""
    try:
        good = Dictionary.parse(text)
    except ValueError as mistake:
        problem = str(mistake)
    if table.text != text:  # not written by the rows, which begin anew
        table.edition += 1
        table.start = table.rows = good
    edited = st.data_editor(
        pd.DataFrame([vars(entry) for entry in table.start.entries]),
        key=f"entries-{table.edition}",
        column_config=_columns(),
        num_rows="dynamic",
        hide_index=True,
        row_height=32,
    )
    try:
        rows = Dictionary(tuple(_entry(row) for row in edited.to_dict("records")))
        if rows != table.rows:
            good, problem = rows, ""
            table.rows = rows
            set_field_value(LookupState.table, rows)
    except ValueError as mistake:
        problem = str(mistake)
    table.text, table.good = field_text(LookupState.table), good
    with st.container():
        if problem:
            st.error(
                plain(_("{problem} What is shown is the last table that could be read.", problem=problem)),
                icon=":material/error:",
            )
    return good


def _entry(row: dict) -> Entry:
    missing = [name for name, value in row.items() if pd.isna(value)]
    if missing:
        raise value_error(
            "Every row needs a word, a key and a value; one has no {missing}. Fill it in.", missing=_(missing[0])
        )
    return Entry(str(row["word"]).strip(), *(round(float(row[name]), 4) for name in ("x", "y", "value")))
