"""A region of an image that is hidden: as forward passes with pixels that are painted, or with a mask, by hand."""

import numpy as np
import pytest
import torch
import transformers as hf
from torch.nn.functional import cosine_similarity

from attnviz.effects import hide_region
from tests.support.tiny_models import SMALL

IMAGE = {"image_size": 32, "patch_size": 8}
PATCHES = (4, 5, 8, 9, 15)  # of 4 × 4
REGION = [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]]
NOTHING = torch.zeros(4, 4)


def classifier(**config):
    torch.manual_seed(0)
    return hf.ViTForImageClassification(hf.ViTConfig(**SMALL, **IMAGE, num_labels=3, **config)).eval()


def plain():
    torch.manual_seed(0)
    return hf.Dinov2Model(hf.Dinov2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, **IMAGE)).eval()


@pytest.fixture
def batch():
    return {"pixel_values": torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))}


def painted_by_hand(pixels: torch.Tensor, color: float = 0.0) -> torch.Tensor:
    pixels = pixels.clone()
    for patch in PATCHES:
        for y in range(8):
            for x in range(8):
                pixels[0, :, patch // 4 * 8 + y, patch % 4 * 8 + x] = color
    return pixels


@pytest.mark.parametrize("make", [classifier, plain])
@pytest.mark.parametrize("color", [0.0, 0.7])
def test_gray_is_a_pass_over_painted_pixels(make, color, batch) -> None:
    model = make()
    found = hide_region(model, batch, REGION, color=color)
    with torch.no_grad():
        before, after = model(**batch), model(pixel_values=painted_by_hand(batch["pixel_values"], color))
    torch.testing.assert_close(found.before[0], before[0])
    torch.testing.assert_close(found.after[0], after[0])
    assert found.patches == PATCHES
    assert (found.after[0] - found.before[0]).abs().max() > 1e-4


class Masked:
    """Eager attention of a ViT with a 4-D mask that is added to its scores."""

    def __init__(self, keys) -> None:
        self.mask = torch.zeros(1, 1, 17, 17)
        self.mask[..., list(keys)] = -torch.inf
        self.weights: list[torch.Tensor] = []

    def __call__(self, module, query, key, value, attention_mask=None, **options):
        weights = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + self.mask).softmax(-1)
        self.weights.append(weights)
        return (weights @ value).transpose(1, 2), weights


@pytest.mark.parametrize("make", [classifier, plain])
def test_masked_is_a_pass_with_a_mask_that_is_added_to_all_scores(make, batch) -> None:
    model = make()
    found = hide_region(model, batch, REGION, how="masked")
    by_hand = Masked(patch + 1 for patch in PATCHES)  # after [CLS]
    hf.AttentionInterface.register("masked by hand", by_hand)
    model.set_attn_implementation("masked by hand")
    with torch.no_grad():
        after = model(**batch)
    kept = [i for i in range(17) if i - 1 not in PATCHES]  # what masked patches themselves become is read by no one
    one, other = (out[0] if out[0].ndim == 2 else out[0][:, kept] for out in (found.after, after))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    for layer, weights in enumerate(by_hand.weights):
        for head in range(4):
            row = found.weights(layer, head, 0)
            torch.testing.assert_close(row[1], weights[0, head, 0], atol=1e-5, rtol=1e-4)
            assert (row[1, list(found.positions)] == 0).all()
            assert row.sum(-1).tolist() == pytest.approx([1, 1], abs=1e-5)


def test_the_cosine_is_that_of_the_first_token(batch) -> None:
    model = plain()
    found = hide_region(model, batch, REGION)
    with torch.no_grad():
        states = [model(pixels).last_hidden_state for pixels in
                  (batch["pixel_values"], painted_by_hand(batch["pixel_values"]))]  # fmt: skip
    assert found.cosine == pytest.approx(float(cosine_similarity(states[0][0, 0], states[1][0, 0], dim=0)), abs=1e-6)
    with pytest.raises(ValueError, match="no final vectors"):
        _ = hide_region(classifier(), batch, REGION).cosine


def test_the_cosine_of_a_model_that_ends_with_a_map_is_of_its_mean() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_sizes": [16, 32], "depths": [1, 1], "num_attention_heads": [1, 2], "num_encoder_blocks": 2}
    config = hf.SegformerConfig(**sizes, sr_ratios=[2, 1], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2])
    model, pixels = hf.SegformerModel(config).eval(), torch.rand(1, 3, 32, 32)
    found = hide_region(model, {"pixel_values": pixels}, np.eye(4))
    with torch.no_grad():
        means = [model(each).last_hidden_state[0].mean((1, 2)) for each in (pixels, found.pixels)]
    assert found.cosine == pytest.approx(float(cosine_similarity(*means, dim=0)), abs=1e-6)
    assert found.cosine < 1 - 1e-6


def test_an_empty_region_changes_nothing_and_a_known_run_is_taken(batch) -> None:
    model = plain()
    whole = hide_region(model, batch, NOTHING)
    assert whole.cosine == pytest.approx(1)
    found, again = (hide_region(model, batch, REGION, whole=one) for one in (whole, None))
    assert found.before is whole.before
    assert found.cosine == again.cosine


def test_a_model_in_which_patches_are_no_keys_is_hidden_by_gray_alone() -> None:
    torch.manual_seed(0)
    config = hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4)
    model, pixels = hf.SwinModel(config).eval(), {"pixel_values": torch.randn(1, 3, 32, 32)}
    with pytest.raises(ValueError, match="Hide them by gray"):
        hide_region(model, pixels, np.ones((16, 16)), how="masked")


@pytest.mark.parametrize("region", [[], [(0, 4)], np.ones((4, 3)), np.ones(16), np.ones((1, 4, 4))])
def test_a_region_of_another_shape_is_refused(region, batch) -> None:
    with pytest.raises(ValueError, match="4 × 4 patches"):
        hide_region(plain(), batch, region)


def test_what_is_no_image_is_refused(batch) -> None:
    with pytest.raises(ValueError, match="how must be one of"):
        hide_region(plain(), batch, REGION, how="black")
    with pytest.raises(ValueError, match="One image"):
        hide_region(plain(), {"pixel_values": torch.zeros(2, 3, 32, 32)}, REGION)
