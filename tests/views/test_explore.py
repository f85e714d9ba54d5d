"""The blocks of Explore: what is hidden until it is predicted, rollout, and heads colored by a number."""

import numpy as np

from attnviz.analysis.aggregation import rollout
from attnviz.analysis.head_metrics import Entropy, head_metrics
from attnviz.page.block_html import block_html
from attnviz.page.blocks import Block, Figure, Note, Prediction, every_block, page_view
from attnviz.sources import Toy
from attnviz.state.explore import ExploreState
from attnviz.views.explore import explore

TEXT = "a b c d e"


def blocks(**values: str) -> list[Block]:
    state = ExploreState.read([("source", "Toy"), ("text", TEXT), *values.items()])
    assert not state.refused
    return [*explore(state)]


def figure(shown: list[Block], name: str) -> Figure:
    return next(block for block in every_block(shown) if isinstance(block, Figure) and block.name == name)


def test_what_is_to_be_predicted_is_in_no_block() -> None:
    shown = blocks(predict="true", pinned="2 · c")
    (prediction,) = (block for block in shown if isinstance(block, Prediction))
    hidden = [*prediction.above(False), *prediction.below(False)]
    weights = np.asarray(figure(hidden, "heatmap").picture.figure.data[0].z)
    assert np.isnan(weights[2]).all()
    assert np.isfinite(np.delete(weights, 2, axis=0)).all()
    notes = [str(block.content) for block in every_block(hidden) if isinstance(block, Note)]
    assert not any("may look at no key" in note for note in notes)
    assert "gives" not in "".join(str(block_html(block, lambda _anchor: "") or "") for block in every_block(hidden))
    assert np.isfinite(np.asarray(figure(shown, "heatmap").picture.figure.data[0].z)).all()


def test_a_rollout_is_that_of_the_library() -> None:
    layers = Toy(TEXT).layers()
    (panel,) = page_view(blocks(head="Rollout up to this layer")).panels
    np.testing.assert_allclose(panel.weights, rollout(layers[:1]), atol=1e-6)
    assert panel.title == "rollout up to layer 0"


def test_heads_are_colored_by_their_numbers_and_open() -> None:
    state = ExploreState(source=Toy(TEXT), color_by=Entropy())
    shown = figure([*explore(state)], "heads")
    expected = head_metrics(state.layers, metrics=[Entropy()]).values["Entropy"]
    np.testing.assert_allclose(np.asarray(shown.picture.figure.data[0].z).flatten(), expected, atol=1e-6)
    assert shown.opens is not None
    link = shown.opens(0, 1)
    assert link is not None
    assert state.opened(link).head == 1
    small = figure([*explore(state.updated(color_by=None))], "heads")
    assert small.opens is not None
    row, column = small.picture.spec.corner(1)
    assert small.opens(row, column) == ExploreState(source=Toy(TEXT)).link_with(head=1)
