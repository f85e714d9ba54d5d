"""The rows of the dictionary of Lookup, which are changed in place. What they say is in the link, as a text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from attnviz.base.language import _, value_error
from attnviz.pages.lookup.dictionary import LARGEST_VALUE, SIDE, Dictionary, Entry
from attnviz.pages.lookup.state import EXAMPLE, DictionaryField
from attnviz.ui.field_widgets import show_error
from attnviz.ui.session_values import SessionValue, widget_callback
from attnviz.ui.widget_values import set_field_value

Changes = Mapping[str, Any]  # of the rows: "edited_rows" by their numbers, "deleted_rows", "added_rows"


@dataclass
class _Rows:
    """What the widget of a session began with, and what it holds now."""

    start: Dictionary = EXAMPLE
    now: Dictionary = EXAMPLE
    edition: int = 0  # a new one is a new widget, with rows of its own
    problem: str = ""  # of what it holds, which is then not a dictionary


def draw_dictionary(field: DictionaryField, state: Any) -> None:
    """Draws the rows; the last dictionary stays until they are one again, and what is wrong is shown."""
    rows = SessionValue("dictionary rows", _Rows).get()
    if rows.now != state.table:  # changed elsewhere, so that the rows begin anew
        rows.start = rows.now = state.table
        rows.edition, rows.problem = rows.edition + 1, ""

    def change(changes: Changes) -> None:
        try:
            rows.now, rows.problem = changed_rows(rows.start, changes), ""
        except ValueError as problem:
            rows.problem = str(problem)
        else:
            set_field_value(field, rows.now)

    key = f"entries-{rows.edition}"
    st.data_editor(
        pd.DataFrame([vars(entry) for entry in rows.start.entries]),
        key=key,
        column_config=_columns(),
        num_rows="dynamic",
        hide_index=True,
        row_height=32,
        width="content",
        on_change=widget_callback(key, change),
    )
    if rows.problem:
        show_error(_("{problem} What is shown is the last table that could be read.", problem=rows.problem))


def changed_rows(start: Dictionary, changes: Changes) -> Dictionary:
    """Returns the dictionary with changed, deleted and added rows. Raises ValueError if that is not one."""
    rows = [
        vars(entry) | changes["edited_rows"].get(i, {})
        for i, entry in enumerate(start.entries)
        if i not in changes["deleted_rows"]
    ]
    return Dictionary(tuple(_entries([*rows, *changes["added_rows"]])))


def _entries(rows: Iterable[Mapping[str, Any]]) -> Iterable[Entry]:
    for row in rows:
        for name in ("word", "x", "y", "value"):
            if row.get(name) is None:
                raise value_error(
                    "Every row needs a word, a key and a value; one has no {missing}. Fill it in.", missing=_(name)
                )
        yield Entry(str(row["word"]).strip(), *(round(float(row[name]), 4) for name in ("x", "y", "value")))


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
