"""The blocks of Explore: what is hidden until it is predicted, rollout, and heads colored by a number."""

import numpy as np
import pytest
import torch

import attnviz
from attnviz.analysis.aggregation import rollout
from attnviz.analysis.head_metrics import Entropy, Previous, head_metrics
from attnviz.base.text import EXAMPLE
from attnviz.lessons.lesson_tables import parse_address
from attnviz.models.minilm import minilm
from attnviz.page.block_html import block_html
from attnviz.page.blocks import Block, Figure, Note, Prediction, every_block, page_view
from attnviz.page.page_view import PageView
from attnviz.pages.explore.blocks import explore
from attnviz.pages.explore.state import ExploreState
from attnviz.sources import Toy
from tests.support.image_text_models import save_model

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


@pytest.fixture(scope="module")
def own() -> np.ndarray:
    """The weights of all layers and heads, as the model itself computes them."""
    model = minilm()
    with model.lock, torch.no_grad():
        out = model.model(**model.encode(EXAMPLE).batch, output_attentions=True)
    return torch.stack(out.attentions)[:, 0].double().numpy()


def shown(link: str) -> PageView:
    return page_view(explore(ExploreState.read(parse_address(f"explore?{link}")[1])))


def test_a_head_and_its_numbers_are_those_of_the_model(own: np.ndarray) -> None:
    view = shown("layer=encoder+2&head=Head+8&pinned=10+·+it")
    np.testing.assert_allclose(view.panels[0].weights, own[2, 8], atol=1e-5)
    assert view.panels[0].row == 10
    assert view.quantities["weight of animal"] == pytest.approx(own[2, 8, 10, 2], abs=1e-5)
    state = ExploreState(color_by=Previous())
    grid = figure([*explore(state.updated(mosaic=True))], "heads").picture.figure.data[0].z
    diagonals = np.diagonal(own, -1, axis1=2, axis2=3).mean(-1)
    np.testing.assert_allclose(grid, diagonals, atol=1e-5)


@pytest.mark.parametrize("layer", [0, 5])
def test_a_rollout_is_the_product_of_the_models_own_weights(own: np.ndarray, layer: int, monkeypatch) -> None:
    rolled = np.eye(own.shape[-1])
    for one in own[: layer + 1].mean(1):
        rolled = (one / 2 + np.eye(len(one)) / 2) @ rolled
    link = f"layer=encoder+{layer}&head=Rollout+up+to+this+layer"
    np.testing.assert_allclose(shown(link).panels[0].weights, rolled, atol=2e-6)
    inner = rolled[1:-1, 1:-1] / rolled[1:-1, 1:-1].sum(-1, keepdims=True)
    hidden = shown(f"{link}&special-tokens=Hidden,+rows+rescaled").panels[0].weights
    np.testing.assert_allclose(hidden, inner, atol=2e-6)
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 16 * 16 - 1)
    monkeypatch.setattr("attnviz.page.selected_maps.CELLS", 4)
    downsampled = shown(f"{link}&quantity=Largest+weight").panels[0].weights
    np.testing.assert_allclose(downsampled, rolled.reshape(4, 4, 4, 4).max((1, 3)), atol=2e-6)


def test_a_model_in_a_link_is_never_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_arguments: object) -> None:
        raise AssertionError("a download")

    monkeypatch.setattr("attnviz.models.hub.Hub.find", fetch)
    monkeypatch.setattr("attnviz.models.hub.Hub.fetch", fetch)
    for name, reason in (
        ("org/model", "has to be downloaded first"),
        ("/nowhere", "There is no folder"),
        ("https://example.org/a/b", "not of the Hugging Face hub"),
    ):
        with pytest.raises(ValueError, match=reason):
            attnviz.view(f"/explore?model={name}")
    monkeypatch.setenv("ATTNVIZ_MODELS", "")
    for name in ("org/model", "/nowhere"):
        with pytest.raises(ValueError, match="shows only the models that its owner lists"):
            attnviz.view(f"/explore?model={name}")


def test_the_link_of_a_layer_without_the_pinned_token_leaves_it_out(tmp_path) -> None:
    model = str(save_model("smolvlm", tmp_path))
    state = ExploreState.read([("model", model), ("pinned", "0 · <fake_token_around_image>")])
    assert state.pinned == 0
    assert not state.refused
    names = ExploreState.layer.options(state)
    vision, text = (next(i for name, i in names.items() if kind in name) for kind in ("vision", "text"))
    assert state.link_with(layer=text)[-1] == ("pinned", "0 · <fake_token_around_image>")
    link = state.link_with(layer=vision)
    assert "pinned" not in dict(link)
    assert ExploreState.read(link).refused == ()
    none = state.updated(pinned=None).link_with(layer=vision)
    assert none[-1] == ("pinned", "none")
