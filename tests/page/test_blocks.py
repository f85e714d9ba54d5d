"""Blocks: their HTML, their quantities and panels, and their nodes for the browser."""

from urllib.parse import quote_plus

import numpy as np
import pytest
from markupsafe import Markup

from attnviz.figures import head_grid
from attnviz.figures.scatter import scatter
from attnviz.figures.shares import split_bar
from attnviz.models import MINILM
from attnviz.page.block_html import block_html, inline
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Computed,
    Control,
    Figure,
    Heading,
    InWords,
    Listing,
    More,
    Note,
    OtherStates,
    Paragraph,
    Row,
    Summary,
    Table,
    Tabs,
    Unavailable,
    every_block,
    page_quantities,
    page_view,
)
from attnviz.page.nodes import page_nodes
from attnviz.page.page_view import Panel
from attnviz.pages.heads.state import HIDDEN_FACT, MANY_TEXTS, REPEATED, HeadsState
from attnviz.pages.why.state import SumState

BAD = "<script>"
WORD = Anchor(BAD, (("term", "1.2"), ("text", "a & b")))
ELSEWHERE = Anchor("there", (), page="effects")


def grid_figure(framed: tuple[int, int]) -> Figure:
    def opens(row: int, column: int) -> tuple[tuple[str, str], ...] | None:
        return None if row == column else (("cell", f"{row}.{column}"),)

    return Figure(head_grid(np.eye(2), chosen=[framed]), "grid", 200, opens)


@pytest.mark.parametrize(
    "block",
    [
        Summary((BAD, WORD)),
        Paragraph((BAD, " ", WORD), "one"),
        Note(WORD),
        Heading((BAD, WORD)),
        Listing([WORD, BAD], "list"),
        Table(["a", BAD], [(WORD, BAD), (BAD, (WORD, " · ", WORD))], marked=1),
        InWords(BAD),
        Caption(f"**x** {BAD}"),
    ],
    ids=lambda block: type(block).__name__,
)
def test_texts_of_blocks_are_escaped(block: Block) -> None:
    html = block_html(block, lambda anchor: "?" + "&".join(f"{name}={value}" for name, value in anchor.link))
    assert html is not None
    assert BAD not in html
    assert Markup.escape(BAD) in html
    if not isinstance(block, InWords | Caption):
        assert "<a href='?term=1.2&amp;text=a &amp; b'>&lt;script&gt;</a>" in html


def test_an_anchor_without_an_address_is_left_out() -> None:
    assert inline(("Look ", ELSEWHERE, "."), lambda _anchor: None) == "Look ."


def test_a_caption_has_bold_and_italic_of_markdown() -> None:
    html = block_html(Caption("**What you see.** A _b_ *d* **c**"), lambda _anchor: None)
    assert html == "<p class='attnviz-caption'><b>What you see.</b> A _b_ <i>d</i> <b>c</b></p>"


def test_quantities_and_panels_are_those_of_all_blocks_in_order() -> None:
    one, two = (Panel(name, np.ones((1, 1)), ["q"], ["k"]) for name in "ab")
    chart = split_bar({"a": 1.0}, 1.0)
    blocks = [
        OtherStates([Summary("x", lambda: {"first": 1.0})]),
        Columns(
            [
                (0.5, [Figure(chart, "one", 10, panels=[one])]),
                (0.5, [Row([Figure(chart, "two", 9, panels=[two])], "r")]),
            ]
        ),
        Summary("y", lambda: {"second": 2.0}),
    ]
    assert page_quantities(blocks) == {"first": 1.0, "second": 2.0}
    view = page_view(blocks)
    assert [panel.title for panel in view.panels] == ["a", "b"]
    assert view.quantities == {"first": 1.0, "second": 2.0}
    assert len([*every_block(blocks)]) == 7


def test_nodes_have_the_links_of_texts_and_of_cells() -> None:
    page = page_nodes(
        [Paragraph((WORD, ELSEWHERE)), grid_figure((0, 1)), OtherStates([Note(Anchor("x", (("y", "z"),)))])], "key"
    )
    text, figure, others = page.nodes
    assert text["links"] == page.links == ["term=1.2&text=a+%26+b"]
    assert "there" not in text["html"]
    assert figure["opens"] == [None, "cell=0.1", "cell=1.0", None]
    assert page.cells == ["cell=0.1", "cell=1.0"]
    assert others["nodes"][0]["links"] == ["y=z"]


def test_states_that_differ_in_a_frame_share_a_chart() -> None:
    first, second = (page_nodes([grid_figure(framed)], "key") for framed in ((0, 1), (1, 1)))
    assert {*first.charts} == {*second.charts}
    assert first.nodes[0]["shapes"] != second.nodes[0]["shapes"]


def test_what_is_folded_is_there_unless_it_holds_nothing() -> None:
    tree = Control(SumState.tree, SumState())
    folded = [More("one", [tree]), More("two", [Note(Anchor("x", (("a", "b"),)))])]
    [more] = page_nodes(folded, "key", controls="menus").nodes
    assert more["title"] == "two"
    assert more["nodes"][0]["links"] == ["a=b"]
    assert len(page_nodes(folded, "key").nodes) == 2


def test_a_control_has_what_a_link_can_say() -> None:
    state = HeadsState(model=MINILM, words=100, inspect=HIDDEN_FACT)
    fields = HeadsState.text, HeadsState.words, HeadsState.inspect, HeadsState.measure, SumState.tree
    text, words, tab, tree = page_nodes(
        [Control(field, SumState() if field is SumState.tree else state) for field in fields], "key"
    ).nodes
    assert (text["parameter"], text["value"]) == ("text", state.text)
    assert (words["value"], words["least"], words["most"]) == (100, 60, 700)
    assert [name for name, _label in tab["options"]] == ["This text", "Repeated tokens", "Many texts", "Hidden fact"]
    assert tab["value"] == HIDDEN_FACT
    assert tree["value"] is False


def test_tabs_are_links_but_not_in_files() -> None:
    tabs = Tabs(HeadsState.inspect, HeadsState(model=MINILM), [Note("inside")])
    links, inside = page_nodes([tabs], "key").nodes
    assert links["kind"] == "other states"
    assert links["nodes"][0]["links"][1:] == [
        f"why-model={quote_plus(MINILM)}&inspect={quote_plus(tab)}" for tab in (REPEATED, MANY_TEXTS, HIDDEN_FACT)
    ]
    assert "inside" in inside["html"]
    assert page_nodes([tabs], "key").links == []


def test_a_part_that_cannot_be_shown_says_why() -> None:
    with pytest.raises(ValueError, match="not today"):
        [*every_block([Columns([(1.0, [Unavailable("not today")])])])]


def test_points_open_states_too() -> None:
    picture = scatter(np.array([0.1, 0.2]), np.array([1.0, 2.0]), ["a", "b"], np.array([0, 1]))
    figure = Figure(picture, "points", 100, lambda point, _column: (("point", str(point)),))
    assert page_nodes([figure], "key").cells == ["point=0", "point=1"]


def test_a_result_that_takes_time_is_waited_for_where_nobody_watches() -> None:
    computed = Computed("one", lambda: 2.0, lambda: ("blocks of a test",), str, lambda result: [Note(str(result))])
    [node] = page_nodes([computed], "key").nodes
    assert "2.0" in node["html"]
    assert [type(block) for block in every_block([computed])] == [Computed, Note]
