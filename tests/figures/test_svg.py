"""Maps on paper: every cell has its color and place, tokens are text, and nothing else is in the SVG."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnviz.figures.svg import ACCENT, MOST, svg_map, svg_row
from attnviz.figures.themes import CHANGES, MASKED, WEIGHTS

TAG = "{http://www.w3.org/2000/svg}"
SCALE = WEIGHTS["light"]
tokens = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def parts(svg: str, tag: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(svg).findall(f"{TAG}{tag}")


def cells(svg: str, count: int) -> list[ElementTree.Element]:
    """The cells of a map: squares with a white border."""
    squares = [one for one in parts(svg, "rect") if one.get("stroke") == "#ffffff"]
    assert len(squares) == count
    return squares


def test_the_ends_of_the_scale_and_what_is_masked_have_their_colors() -> None:
    svg = svg_map(np.array([[0.0, 0.5], [np.nan, 0.25]]), ["a", "b"], ["c", "d"], largest=0.5, row=1)
    colors = [one.get("fill") for one in cells(svg, 4)]
    assert colors == [SCALE[0], SCALE[-1], MASKED["light"], SCALE[5]]
    [outline] = [one for one in parts(svg, "rect") if one.get("stroke") == ACCENT]
    assert outline.get("y") == cells(svg, 4)[2].get("y")
    [bold] = [one.text for one in parts(svg, "text") if one.get("font-weight")]
    assert bold == "b"
    assert {"0.50", "0.25", "masked"} <= {one.text for one in parts(svg, "text")}


@given(weights=arrays("f4", st.tuples(*[st.integers(1, 9)] * 2), elements=st.floats(0, 1, width=32)), data=st.data())
def test_rows_are_queries_and_columns_are_keys_in_the_picture(weights: np.ndarray, data: st.DataObject) -> None:
    queries, keys = weights.shape
    names = [data.draw(st.lists(tokens, min_size=count, max_size=count)) for count in (queries, keys)]
    svg = svg_map(weights, *names, largest=1.0)
    places = [(float(one.get("y")), float(one.get("x"))) for one in cells(svg, queries * keys)]
    assert places == sorted(places)
    assert len({y for y, _ in places}) == queries
    width, height = (float(ElementTree.fromstring(svg).get(name)) for name in ("width", "height"))
    assert all(0 <= y < height and 0 <= x < width for y, x in places)


@given(names=st.lists(tokens, min_size=1, max_size=9))
def test_tokens_are_text_whatever_they_are(names: list[str]) -> None:
    for svg in (svg_row(np.ones(len(names)), names, largest=1.0), svg_row(None, names, largest=1.0)):
        assert {one.tag for one in ElementTree.fromstring(svg)} <= {f"{TAG}rect", f"{TAG}text"}


def test_the_bars_are_as_high_as_the_weights_and_boxes_have_none() -> None:
    svg = svg_row(np.array([0.5, 0.25, np.nan, 0.0]), list("abcd"), largest=0.5)
    first, second, masked, last, _ = parts(svg, "rect")
    assert float(first.get("height")) == 2 * float(second.get("height"))
    assert float(last.get("height")) == 0
    assert masked.get("fill") == MASKED["light"]
    assert [one.text for one in parts(svg, "text")] == ["0.50", "a", "0.25", "b", "c", "d"]
    assert [one.text for one in parts(svg_row(None, list("abcd"), largest=0.5), "text")] == list("abcd")


@pytest.mark.parametrize("weights", [np.ones((1, MOST + 1)), np.ones((MOST + 1, 1))])
def test_what_paper_does_not_hold_is_refused(weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="As SVG, a map has at most 48"):
        svg_map(weights, ["a"] * len(weights), ["b"] * weights.shape[1], largest=1.0)


def test_weights_below_0_have_the_scale_of_changes_and_bars_below_the_line() -> None:
    colors = [cell.get("fill") for cell in cells(svg_map(np.array([[-0.5, 0.5]]), ["q"], ["a", "b"], largest=0.5), 2)]
    assert colors == [CHANGES["light"][0], CHANGES["light"][-1]]
    up, down, line = parts(svg_row(np.array([0.5, -0.25]), ["a", "b"], largest=0.5), "rect")
    assert float(up.get("y")) + float(up.get("height")) == float(line.get("y")) == float(down.get("y"))
    assert float(up.get("height")) == 2 * float(down.get("height"))
