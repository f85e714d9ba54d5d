"""The picture beside a map: where its patches are, by what the model makes of a picture in which one patch differs."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

from attnviz.analysis.head_maps import Aggregate, HeadChoice, Rollout
from attnviz.models import DINOV2
from attnviz.models.drawings import drawing
from attnviz.page.blocks import Figure, every_block
from attnviz.page.model_picture import model_image, patches_of_heads
from attnviz.pages.explore.blocks import explore
from attnviz.pages.explore.state import ExploreState
from attnviz.sources import Model
from attnviz.sources.upload import File
from tests.support.tiny_models import SMALL


def file_of(colors: np.ndarray) -> File:
    file = io.BytesIO()
    Image.fromarray(colors).save(file, "PNG")
    return File("picture.png", file.getvalue())


def figures(state: ExploreState) -> dict[str, Figure]:
    return {block.name: block for block in every_block(explore(state)) if isinstance(block, Figure)}


@pytest.fixture
def state(saved: Path) -> ExploreState:
    return ExploreState(source=Model("", str(saved / "vit")), pinned=0)


def test_a_map_of_patches_has_the_picture_beside_it(state: ExploreState) -> None:
    shown = figures(state)
    spec, of_map = shown["picture"].picture.spec, shown["heatmap"].picture.spec
    assert (spec.link, of_map.fan) == (of_map.link, False)
    assert [patch.row for patch in spec.patches] == [*range(1, 17)]  # [CLS] is the first
    assert [patch.column for patch in spec.patches] == [*range(1, 17)]
    assert spec.patches[6].name == "the patch in row 1, column 2"
    assert spec.patches[6].box == (16, 8, 24, 16)


@pytest.mark.parametrize("size", [(32, 32), (50, 90), (200, 64)])
def test_the_token_of_a_patch_is_the_one_that_its_pixels_change(saved: Path, size: tuple[int, int]) -> None:
    state = ExploreState(source=Model("", str(saved / "vit"), image=file_of(np.zeros((*size, 3), np.uint8))))
    spec = figures(state)["picture"].picture.spec
    model = state.source.model()
    embeddings = model.model.vit.embeddings
    seen = torch.from_numpy(model_image(state.source).colors.copy()).permute(2, 0, 1)[None].float() / 255
    for patch in (spec.patches[0], spec.patches[7], spec.patches[15]):
        left, top, right, bottom = map(int, patch.box)
        other = seen.clone()
        other[..., top:bottom, left:right] = 1
        with torch.no_grad():
            difference = (embeddings(other) - embeddings(seen)).abs().amax(-1)[0]
        assert difference.nonzero().flatten().tolist() == [patch.column]


def test_small_pictures_of_all_heads_are_the_pinned_row_by_patches(state: ExploreState) -> None:
    found = patches_of_heads(state.selection, 3)
    assert found is not None
    weights = state.layers[0].maps()
    np.testing.assert_allclose(found[: len(weights)].reshape(-1, 16), weights[:, 3, 1:], atol=1e-6)


@pytest.fixture(scope="module")
def fine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 40 × 40 patches, whose maps are shown in fewer cells."""
    folder = tmp_path_factory.mktemp("models") / "fine"
    torch.manual_seed(0)
    hf.ViTModel(hf.ViTConfig(image_size=80, patch_size=2, **SMALL)).save_pretrained(folder)
    return folder


VISION = SMALL | {"image_size": 32, "patch_size": 8}
SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}


@pytest.mark.parametrize(
    ("make", "counts"),
    [
        (lambda: hf.DeiTModel(hf.DeiTConfig(**VISION)), {16}),
        (lambda: hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**VISION, num_register_tokens=2)), {16}),
        (lambda: hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**VISION, num_register_tokens=2)), {16}),
        (lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**VISION)), {16}),
        (lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(**VISION)), {16}),
        (lambda: hf.BeitModel(hf.BeitConfig(**VISION)), {16}),
        (lambda: hf.SwinModel(hf.SwinConfig(**SWIN)), {16, 64}),
    ],
    ids=["DeiT", "DINOv2 with registers", "DINOv3", "SigLIP", "CLIP", "BEiT", "Swin"],
)
def test_models_of_other_families_have_their_patches_on_the_picture(make, counts, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path)
    state = ExploreState(source=Model("", str(tmp_path)))
    for layer in range(len(state.layers)):
        spec = figures(ExploreState(source=state.source, layer=layer))["picture"].picture.spec
        assert len(spec.patches) in counts
        areas = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (patch.box for patch in spec.patches)]
        assert sum(areas) == pytest.approx(32 * 32)  # the whole picture, once
        assert len({patch.name for patch in spec.patches}) == len(spec.patches)
        assert sorted(patch.column for patch in spec.patches)[0] >= 0


def test_of_many_patches_the_pinned_row_lies_over_the_picture(fine: Path) -> None:
    state = ExploreState(source=Model("", str(fine)), pinned=5)
    shown = figures(state)
    figure = shown["picture"]
    assert shown["heatmap"].picture.spec.downsampled is not None
    row = figure.picture.spec.row
    weights = state.layers[0].maps([0], slice(5, 6))[0, 0]
    np.testing.assert_allclose(row.weights, weights[1:], atol=1e-6)
    assert figure.opens is not None
    assert ExploreState.read(figure.opens(7, 0)).pinned == 8
    np.testing.assert_allclose(
        patches_of_heads(state.selection, 5)[0].ravel(),
        weights[1:],
        atol=1e-6,  # type: ignore[index]
    )
    assert "picture" not in figures(ExploreState(source=Model("", str(fine)), pinned=None))


def test_another_drawing_is_the_one_that_the_model_sees(saved: Path) -> None:
    source = Model("", str(saved / "vit"), drawing="shapes")
    shown = model_image(source).colors / 255
    np.testing.assert_allclose(shown, drawing(32, 32, "shapes").permute(1, 2, 0), atol=0.01)
    maps = [one.layers()[0].maps() for one in (source, Model("", str(saved / "vit")))]
    assert not torch.allclose(*maps)


def test_dinov2_opens_where_cls_looks_at_what_is_drawn() -> None:
    """At the sun of the first drawing: more than at any background as large."""
    state = ExploreState(source=Model("", DINOV2))
    assert (state.layer, state.head, state.pinned) == (11, 2, 0)
    weights = state.layers[11].maps([2], slice(0, 1))[0, 0, 1:].reshape(16, 16)
    sun = drawing(224, 224)[0].unfold(0, 14, 14).unfold(1, 14, 14).mean((-1, -2)) > 0.9
    assert float(weights[sun].sum()) > 0.5
    assert int(sun.sum()) < 20


@pytest.mark.parametrize(
    ("head", "said", "sums"),
    [
        (0, "{query} gives {share} of its attention to the image; the line", True),
        (Aggregate.MEAN, "on average over heads; the line", True),
        (Aggregate.MAXIMUM, "The line is around half of the largest weights of {query} in any head.", False),
        (Rollout.ROLLOUT, "Rollout gives the image a share of {share} in {query}; the line", True),
    ],
)
def test_the_sentence_of_a_row_says_of_which_heads_it_is(saved: Path, head: HeadChoice, said: str, sums: bool) -> None:
    sentence = figures(ExploreState(source=Model("", str(saved / "vit")), head=head))[
        "picture"
    ].picture.spec.row_sentence
    assert said in sentence
    assert ("{share}" in sentence) == sums  # largest weights of different heads may add up to more than 1


def test_a_text_has_no_picture() -> None:
    assert "picture" not in figures(ExploreState())
