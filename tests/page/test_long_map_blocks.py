"""What is shown beside the map of a long text: a search, and the pinned query at all keys."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from attnviz import Inputs, Layer, Mechanism
from attnviz.base.formatting import number
from attnviz.base.link import Link
from attnviz.figures.downsampled_map import Scale
from attnviz.layer import Kind, LayerId
from attnviz.masks import Causal
from attnviz.page.block_html import block_html
from attnviz.page.blocks import Anchor, Figure, Paragraph, every_block
from attnviz.page.long_map_blocks import context_blocks, search_blocks
from attnviz.pages.explore.blocks import explore
from attnviz.pages.explore.state import ExploreState
from attnviz.sources.source import Source

COUNT = 1_500


@dataclass(frozen=True)
class Long(Source):
    """One layer of a long text, or of two."""

    cross: bool = False

    def layers(self) -> list[Layer]:
        generator = torch.Generator().manual_seed(0)
        keys = 1_300 if self.cross else COUNT
        query, key = torch.randn(1, COUNT, 8, generator=generator), torch.randn(1, keys, 8, generator=generator)
        names = "qk" if self.cross else "tt"
        tokens = [tuple(f"{name}{i}" for i in range(count)) for name, count in zip(names, (COUNT, keys), strict=True)]
        kind = Kind.CROSS if self.cross else Kind.CAUSAL
        mechanism = Mechanism() if self.cross else Mechanism(mask=Causal())
        return [Layer(LayerId("decoder", 0, cross=self.cross), kind, Inputs(query, key, key, *tokens), mechanism)]


def state_of(cross: bool = False, **values: object) -> ExploreState:
    return ExploreState(source=Long(cross), **values)


def found(state: ExploreState) -> tuple[str, Link]:
    """What is said of a search, and the link to the next place."""
    (paragraph,) = search_blocks(state)
    assert isinstance(paragraph, Paragraph)
    text, _space, anchor = paragraph.content
    assert isinstance(anchor, Anchor)
    return text, anchor.link


def after(state: ExploreState) -> ExploreState:
    return state.opened(found(state)[1])


def test_a_search_goes_from_match_to_match() -> None:
    state = state_of(find="T70 t71")
    assert found(state)[0] == "1 match"
    state = after(state)
    assert (state.part_of_queries, state.part_of_keys, state.pinned) == ((0, 511), (0, 511), 70)
    assert found(state)[0] == "Match 1 of 1"
    state = state.updated(find="t70")
    assert found(state)[0] == "Match 1 of 11"
    for position in (700, 701):
        state = after(state)
        assert (state.part_of_queries, state.pinned) == ((position - 256, position + 255), position)
    assert found(state)[0] == "Match 3 of 11"


def test_a_search_of_two_texts_moves_the_one_that_has_the_match() -> None:
    state = after(state_of(cross=True, find="k1299"))
    assert (state.part_of_queries, state.part_of_keys, state.pinned) == ((0, COUNT - 1), (788, 1299), 750)
    assert found(state)[0] == "Match 1 of 1"
    state = after(state.updated(find="q5"))
    assert (state.part_of_queries, state.part_of_keys, state.pinned) == ((0, 511), (788, 1299), 5)


@pytest.fixture(scope="module")
def curve() -> Figure:
    shown = every_block(explore(state_of(pinned=700, scale=Scale.LINEAR, part_of_keys=(100, 300))))
    return next(block for block in shown if isinstance(block, Figure) and block.name == "query-curve")


def test_the_pinned_query_of_a_long_map_is_a_curve_over_all_keys(curve: Figure) -> None:
    [layer] = Long().layers()
    row = layer.mechanism(layer.inputs, heads=0, rows=slice(700, 701)).weights[0, 0]
    best = int(row.argmax())
    line, ring = curve.picture.figure.data
    assert len(line.x) == 1000
    assert (ring.x[0], ring.y[0]) == (best, pytest.approx(float(row.max()), abs=1e-5))
    assert np.isfinite(line.y[np.asarray(line.x) <= 700]).all()
    assert np.isnan(line.y[np.asarray(line.x) > 701]).all()
    sentences = curve.picture.spec.sentences
    assert f"t700 (700) gives {number(float(row.max()))} of its attention to t{best} ({best})." in sentences
    [shape] = curve.picture.figure.layout.shapes
    assert (shape.x0, shape.x1) == (99.5, 300.5)


def test_a_click_on_the_curve_moves_the_part_in_view(curve: Figure) -> None:
    for point, keys in ((0, (0, 511)), (999, (988, 1499))):
        opened = state_of(pinned=700).opened(curve.opens(point, 0))
        assert (opened.part_of_queries, opened.part_of_keys) == ((444, 955), keys)


def test_the_context_blocks_a_token_is_text() -> None:
    html = "".join(
        str(block_html(block, lambda _anchor: "")) for block in context_blocks("It", ["<b>", "<i>x</i>", "&"], 1)
    )
    assert "&lt;b&gt; <mark>&lt;i&gt;x&lt;/i&gt;</mark> &amp;" in html
