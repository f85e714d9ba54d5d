"""The blocks of Lookup: what comes back for a query, the plane, and what can be opened from there."""

import re

import numpy as np
import pytest
from markupsafe import escape

from attnviz.page.block_html import block_html
from attnviz.page.blocks import Anchor, Control, Figure, Note, Paragraph, Summary, Table, every_block, page_view
from attnviz.pages.lookup.blocks import lookup, query_link
from attnviz.pages.lookup.dictionary import EXACT, SIDE, SOFTNESS, Dictionary, look_up, lookup_mechanism
from attnviz.pages.lookup.sentences import limit_sentence, plain_number
from attnviz.pages.lookup.state import EXAMPLE, SIMILARITIES, LookupState
from attnviz.scores import Cosine, Dot, ScaledDot

TWICE = {"table": "0,0,1,a;0,0,2,a", "query_x": "0", "query_y": "0"}


def state_of(**link: str) -> LookupState:
    return LookupState.read([(name.replace("_", "-"), value) for name, value in link.items()])


def of(kind: type, state: LookupState) -> list:
    return [block for block in every_block(lookup(state)) if isinstance(block, kind)]


def text(block: object) -> str:
    html = block_html(block, lambda _anchor: "")
    return html.striptags()


def sentence(**link: str) -> str:
    [summary] = of(Summary, state_of(**link))
    return text(summary)


def numbers(state: LookupState) -> list[list[str]]:
    """The rows of the numbers of the network."""
    return [[escape(cell).striptags() for cell in row] for row in of(Table, state)[0].rows]


def test_it_begins_with_the_dictionary_and_a_key_that_is_there() -> None:
    assert sentence() == "The query is the key of cat: its value 5 comes back."
    rows = numbers(state_of())
    assert rows[0] == ["cat", "1", "1", "5", "5"]
    assert rows[1] == ["hen", "0", "0", "2", "0"]
    assert rows[-1] == ["sum", "", "1.00", "", "5"]
    assert any("the limit is the dictionary" in text(note) for note in of(Note, state_of()))


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (
            {"softness": "T = 0.1", "query_x": "1.5", "query_y": "0.5"},
            "Nearly all the weight is on the most similar key, cat: 5.00 comes back.",
        ),
        ({"query_x": "1.2", "query_y": "0.9"}, "No key equals the query (1.2, 0.9): nothing comes back."),
        ({"softness": "T = 1", "query_x": "1", "query_y": "1"}, "A bit of every value comes back: 3.77."),
        ({"softness": "hard"}, "All the weight is on the most similar key, cat: 5 comes back."),
        ({"softness": "uniform"}, "Every key weighs the same, whatever the query: the mean, 4.20, comes back."),
        (TWICE, "The query is the key of a: its value 2 comes back."),
        (TWICE | {"softness": "hard"}, "a and a are equally similar and share the weight: 1.50 comes back."),
    ],
)
def test_the_sentence_says_what_comes_back_and_why(link: dict[str, str], said: str) -> None:
    assert sentence(**link) == said


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("softness", SOFTNESS)
def test_the_numbers_are_those_of_the_lookup(softness: str, similarity: str) -> None:
    state = state_of(softness=softness, similarity=similarity, query_x="0.3", query_y="-0.9")
    result, blocks = state.result, [*lookup(state)]
    view = page_view(blocks)
    assert view.quantities.get("result") == result.result
    assert view.quantities["weight of ant"] == result.weights[3]
    assert view.quantities["score of ant"] == result.similarities[3]
    [panel] = view.panels
    np.testing.assert_allclose(panel.weights, [result.weights])
    network, softnesses, *_others = [block for block in every_block(blocks) if isinstance(block, Table)]
    assert escape(network.rows[3][4]).striptags() == plain_number(result.products[3])
    assert softnesses.marked == [*reversed(SOFTNESS)].index(softness)


def test_a_key_opens_the_query_that_is_equal_to_it() -> None:
    [keys] = [block for block in of(Paragraph, state_of()) if block.style == "attnviz-choices"]
    anchors = [part for part in keys.content if isinstance(part, Anchor)]
    assert [(anchor.text, anchor.is_current) for anchor in anchors][:2] == [("cat", True), ("hen", False)]
    opened = state_of().opened(anchors[3].link)
    assert opened.query == (-0.8, -1.1)
    assert opened.result.result == 6
    twice = of(Paragraph, state_of(table="1,0,1,a;0,1,2,a"))[0]
    assert [part.text for part in twice.content if isinstance(part, Anchor)] == ["1 · a", "2 · a"]


@pytest.mark.parametrize(
    ("x", "query"), [(0.5, 0.5), (-5.0, -SIDE), (float("inf"), SIDE), (0.123456, 0.12), (-0.0004, 0.0)]
)
def test_a_query_is_only_put_where_one_may_be(x: float, query: float) -> None:
    state = state_of()
    [plane] = of(Figure, state)
    opened = state.opened(plane.drags(x, 0.0))
    assert opened.query == (query, 0)
    assert not LookupState.read(query_link(state, x, 0.0)).refused


def test_what_a_number_that_is_none_opens_is_in_the_plane() -> None:
    assert abs(state_of().opened(query_link(state_of(), float("nan"), 0.0)).query_x) <= SIDE
    assert state_of(query_x="nan", w11="inf", similarity="General", softness="none", seed="1e999").query == (1.5, 0.5)


def test_the_whole_state_is_in_the_link() -> None:
    state = state_of(
        table="1,0,3,left,;0,1,5,up",
        query_x="-0.3",
        query_y="1.1",
        softness="hard",
        similarity="General",
        w11="0.5",
        w12="2",
        color="value that comes back",
    )
    assert not state.refused
    assert LookupState.read(state.link()) == state
    assert numbers(state)[0][:2] == ["left,", "0.95"]  # q = (−0.3, 1.1), k = (1, 0): −0.3·0.5 + 1.1·1


def test_weights_of_a_similarity_are_controls_where_it_has_them() -> None:
    def labels(**link: str) -> set[str]:
        return {control.field.label for control in of(Control, state_of(**link))}

    assert {"W₁₁", "W₂₂"} <= labels(similarity="General")
    assert "Seed of its weights" in labels(similarity="Additive")
    assert "W₁₁" not in labels()
    first, other = (numbers(state_of(similarity="Additive", seed=seed, softness="hard")) for seed in ("2", "5"))
    assert first != other


@pytest.mark.parametrize("table", ["x" * 5000, "1,0,1,a", "1,0", "<script>alert(1)</script>"])
def test_a_table_in_the_link_that_is_none_is_refused(table: str) -> None:
    state = state_of(table=table)
    assert state.refused
    assert state.table == EXAMPLE


def test_words_are_shown_as_text() -> None:
    html = block_html(of(Table, state_of(table="1.5,0.5,7,<b>**x**</b>;0,1,5,&lt"))[0], lambda _anchor: "")
    assert "&lt;b&gt;**x**&lt;/b&gt;" in html
    assert "&amp;lt<" in html


def test_what_softmax_magnifies_is_said_of_a_softmax_alone() -> None:
    said = " ".join(map(text, of(Note, state_of(softness="T = 1"))))
    assert "the similarity of cat is 1.9 times that of hen, its weight 2.3 times: exp(1.77 − 0.95) = 2.3." in said
    assert "times that of" not in " ".join(map(text, of(Note, state_of(softness="hard"))))


def test_gradients_of_the_dictionary_and_of_hard_and_soft_attention() -> None:
    rows = of(Table, state_of(softness="T = 1", query_x="1", query_y="1"))[2].rows
    assert rows[0][1:] == rows[1][1:] == ("0", "0")
    assert all(re.fullmatch(r"−?\d\.\d\d\d", number) for number in rows[2][1:])
    jumps = of(Table, state_of())[2]
    assert jumps.rows[0] == ("exact match", "none: the result jumps here")
    assert jumps.marked == 0


def test_the_sentence_about_the_limit_is_true_in_all_three_cases() -> None:
    def said(query: tuple[float, float], table: Dictionary, score) -> str:
        hard, exact = (look_up(table, query, lookup_mechanism(softness, score)) for softness in ("hard", EXACT))
        return limit_sentence(table, hard, exact).striptags()

    table = Dictionary.parse("0.5,0,1,short;2,0.1,9,long")
    assert said((0.5, 0.0), table, Cosine()).endswith("to short, whose key the query is: the limit is the dictionary.")
    assert "the query is the key of short: under this similarity" in said((0.5, 0.0), table, Dot())
    assert "there is none" in said((0.6, 0.0), table, Dot())
    assert "to short and long." in said((0.0, 0.0), table, ScaledDot())


def test_numbers_are_written_with_their_sign() -> None:
    written = [plain_number(number) for number in (0.0, -0.0, 2.0, -1.255, -0.001, 1e-9, 999.999)]
    assert written == ["0", "0", "2", "−1.25", "0.00", "0.00", "1000.00"]
