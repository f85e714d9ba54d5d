"""The table of keys and values. Its text is its state, and in the link; the rows that are edited write the text."""

import pandas as pd
import streamlit as st

from attnviz.lessons.lookup import LARGEST_VALUE, SIDE, Dictionary, Entry
from attnviz.ui.markdown import plain

EXAMPLE = Dictionary(
    (
        Entry("cat", 1.5, 0.5, 4.0),
        Entry("hen", 0.4, 1.5, 2.0),
        Entry("snake", -1.4, 0.7, 0.0),
        Entry("ant", -0.8, -1.1, 6.0),
        Entry("spider", 0.9, -1.2, 8.0),
    )
)
KEY = "table"
COLUMNS = {
    "word": st.column_config.TextColumn("word", default="new", required=True, width=110),
    "x": st.column_config.NumberColumn(
        "key x", default=0.0, min_value=-SIDE, max_value=SIDE, step=0.01, format="%g", required=True, width=70
    ),
    "y": st.column_config.NumberColumn(
        "key y", default=0.0, min_value=-SIDE, max_value=SIDE, step=0.01, format="%g", required=True, width=70
    ),
    "value": st.column_config.NumberColumn(
        "value", default=0.0, min_value=-LARGEST_VALUE, max_value=LARGEST_VALUE, format="%g", required=True, width=80
    ),
}


def dictionary() -> Dictionary:
    """The rows as they are edited, or as the link has them; a mistake is said and leaves the last good ones."""
    state = st.session_state
    # On the first run of a link the widget has no state yet.
    text = str(state.get(KEY, st.query_params.get(KEY, str(EXAMPLE))))
    problem = ""
    try:
        good = Dictionary.read(text)
    except ValueError as mistake:
        good, problem = state.get("table good", EXAMPLE), str(mistake)
    if state.get("table seen") != text:  # written by something else than the rows: they begin anew
        state["table edition"] = state.get("table edition", 0) + 1
        state["table begins"] = good
        state["table rows"] = good
    edited = st.data_editor(
        pd.DataFrame([vars(entry) for entry in state["table begins"].entries]),
        key=f"entries-{state['table edition']}",
        column_config=COLUMNS,
        num_rows="dynamic",
        hide_index=True,
        row_height=32,
    )
    try:
        rows = Dictionary(tuple(_entry(row) for row in edited.to_dict("records")))
        if rows != state["table rows"]:
            good, problem = rows, ""
            state["table rows"], state[KEY] = rows, str(rows)
    except ValueError as mistake:
        problem = str(mistake)
    state["table seen"] = str(state.get(KEY, text))
    state["table good"] = good
    with st.container():
        if problem:
            st.error(plain(f"{problem} What is shown is the last table that could be read."), icon=":material/error:")
    return good


def as_text() -> None:
    """The table as one line, to be copied, pasted or sent."""
    st.text_input(
        "The table as text", str(EXAMPLE), key=KEY, bind="query-params",
        help="One entry after the other, as x,y,value,word with semicolons between them.",
    )  # fmt: skip


def _entry(row: dict) -> Entry:
    missing = [name for name, value in row.items() if pd.isna(value)]
    if missing:
        raise ValueError(f"Every row needs a word, a key and a value; one has no {missing[0]}. Fill it in.")
    return Entry(str(row["word"]).strip(), *(round(float(row[name]), 4) for name in ("x", "y", "value")))
