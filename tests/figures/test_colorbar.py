"""The color bar: words at its ends, what is beyond them, and one color for one meaning."""

import numpy as np
import plotly.graph_objects as go

from attnviz.figures import heatmap
from attnviz.figures.bars import AFTER, NEGATIVE
from attnviz.figures.head_grid import head_grid
from attnviz.figures.shares import word_rows
from attnviz.figures.svg import svg_map
from attnviz.figures.themes import CHANGES

EFFECTS = np.array([[-2.0, 1.0, -12.6]])  # of two heads, and of an MLP


def axis(figure: go.Figure) -> go.layout.Coloraxis:
    return figure.layout.coloraxis3


def test_a_bar_says_what_its_ends_mean() -> None:
    grid = head_grid(EFFECTS[:, :2], ["", ""], signed=True, ends=("for", "against"))
    assert axis(grid.figure).colorbar.ticktext == ("for −2", "2 against")
    assert axis(head_grid(EFFECTS[:, :2], ["", ""], signed=True).figure).colorbar.ticktext == ("−2", "0", "2")
    change = heatmap(EFFECTS, ["a"], ["b", "c", "d"], largest=13.0, ends=("less", "more"))
    assert axis(change.figure).colorbar.ticktext == ("less −13", "13 more")


def test_a_bar_says_which_cells_are_beyond_its_ends() -> None:
    grid = head_grid(EFFECTS, ["", "", ""], signed=True, largest=2.0, ends=("for", "against"))
    assert axis(grid.figure).colorbar.ticktext == ("for ≤ −2", "2 against")
    opposite = head_grid(-EFFECTS, ["", "", ""], signed=True, largest=2.0)
    assert axis(opposite.figure).colorbar.ticktext == ("−2", "0", "≥ 2")
    weights = head_grid(np.array([[0.2, np.nan]]), ["", ""], largest=1.0)
    assert weights.figure.layout.coloraxis.colorbar.ticktext == ("0", "1")


def test_what_falls_without_a_part_has_the_color_of_what_is_for_it() -> None:
    share = head_grid(np.array([[2.0, -1.0]]), ["", ""], signed=True)
    effect = head_grid(np.array([[-2.0, 1.0]]), ["", ""], signed=True, reverse=True)
    assert not axis(share.figure).reversescale
    assert axis(effect.figure).reversescale
    shares = word_rows({"share": np.array([2.0, -1.0])}, ["a", "b"])
    effects = word_rows({"effect": np.array([-2.0, 1.0])}, ["a", "b"], ["effect"])
    assert [each.figure.data[0].marker.color for each in (shares, effects)] == [(AFTER, NEGATIVE)] * 2


def test_paper_has_the_same_colors() -> None:
    for weights, reverse in ((np.array([[2.0, -2.0]]), False), (np.array([[-2.0, 2.0]]), True)):
        drawn = svg_map(weights, ["a"], ["b", "c"], largest=2.0, reverse=reverse)
        blue, brown = (drawn.rindex(color) for color in (CHANGES["light"][-1], CHANGES["light"][0]))
        assert blue < brown  # the cell at the left is drawn first
