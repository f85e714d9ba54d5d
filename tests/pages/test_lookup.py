"""The Lookup page without a browser: the link is shown, and the rows of the table are changed."""

import re
from functools import partial

import numpy as np
import pytest

from attnviz.figures.plane import plane, plane_background
from attnviz.pages.lookup.dictionary import look_up_grid, lookup_mechanism
from attnviz.pages.lookup.state import EXAMPLE, LookupState
from attnviz.scores import Dot
from attnviz.ui import chart as charts
from attnviz.ui.dictionary_editor import changed_rows
from tests.support.app import contents, healthy, open_page

page = partial(open_page, "lookup")


def test_the_link_is_shown_with_the_network_and_the_plane() -> None:
    app = healthy(page(softness="T = 1", query_x="1", query_y="1"), charts=2)
    assert "A bit of every value comes back: <b>3.77</b>" in contents(app)
    assert app.select_slider(key="softness").value == "T = 1"
    assert app.number_input(key="query-x").value == 1
    app.select_slider(key="softness").set_value("hard").run()
    assert "All the weight is on the most similar key" in contents(healthy(app, charts=2))
    app.selectbox(key="similarity").select("Additive").run()
    assert healthy(app).number_input(key="seed").value == 2
    assert app.select_slider(key="softness").value == "hard"


def test_a_bad_table_in_the_link_is_refused_with_a_sentence() -> None:
    app = healthy(page(table="x" * 50), charts=2)
    assert [toast.value for toast in app.toast]
    assert "The query is the key of" in contents(app)


@pytest.mark.parametrize("color", ["winning key", "value that comes back"])
def test_a_key_in_the_middle_and_a_query_there_are_no_trouble(color: str) -> None:
    app = page(table="0,0,1,a;0,0,2,a", query_x="0", query_y="0", color=color, softness="T = 1", gradients="true")
    assert "A bit of every value comes back: <b>1.50</b>" in contents(healthy(app, charts=2))
    assert app.toggle(key="gradients").value


def changes(**given: object) -> dict:
    return {"edited_rows": {}, "added_rows": [], "deleted_rows": []} | given


def test_rows_are_changed_deleted_and_added() -> None:
    assert changed_rows(EXAMPLE, changes()) == EXAMPLE
    new = {"word": " owl ", "x": 0.12345, "y": -1, "value": 3}
    changed = changed_rows(EXAMPLE, changes(edited_rows={0: {"value": 7}}, deleted_rows=[1, 3], added_rows=[new]))
    assert str(changed) == "1.5,0.5,7,cat;-1.4,0.7,0,snake;0.9,-1.2,8,spider;0.1235,-1,3,owl"
    assert LookupState.read([("table", str(changed))]).table == changed


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"edited_rows": {2: {"x": None}}}, "Every row needs a word, a key and a value"),
        ({"added_rows": [{"word": "owl"}]}, "Every row needs a word, a key and a value"),
        ({"edited_rows": {2: {"word": " "}}}, "A word has 1 to 20 visible characters"),
        ({"edited_rows": {2: {"value": 1e9}}}, "must be a number from −1000 to 1000"),
        ({"deleted_rows": [0, 1, 2, 3]}, "The table must have 2 to 8 rows; it has 1"),
    ],
)
def test_rows_that_are_no_dictionary_are_refused(given: dict, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        changed_rows(EXAMPLE, changes(**given))


def test_a_drop_is_taken_during_an_answer_but_not_for_other_axes(monkeypatch) -> None:
    sent: dict = {}
    state: dict = {}
    dropped: list[tuple[float, float]] = []
    monkeypatch.setattr(charts.scripts, "mount", lambda component: lambda **given: sent.update(given))
    monkeypatch.setattr("streamlit.session_state", state)
    every = look_up_grid(EXAMPLE, lookup_mechanism("T = 1", Dot()))
    stages = (stage.numpy() for stage in (every.axis, every.scores, every.weights, every.result, EXAMPLE.values))
    behind = plane_background(*stages)

    def shown(query: tuple[float, float], width: float = 2.0) -> int:
        picture = plane(behind, EXAMPLE.keys.numpy(), EXAMPLE.words, EXAMPLE.values.numpy(), np.ones(5) / 5, query)
        picture.figure.update_xaxes(range=[-width, width])
        charts.chart(picture, "plane", height=9, on_drag=lambda x, y: dropped.append((x, y)))
        return int(re.search(rb'"dragStamp": (\d+)', sent["data"]).group(1))

    first, second, wider = shown((0.1, 0.2)), shown((0.3, 0.4)), shown((0.3, 0.4), 3.0)
    assert first == second != wider
    for stamp, x in ((first, 1.0), (wider, 2.0)):
        state["plane"] = {"drag": {"x": x, "y": -1, "stamp": stamp, "drop": 1}}
        sent["on_drag_change"]()
    assert dropped == [(2.0, -1.0)]
