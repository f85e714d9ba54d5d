"""The Lookup page without a browser: every control, and every bad table or link."""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.figures.plane import plane, plane_background
from attnviz.lookup.dictionary import EXACT, SOFTNESS, Dictionary, look_up, look_up_grid, lookup_mechanism
from attnviz.scores import Cosine, Dot, ScaledDot
from attnviz.ui import chart as charts
from attnviz.ui.lookup import controls, labels, softness_table
from attnviz.ui.lookup.dictionary_table import EXAMPLE
from tests.support.app import healthy, open_page

ROOT = Path(__file__).parents[2]


page = partial(open_page, "lookup")
with_charts = partial(healthy, charts=1)


def said(app: AppTest) -> str:
    bodies = [one.body for one in app.get("html")] + [one.value for one in (*app.error, *app.caption)]
    return " ".join(re.sub(r"<[^>]+>", " ", body) for body in bodies).replace("\\", "")


def row(app: AppTest, word: str) -> list[str]:
    """The cells of a word in the table of sums, as they are read."""
    [table] = [one.body for one in app.get("html") if "<tfoot>" in one.body]
    [cells] = [one for one in re.findall(r"<tr>(.*?)</tr>", table) if f">{word}<" in one and "<td>" in one]
    return [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td>(.*?)</td>", cells)]


def test_begins_with_the_dictionary_and_a_key_that_is_there() -> None:
    app = with_charts(page())
    assert "The query is the key of cat : its value 5 comes back." in " ".join(said(app).split())
    assert row(app, "cat") == ["1", "1.00", "× 5", "5"]
    assert row(app, "hen") == ["0", "0.00", "× 2", "0"]
    assert "the limit is the dictionary" in said(app)


def test_a_weight_of_nearly_one_is_not_a_bit_of_every_value() -> None:
    app = with_charts(page(softness="T = 0.1", query_x="1.5", query_y="0.5"))
    assert row(app, "cat")[1] == "1.00"
    assert "Nearly all the weight is on the most similar key, cat : 5.00 comes back." in " ".join(said(app).split())


def test_a_query_that_no_key_equals_gets_a_value_from_attention_alone() -> None:
    app = with_charts(page(query_x="1.2", query_y="0.9"))
    assert "No key equals the query (1.2, 0.9): nothing comes back." in " ".join(said(app).split())
    app.select_slider(key="softness").set_value("T = 1").run()
    answer = look_up(EXAMPLE, (1.2, 0.9), lookup_mechanism("T = 1", ScaledDot()))
    assert f"{answer.result:.2f}" in said(with_charts(app))
    assert row(app, "hen")[1] == f"{answer.weights[1]:.2f}"


@pytest.mark.parametrize("color", ["winning key", "value that comes back"])
def test_every_softness_and_similarity_and_coloring_is_shown(color: str) -> None:
    app = page(color=color)
    for softness in SOFTNESS:
        app.select_slider(key="softness").set_value(softness)
        assert not with_charts(app.run()).error
        assert f"<small>{softness}</small>" in " ".join(one.body for one in app.get("html"))
    app.select_slider(key="softness").set_value("T = 0.3")
    for similarity in controls.SIMILARITIES:
        app.selectbox(key="similarity").select(similarity)
        assert not with_charts(app.run()).error
        assert f"<small>{similarity.lower()}</small>" in " ".join(one.body for one in app.get("html"))


def test_the_whole_state_is_in_the_link() -> None:
    table = "1,0,3,left,;0,1,5,up"
    app = with_charts(
        page(table=table, query_x="-0.3", query_y="1.1", softness="hard", similarity="General", w11="0.5", w12="2",
             color="value that comes back")
    )  # fmt: skip
    assert not app.error
    assert (app.number_input(key="query-x").value, app.number_input(key="query-y").value) == (-0.3, 1.1)
    assert (app.number_input(key="w11").value, app.number_input(key="w12").value) == (0.5, 2.0)
    # q = (−0.3, 1.1), k = (1, 0): −0.3·0.5 + 1.1·1
    assert row(app, "left,")[0] == "0.95"
    app.selectbox(key="similarity").select("Additive").run()
    before = row(app, "up")[0]
    app.number_input(key="seed").set_value(5).run()
    assert row(with_charts(app), "up")[0] != before


def test_asking_for_a_key_puts_the_query_on_it() -> None:
    app = page()
    app.button_group(key="ask").set_value(3).run()
    assert (app.number_input(key="query-x").value, app.number_input(key="query-y").value) == (-0.8, -1.1)
    assert "The query is the key of ant" in " ".join(said(with_charts(app)).split())


@pytest.mark.parametrize("text", ["", "x" * 5000])
def test_a_bad_table_in_the_link_falls_back_to_the_example_with_a_sentence(text: str) -> None:
    app = with_charts(page(table=text))
    if text:  # an empty parameter is none
        assert "What is shown is the last table that could be read." in said(app)
    assert "The query is the key of cat" in " ".join(said(app).split())


@pytest.mark.parametrize("text", ["", "<script>alert(1)</script>"])
def test_a_bad_table_written_in_the_field_keeps_the_last_good_one(text: str) -> None:
    good = "1.5,0.5,7,left;0,1,5,up"
    app = with_charts(page(table=good))
    assert row(app, "left")[-1] == "7"
    app.text_input(key="table").set_value(text).run()
    assert "What is shown is the last table that could be read." in said(with_charts(app))
    assert row(app, "left")[-1] == "7"
    app.text_input(key="table").set_value("1.5,0.5,9,left;0,1,5,up").run()
    assert not with_charts(app).error
    assert row(app, "left")[-1] == "9"


def test_words_are_shown_as_text() -> None:
    app = with_charts(page(table="1.5,0.5,7,<b>**x**</b>;0,1,5,&lt"))
    html = " ".join(one.body for one in app.get("html"))
    assert "&lt;b&gt;**x**&lt;/b&gt;" in html
    assert "&amp;lt<" in html


def test_a_query_in_the_link_that_is_none_becomes_one() -> None:
    with_charts(page(query_x="nan", softness="T = 1"))
    with_charts(page(w11="inf", similarity="General", softness="none", color="red", seed="1e999"))


def test_a_key_in_the_middle_and_a_query_there_are_no_trouble() -> None:
    app = page(table="0,0,1,a;0,0,2,a", query_x="0", query_y="0")
    assert "its value 2 comes back" in " ".join(said(app).split())
    app.select_slider(key="softness").set_value("T = 1")
    for similarity in controls.SIMILARITIES:
        app.selectbox(key="similarity").select(similarity)
        assert not with_charts(app.run()).error
        assert "A bit of every value comes back: 1.50" in " ".join(said(app).split())


def test_the_sentence_about_the_limit_is_true_in_all_three_cases() -> None:
    def sentence(query: tuple[float, float], table: Dictionary, score) -> str:
        hard, exact = (look_up(table, query, lookup_mechanism(softness, score)) for softness in ("hard", EXACT))
        return re.sub(r"<[^>]+>", "", softness_table.limit_sentence(table, hard, exact))

    table = Dictionary.parse("0.5,0,1,short;2,0.1,9,long")
    assert sentence((0.5, 0.0), table, Cosine()).endswith(
        "to short, whose key the query is: the limit is the dictionary."
    )
    assert "the query is the key of short: under this similarity" in sentence((0.5, 0.0), table, Dot())
    assert "there is none" in sentence((0.6, 0.0), table, Dot())
    assert "to short and long." in sentence((0.0, 0.0), table, Dot())


def test_numbers_are_written_with_their_sign() -> None:
    written = [labels.exact(number) for number in (0.0, -0.0, 2.0, -1.255, -0.001, 1e-9, 999.999)]
    assert written == ["0", "0", "2", "−1.25", "0.00", "0.00", "1000.00"]


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


@pytest.mark.parametrize("along", [float("nan"), float("inf"), -5.0, 0.123456])
def test_a_query_is_only_put_where_one_may_be(along: float, monkeypatch) -> None:
    state = {"query-x": 0.5, "query-y": 0.5}
    monkeypatch.setattr(controls.st, "session_state", state)
    controls.move_query(along, 0.0)
    assert -2 <= state["query-x"] <= 2
    assert state["query-y"] == 0


def test_similarities_and_weights_stand_side_by_side_with_their_ratio() -> None:
    app = with_charts(page(softness="T = 1"))
    assert "the similarity of cat is 1.9 times that of hen, its weight 2.3 times: exp(1.77 − 0.95) = 2.3." in said(app)
    assert "times that of" not in said(with_charts(page(softness="hard")))


def test_gradients_are_shown_by_the_link() -> None:
    assert with_charts(page(gradients="true"), charts=2).toggle(key="gradients").value
    assert not with_charts(page(), charts=2).toggle(key="gradients").value
