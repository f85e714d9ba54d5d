"""The table of keys and values. Its state is its text, which is in the link; edited rows rewrite the text."""

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from attnviz.language import _
from attnviz.lessons.lookup import LARGEST_VALUE, SIDE, Dictionary, Entry
from attnviz.ui.markdown import plain

EXAMPLE = Dictionary(
    (
        Entry("cat", 1.5, 0.5, 5.0),
        Entry("hen", 0.4, 1.5, 2.0),
        Entry("snake", -1.4, 0.7, 0.0),
        Entry("ant", -0.8, -1.1, 6.0),
        Entry("spider", 0.9, -1.2, 8.0),
    )
)
KEY = "table"  # of the text, in the session and in the link
STATE = "dictionary table"  # in the session


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
    state = st.session_state
    table = state.setdefault(STATE, _Table())
    # On the first run of a link the widget has no state yet.
    text = str(state.get(KEY, st.query_params.get(KEY, str(EXAMPLE))))
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
            table.rows, state[KEY] = rows, str(rows)
    except ValueError as mistake:
        problem = str(mistake)
    table.text, table.good = str(state.get(KEY, text)), good
    with st.container():
        if problem:
            st.error(
                plain(_("{problem} What is shown is the last table that could be read.").format(problem=problem)),
                icon=":material/error:",
            )
    return good


def edit_as_text() -> None:
    """Draws the table as one line of text."""
    st.text_input(
        _("The table as text"), str(EXAMPLE), key=KEY, bind="query-params",
        help=_("One entry after the other, as x,y,value,word with semicolons between them."),
    )  # fmt: skip


def _entry(row: dict) -> Entry:
    missing = [name for name, value in row.items() if pd.isna(value)]
    if missing:
        raise ValueError(
            _("Every row needs a word, a key and a value; one has no {missing}. Fill it in.").format(
                missing=_(missing[0])
            )
        )
    return Entry(str(row["word"]).strip(), *(round(float(row[name]), 4) for name in ("x", "y", "value")))
