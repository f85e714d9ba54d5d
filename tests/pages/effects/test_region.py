"""Hide a region: its link, its picture, and what the model says without it."""

import numpy as np
import pytest
import torch

from attnviz.page.blocks import Figure, Table, every_block, page_quantities
from attnviz.pages.effects.blocks import effects
from attnviz.pages.effects.state import REGION, EffectsState
from tests.page.test_model_picture import file_of


def read(saved, *link: tuple[str, str]) -> EffectsState:
    state = EffectsState.read([("why-model", str(saved / "vit")), *link])
    assert not state.problem
    return state


UPPER_LEFT = "cc00"  # two rows and columns of 4 × 4 patches


def figures(state: EffectsState) -> dict[str, Figure]:
    return {block.name: block for block in every_block(effects(state)) if isinstance(block, Figure)}


@pytest.mark.parametrize("text", ["x", "-1", "0x1", "1.2", "F", "f" * 4097, "１"])
def test_what_is_no_region_is_refused(saved, text: str) -> None:
    state = read(saved, ("region", text))
    assert "A region is a number" in state.refused[0]
    assert state.region is None


def test_a_region_of_more_patches_than_the_picture_is_refused(saved) -> None:
    with pytest.raises(ValueError, match="4 × 4"):
        list(every_block(effects(read(saved, ("region", "10000")))))


@pytest.mark.parametrize("how", ["gray", "masked"])
def test_the_page_says_the_labels_and_the_weights_of_two_passes(saved, how: str) -> None:
    state = read(saved, ("region", UPPER_LEFT), ("hidden-as", how), ("effects-head", "layer 0, head 1"))
    assert not state.refused
    assert state.inspect == REGION
    numbers = page_quantities(effects(state))
    model = state.source.model()
    pixels = model.encode().batch["pixel_values"]
    with torch.no_grad():
        before = model.model(pixels).logits.softmax(-1)[0]
    assert numbers["probability of LABEL_0 before"] == pytest.approx(float(before[0]), abs=1e-5)
    weights = state.shown_layer.maps()[1, 0]
    assert numbers["weight of the region before"] == pytest.approx(float(weights[[1, 2, 5, 6]].sum()), abs=1e-5)
    assert (numbers["weight of the region after"] == 0) == (how == "masked")
    if how == "gray":
        pixels = pixels.clone()
        pixels[..., :16, :16] = 0
        with torch.no_grad():
            after = model.model(pixels).logits.softmax(-1)[0]
        assert numbers["probability of LABEL_0 after"] == pytest.approx(float(after[0]), abs=1e-5)
    [table] = [block for block in every_block(effects(state)) if isinstance(block, Table)]
    assert {row[0] for row in table.rows} == {"LABEL_0", "LABEL_1"}


def test_the_image_of_the_state_is_what_is_measured(saved) -> None:
    numbers = [page_quantities(effects(read(saved, ("drawing", name)))) for name in ("sunset", "shapes")]
    assert numbers[0] != numbers[1]
    white = EffectsState(model=str(saved / "vit"), image=file_of(np.full((32, 32, 3), 255, np.uint8)))
    model = white.source.model()
    with torch.no_grad():
        before = model.model(model.encode(image=white.image.data).batch["pixel_values"]).logits.softmax(-1)[0]
    measured = page_quantities(effects(white))["probability of LABEL_0 before"]
    assert measured == pytest.approx(float(before[0]), abs=1e-5)


def test_both_pictures_have_one_scale_and_the_region(saved) -> None:
    shown = figures(read(saved, ("region", UPPER_LEFT)))
    specs = [shown[name].picture.spec for name in ("whole-picture", "hidden-picture")]
    assert [spec.region for spec in specs] == [(0, 1, 4, 5)] * 2
    assert specs[0].row.largest == specs[1].row.largest
    assert specs[0].row.largest == pytest.approx(max(np.nanmax(spec.row.weights) for spec in specs), abs=1e-6)


def test_marking_adds_patches_and_takes_them_out(saved) -> None:
    state = read(saved, ("region", UPPER_LEFT))
    paints = figures(state)["whole-picture"].paints
    assert paints is not None
    more = EffectsState.read(paints(np.array([[2, 0], [6, 0], [16, 0], [-1, 0]]), True))
    assert np.argwhere(more.hidden).tolist() == [[row, column] for row in (0, 1) for column in (0, 1, 2)]
    less = EffectsState.read(paints(np.array([[0, 0], [1, 0], [4, 0], [5, 0]]), False))
    assert not less.hidden.any()
    assert page_quantities(effects(less))["weight of the region before"] == 0


def test_a_click_on_the_other_picture_is_what_looks(saved) -> None:
    opens = figures(read(saved))["hidden-picture"].opens
    assert opens is not None
    assert EffectsState.read(opens(3, 0)).looks_from == 4  # after [CLS]


def test_an_uploaded_picture_is_hidden_by_gray(saved) -> None:
    white = file_of(np.full((32, 32, 3), 255, np.uint8))
    state = EffectsState(model=str(saved / "vit"), image=white, region=1 << 15)
    page_quantities(effects(state))
    [image] = figures(state)["hidden-picture"].picture.figure.layout.images
    assert image.source != figures(state)["whole-picture"].picture.figure.layout.images[0].source
