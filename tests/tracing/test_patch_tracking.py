"""Which tokens are patches of an image, against what changes in the first layer where one patch is painted over."""

from functools import partial

import pytest
import torch
import transformers as hf
from torch import nn

from attnviz.inputs import PatchGrid
from attnviz.tracing import capture, capturing
from tests.support.timm_models import import_timm
from tests.support.tiny_models import SMALL

VISION = SMALL | {"image_size": 32, "patch_size": 8}
TEXT = SMALL | {"vocab_size": 100}
TIMM = {"img_size": 64, "patch_size": 16, "embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 0}


def image(height=32, width=32, count=1):
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(height + width))


def seeded_capture(model, *args, **kwargs):
    torch.manual_seed(0)  # some models draw the order of the patches
    return capture(model, *args, **kwargs)


def changed_tokens(run, pixels, row, column, patch):
    """The tokens of the first layer whose queries change where one patch is painted over."""
    painted = pixels.clone()
    painted[:, :, row * patch[0] : (row + 1) * patch[0], column * patch[1] : (column + 1) * patch[1]] = 3
    before, after = (run(one)[0].inputs.query for one in (pixels, painted))
    return [i for i in range(before.shape[1]) if not torch.equal(before[:, i], after[:, i])]


def assert_is_grid(run, pixels, rows, columns, patch=(8, 8)):
    """Asserts that both axes of the first layer have this grid, and returns the layer's inputs."""
    inputs = run(pixels)[0].inputs
    (grid,) = inputs.grids
    assert inputs.query_grids == inputs.key_grids == (grid,)
    assert (grid.rows, grid.columns) == (rows, columns)
    for row, column in {(0, 0), (rows - 1, columns - 1), (rows // 2, columns // 2)}:
        position = grid.positions[row * columns + column]
        assert changed_tokens(run, pixels, row, column, patch) == [position]
        assert inputs.key_tokens[position] == f"{row}·{column}"
    return inputs


def transformers_model(name, config):
    return partial(seeded_capture, getattr(hf, f"{name}Model")(config))


MODELS = {
    "ViT": (hf.ViTConfig(**VISION), ("[CLS]",)),
    "DeiT": (hf.DeiTConfig(**VISION), ("[CLS]", "[DISTILLATION]")),
    "Dinov2": (hf.Dinov2Config(**VISION), ("[CLS]",)),
    "Dinov2WithRegisters": (
        hf.Dinov2WithRegistersConfig(**VISION, num_register_tokens=2),
        ("[CLS]", "[REGISTER 0]", "[REGISTER 1]"),
    ),
    "Beit": (hf.BeitConfig(**VISION, use_relative_position_bias=True), ("[CLS]",)),
    "SiglipVision": (hf.SiglipVisionConfig(**VISION), ()),
    "CLIPVision": (hf.CLIPVisionConfig(**VISION), ("[CLS]",)),
    "ViTMAE": (hf.ViTMAEConfig(**VISION, mask_ratio=0.0), ("[CLS]",)),  # which shuffles the patches
    "Yolos": (
        hf.YolosConfig(**VISION | {"image_size": [32, 32]}, num_detection_tokens=2),
        ("[CLS]", "[DETECTION 0]", "[DETECTION 1]"),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_patches_and_own_tokens_of_a_transformers_model(name):
    config, own = MODELS[name]
    run = transformers_model(name, config)
    inputs = assert_is_grid(lambda pixels: run(pixel_values=pixels), image(), 4, 4)
    assert tuple(inputs.key_tokens[i] for i in inputs.special_keys) == own
    assert inputs.special_keys == inputs.special_queries
    assert len(inputs.key_tokens) == 16 + len(own)


def test_an_image_of_another_size_than_the_config_has_a_grid_of_its_own():
    run = transformers_model("ViT", hf.ViTConfig(**VISION))
    assert_is_grid(lambda pixels: run(pixel_values=pixels, interpolate_pos_encoding=True), image(48, 16), 6, 2)
    # As many patches as the square of the config.
    assert_is_grid(lambda pixels: run(pixel_values=pixels, interpolate_pos_encoding=True), image(16, 64), 2, 8)


@pytest.mark.parametrize(
    ("options", "size", "grid", "patch", "own"),
    [
        ({"dynamic_img_size": True}, (64, 96), (4, 6), (16, 16), ("[CLS]",)),
        ({"dynamic_img_size": True}, (32, 128), (2, 8), (16, 16), ("[CLS]",)),
        ({"dynamic_img_size": True, "dynamic_img_pad": True}, (50, 90), (4, 6), (16, 16), ("[CLS]",)),
        ({"patch_size": (16, 8)}, (64, 64), (4, 8), (16, 8), ("[CLS]",)),
        ({"class_token": False, "global_pool": "avg"}, (64, 64), (4, 4), (16, 16), ()),
        ({"reg_tokens": 2, "no_embed_class": True}, (64, 64), (4, 4), (16, 16), ("[CLS]", "[REG 0]", "[REG 1]")),
    ],
)
def test_patches_and_own_tokens_of_timm(options, size, grid, patch, own):
    model = import_timm().models.vision_transformer.VisionTransformer(**TIMM | options).eval()
    inputs = assert_is_grid(partial(seeded_capture, model), image(*size), *grid, patch)
    assert tuple(inputs.key_tokens[i] for i in inputs.special_keys) == own


def test_a_hybrid_has_the_grid_of_its_last_convolution():
    timm = import_timm()
    stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    stem.num_features = 8
    embed = partial(timm.layers.HybridEmbed, backbone=stem, feature_size=(16, 16))
    model = timm.models.vision_transformer.VisionTransformer(**TIMM | {"patch_size": 4}, embed_layer=embed).eval()
    # The first convolution looks one pixel beyond the left and the top, and two pixels on: half a pixel is between.
    box = (-1 / 128, -1 / 128, 127 / 128, 127 / 128)
    assert capture(model, image(64, 64))[0].inputs.grids == (PatchGrid(4, 4, tuple(range(1, 17)), box),)


def test_keys_can_be_patches_of_another_grid_than_queries():
    config = hf.SegformerConfig(depths=[1] * 4, hidden_sizes=[8, 16, 32, 32], num_attention_heads=[1, 2, 4, 4])
    inputs = capture(hf.SegformerModel(config), pixel_values=image(64, 96))[0].inputs
    (queries,), (keys,) = inputs.query_grids, inputs.key_grids
    assert (queries.rows, queries.columns, queries.positions) == (16, 24, tuple(range(16 * 24)))
    assert (keys.rows, keys.columns, keys.positions) == (2, 3, tuple(range(6)))
    assert keys.box == queries.box == pytest.approx((-1.5 / 96, -1.5 / 64, 94.5 / 96, 62.5 / 64))


def test_in_a_row_with_a_text_only_the_image_is_patches():
    model, states = hf.ViltModel(hf.ViltConfig(**VISION, vocab_size=100)).eval(), []
    model.encoder.layer[0].register_forward_pre_hook(lambda module, args: states.append(args[0][0]))
    pixels = image(32, 64)
    painted = pixels.clone()
    painted[:, :, 8:16, 40:48] = 3  # the patch 1·5
    inputs, _ = (
        seeded_capture(model, input_ids=torch.tensor([[3, 4, 5]]), pixel_values=one)[0].inputs
        for one in (pixels, painted)
    )
    (position,) = (states[0] != states[1]).any(-1).nonzero()[:, 0].tolist()
    assert (inputs.grids[0].rows, inputs.grids[0].columns) == (4, 8)
    assert inputs.grids[0].positions[1 * 8 + 5] == position
    assert inputs.key_tokens[position] == "1·5"
    assert inputs.key_tokens[:4] == ("0", "1", "2", "[CLS]")
    assert inputs.special_keys == (3,)


def llava(count, tokens=None):
    vision = hf.CLIPVisionConfig(**VISION)
    text = hf.LlamaConfig(**TEXT, num_key_value_heads=4)
    config = hf.LlavaConfig(vision_config=vision, text_config=text, image_token_id=99, vision_feature_layer=-1)
    model = hf.LlavaForConditionalGeneration(config)
    ids = torch.tensor([[1, *([99] * 16 + [5]) * count]])
    return ids, capture(model, input_ids=ids, pixel_values=image(count=count), tokens=tokens)


def test_patches_in_a_text_stand_where_the_model_puts_them():
    ids, trace = llava(1, tokens=("a", *["<image>"] * 16, "b"))
    places = tuple((ids[0] == 99).nonzero()[:, 0].tolist())
    for layer in (layer for layer in trace if layer.id.stack == "text"):
        assert layer.inputs.grids == (PatchGrid(4, 4, places),)
        assert (layer.inputs.key_tokens[0], *layer.inputs.key_tokens[-2:]) == ("a", "3·3", "b")
        assert layer.inputs.special_keys == ()
    assert trace[0].inputs.key_tokens[:2] == ("[CLS]", "0·0")


def test_two_images_in_a_text_are_two_grids():
    _, trace = llava(2)
    first, second = trace[-1].inputs.grids
    assert (first.image, second.image) == (0, 1)
    assert (first.positions, second.positions) == (tuple(range(1, 17)), tuple(range(18, 34)))
    assert trace[-1].inputs.key_tokens[:2] == ("0", "0:0·0")
    assert trace[-1].inputs.key_tokens[17:19] == ("17", "1:0·0")
    assert trace[0].inputs.key_tokens[:2] == ("[CLS]", "0:0·0")


def test_a_text_as_long_as_the_image_beside_it_stays_a_text():
    clip = hf.CLIPModel(hf.CLIPConfig(text_config=TEXT, vision_config=VISION))
    words = tuple(f"w{i}" for i in range(17))
    trace = capture(clip, input_ids=torch.full((1, 17), 3), pixel_values=image(), tokens=words)
    for layer in trace:
        assert (layer.inputs.grids == ()) == (layer.id.stack == "text")
        assert (layer.inputs.key_tokens == words) == (layer.id.stack == "text")


def test_a_text_that_looks_at_an_image_has_its_patches_as_keys():
    decoder = hf.BertLMHeadModel(hf.BertConfig(**TEXT, is_decoder=True, add_cross_attention=True))
    model = hf.VisionEncoderDecoderModel(encoder=hf.ViTModel(hf.ViTConfig(**VISION)), decoder=decoder)
    trace = capture(model, pixel_values=image(), decoder_input_ids=torch.full((1, 17), 3))
    (cross, *_) = (layer for layer in trace if layer.kind == "cross")
    assert (cross.inputs.query_grids, cross.inputs.key_grids) == ((), (PatchGrid(4, 4, tuple(range(1, 17))),))
    assert cross.inputs.query_tokens == tuple(map(str, range(17)))
    assert (cross.inputs.special_queries, cross.inputs.special_keys) == ((), (0,))


def test_dropped_patches_are_no_grid():
    masked = hf.ViTMAEModel(hf.ViTMAEConfig(**VISION, mask_ratio=0.75))
    for layer in seeded_capture(masked, pixel_values=image()):
        assert layer.inputs.grids == ()
        assert layer.inputs.key_tokens == tuple(map(str, range(layer.inputs.keys)))


class Mixer(nn.Module):
    """Attention to patches that are averaged by fours, or shifted and added."""

    def __init__(self, change):
        super().__init__()
        self.embed, self.change = nn.Conv2d(3, 8, 8, 8), change
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, pixels):
        tokens = self.change(self.embed(pixels).flatten(2).transpose(1, 2))
        return self.attention(tokens, tokens, tokens)[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda tokens: nn.functional.avg_pool1d(tokens.mT, 4).mT,
        lambda tokens: tokens + tokens.roll(1, dims=1),
        lambda tokens: torch.einsum("bnd,nm->bmd", tokens, torch.ones(16, 16)),
        lambda tokens: tokens.sort(dim=1).values,
        lambda tokens: torch.cat([tokens, tokens], dim=1),
    ],
    ids=["pooled", "shifted and added", "mixed", "sorted", "twice"],
)
def test_tokens_of_several_patches_are_numbered(change):
    inputs = capture(Mixer(change), image())[0].inputs
    assert inputs.grids == ()
    assert inputs.key_tokens == tuple(map(str, range(inputs.keys)))


@pytest.mark.parametrize(
    ("change", "first"),
    [
        (lambda tokens: tokens.flip(1), 15),
        (lambda tokens: tokens[:, torch.arange(16).roll(2)], 2),
        (lambda tokens: torch.stack(tokens.unbind(1), dim=1), 0),
        (lambda tokens: tokens.unflatten(1, (4, 4)).transpose(1, 2).flatten(1, 2), 0),
    ],
    ids=["flipped", "rolled", "stacked", "by columns"],
)
def test_patches_in_another_order_keep_their_places(change, first):
    inputs = assert_is_grid(partial(capture, Mixer(change)), image(), 4, 4)
    assert inputs.grids[0].positions[0] == first


@pytest.mark.parametrize("written", [0, torch.zeros(8)], ids=["number", "tensor"])
def test_what_is_written_over_a_patch_is_a_patch_no_longer(written):
    def change(tokens):
        tokens = tokens.clone()
        tokens[:, 3] = written
        return tokens

    assert capture(Mixer(change), image())[0].inputs.grids == ()


def test_a_key_that_is_added_stands_beside_the_patches():
    model = Mixer(lambda tokens: tokens)
    model.attention = nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True)
    inputs = capture(model, image())[0].inputs
    assert inputs.key_grids == inputs.query_grids == (PatchGrid(4, 4, tuple(range(16))),)
    assert (inputs.key_tokens[-2:], inputs.special_keys) == (("3·3", "[bias]"), (16,))


def test_a_convolution_of_the_models_own_tokens_is_no_image():
    class Learned(Mixer):
        def __init__(self):
            super().__init__(lambda tokens: tokens)
            self.image_tokens = nn.Parameter(torch.randn(1, 3, 32, 32))

        def forward(self, pixels):
            return super().forward(self.image_tokens)

    assert capture(Learned(), image())[0].inputs.grids == ()


def test_two_images_in_one_forward_have_their_own_grids():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.attention = nn.Conv2d(3, 8, 8, 8), nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, left, right):
            left, right = (self.embed(one).flatten(2).transpose(1, 2) for one in (left, right))
            return self.attention(left, right, right)[0]

    inputs = capture(Pair(), image(32, 16), image(16, 48))[0].inputs
    assert inputs.query_grids == (PatchGrid(4, 2, tuple(range(8))),)
    assert inputs.key_grids == (PatchGrid(2, 6, tuple(range(12)), image=1),)


def test_each_image_of_a_batch_and_each_forward_pass():
    model = import_timm().models.vision_transformer.VisionTransformer(**TIMM, dynamic_img_size=True)
    with capturing(model, example=1) as traces:
        for size in ((64, 96), (32, 128)):
            model(image(*size, count=2)).sum().backward()
    assert [(trace[-1].inputs.grids[0].rows, trace[-1].inputs.grids[0].columns) for trace in traces] == [(4, 6), (2, 8)]
