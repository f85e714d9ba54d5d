"""Which token is which patch of which picture, tile or frame, against what changes where one patch is painted over."""

import re

import pytest
import torch
import transformers as hf
from torch import nn
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

from attnviz.tracing import capture
from attnviz.tracing.image_cells import IN_BLOCKS, input_images
from tests.support.image_models import AS_THEY_ARE, FAMILIES, IMAGE, SEEING, ImageModel, in_blocks, in_text, pixels

OUTPUT = re.compile(r"(attn|attention|self_attention)\S*\.(out_proj|proj|o_proj|dense|projection|projection_layer|wo)$")


def silence(model):
    """Takes what attention writes, and what convolutions read of neighbors, so that each patch stays where it is."""
    for name, parameter in model.named_parameters():
        if re.search("query|key|qkv", name) and parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.2)  # so that a patch changes weights by more than rounding
    for name, module in model.named_modules():
        if OUTPUT.search(name):
            for parameter in module.parameters():
                nn.init.zeros_(parameter)
        if isinstance(module, nn.Conv1d | nn.Conv2d) and module.kernel_size > module.stride:
            middle = torch.zeros_like(module.weight)
            middle[(..., *(size // 2 for size in module.kernel_size))] = 1
            module.weight.data *= middle


def painted(pictures, grid, patch):
    """The pictures with one patch of a grid in other colors, up to the nearest pixel."""
    picture = pictures.clone()
    place = picture[grid.image] if grid.tile is None else picture.flatten(0, -4)[grid.tile]
    height, width = place.shape[-2:]
    sides = [side * size for side, size in zip(grid.place(patch), (width, height) * 2, strict=True)]
    left, top, right, bottom = (max(0, round(side)) for side in sides)
    place[:, top:bottom, left:right] *= -1
    assert not torch.equal(picture, pictures)
    return picture


def changed(side, before, after):
    """The queries or keys that differ. Of a layer that has weights alone, the keys to which most queries give another
    part, compared with what they give to most keys."""
    if hasattr(before, side):
        return {*(getattr(before, side) != getattr(after, side)).any(-1).any(0).nonzero()[:, 0].tolist()}
    log = after.weights.log() - before.weights.log()
    log = torch.where(log.isfinite(), log, torch.nan)
    moved = (log - log.nanmedian(-1, keepdim=True).values).abs()
    return {*((moved > 1e-4).sum((0, 1)) > moved.isfinite().sum((0, 1)) / 2).nonzero()[:, 0].tolist()}


def assert_layouts_are_true(model, family, pictures):
    """Asserts in each layer that of all tokens that are patches one changes with its patch; returns the last grids."""
    layers = capture(model, **family.given(pictures), **family.options)
    repainted = {}
    for number, layer in enumerate(layers):
        sides = {"query": layer.inputs.query_grids, "key": layer.inputs.key_grids}
        for grid in {*sides["query"], *sides["key"]}:
            for patch in {1 % len(grid.positions), 2 * len(grid.positions) // 3}:
                place = grid.image, grid.tile, grid.place(patch)
                if place not in repainted:
                    given = family.given(painted(pictures, grid, patch))
                    repainted[place] = capture(model, **given, **family.options)
                both = layer.inputs, repainted[place][number].inputs
                for side, grids in sides.items():
                    if grid in grids and (side == "key" or hasattr(layer.inputs, side)):
                        patches = {position for one in grids for position in one.positions}
                        expected = {grid.positions[patch]}
                        assert changed(side, *both) & patches == expected, (layer.name, side, grid, patch)
    return layers[-1].inputs.grids


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_a_patch_is_the_token_that_changes_with_it(family: ImageModel):
    model = family.model()
    silence(model)
    for shape, expected in zip(family.shapes, family.grids, strict=True):
        pictures = torch.rand(shape, generator=torch.Generator().manual_seed(1))
        grids = assert_layouts_are_true(model, family, pictures)
        assert [(grid.rows, grid.columns) for grid in grids] == expected


def test_times_of_a_spectrogram_have_their_numbers_as_names() -> None:
    (family,) = (family for family in FAMILIES if family.name == "Whisper")
    cross = capture(family.model(), **family.given(torch.rand(family.shapes[0])))[-1].inputs
    assert cross.key_tokens == tuple(map(str, range(30)))
    left, top, right, bottom = cross.key_grids[0].place(3)
    assert (top, bottom) == (0, 1)
    assert (60 * left, 60 * right) == pytest.approx((5.5, 7.5))  # a convolution of 3 times and a step of 2


MIXING = [family for family in FAMILIES if family.grids == ([],)]


@pytest.mark.parametrize("family", MIXING, ids=[family.name for family in MIXING])
def test_where_patches_are_mixed_no_grid_is_claimed_and_it_is_said(family: ImageModel):
    trace = capture(family.model(), **family.given(torch.rand(family.shapes[0])))
    assert trace.missing == (
        "Which patch of an image each of 4 tokens in the text is, is not known: the model mixes patches, or arranges "
        "them in a way that is not followed here.",
    )
    assert trace[-1].inputs.grids == ()


@pytest.mark.parametrize("size", [(32, 48), (64, 32)])
def test_the_processor_of_glm_4v_gives_patches_in_the_order_of_qwen2_vl(size: tuple[int, int]):
    picture = torch.rand(1, 3, *size)
    own = hf.models.glm4v.image_processing_pil_glm4v.Glm4vImageProcessorPil(patch_size=8, **AS_THEY_ARE)
    given = own([*picture.numpy()], return_tensors="pt", input_data_format="channels_first")
    assert torch.equal(given["pixel_values"], in_blocks(picture)["pixel_values"])


def test_the_models_in_blocks_have_these_processors():
    processors = {IMAGE_PROCESSOR_MAPPING_NAMES[kind]["pil"] for kind in IN_BLOCKS}
    assert processors == {"Qwen2VLImageProcessorPil", "Glm4vImageProcessorPil"}
    verified = {family.sizes["text_config"]["model_type"] for family in FAMILIES if family.given is in_blocks}
    assert verified == {f"{kind}_text" for kind in IN_BLOCKS}


@pytest.mark.parametrize("shape", [[[1, 3, 4]], [[1, 4, 4], [1, 2, 2]], [1, 4, 4], [[0, 4, 4]]])
def test_shapes_that_do_not_fit_the_patches_are_left_to_the_model(shape: list):
    given = {"pixel_values": torch.rand(16, 8), "image_grid_thw": torch.tensor(shape)}
    assert [*input_images(given, hf.Qwen2VLConfig())] == []


def video(frames):
    """What Qwen2-VL is given of a video in which each frame is seen twice."""
    given = in_blocks(frames)
    shape = given["image_grid_thw"][:1].clone()
    shape[0, 0] = len(frames)
    ids = torch.tensor([[5, *[IMAGE - 2] * (len(given["pixel_values"]) // 4), 7]])
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values_videos": given["pixel_values"],
        "video_grid_thw": shape,
        "mm_token_type_ids": 2 * (ids == IMAGE - 2).int(),
    }


def test_each_frame_of_a_video_has_its_grid():
    (family,) = (family for family in FAMILIES if family.name == "Qwen2-VL")
    model = ImageModel("", family.config, family.sizes | {"video_token_id": IMAGE - 2}, auto=family.auto).model()
    silence(model)
    frames, first, painted = torch.rand(2, 3, 32, 48), [], torch.rand(3, 16, 16)
    for changing in (None, 0, 1):
        seen = frames.clone()
        if changing is not None:
            seen[changing, :, :16, 16:32] = painted
        inputs = next(layer for layer in capture(model, **video(seen)) if layer.id.stack == "text").inputs
        grids = inputs.grids
        first.append(inputs)
    assert [(grid.rows, grid.columns, grid.image, grid.tile) for grid in grids] == [(2, 3, 0, 0), (2, 3, 0, 2)]
    for grid, after in zip(grids, first[1:], strict=True):
        assert changed("query", first[0], after) == {grid.positions[1]}


class Embedding(nn.Module):
    """Attention to what becomes of pixels."""

    def __init__(self, embed, width=8):
        super().__init__()
        self.embed = embed
        self.project = nn.LazyLinear(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)

    def forward(self, pixel_values):
        tokens = self.project(self.embed(pixel_values))
        return self.attention(tokens, tokens, tokens)[0]


def by_rearranging(pictures):
    """The pixels of each patch as its features, (pictures, patches, features)."""
    count, channels, height, width = pictures.shape
    cut = pictures.view(count, channels, height // 8, 8, width // 8, 8)
    return cut.permute(0, 2, 4, 3, 5, 1).reshape(count, (height // 8) * (width // 8), -1)


EMBEDDINGS = {
    "rearranged": by_rearranging,
    "unfolded": lambda pictures: nn.functional.unfold(pictures, 8, stride=8).mT,
    "cropped": lambda pictures: nn.functional.unfold(pictures[..., 8:, :], 8, stride=8).mT,
    "larger": lambda pictures: by_rearranging(nn.functional.interpolate(pictures, scale_factor=2)),
    "pooled": lambda pictures: nn.functional.avg_pool2d(pictures, 8).flatten(2).mT,
}


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_patches_that_are_made_without_a_convolution(name: str):
    model = Embedding(EMBEDDINGS[name])
    pictures = torch.rand(1, 3, 32, 48)
    model(pictures)
    family = ImageModel(name, "", {}, pixels)
    grids = assert_layouts_are_true(model, family, pictures)
    rows, columns, top = {"cropped": (3, 6, 0.25), "larger": (8, 12, 0.0)}.get(name, (4, 6, 0.0))
    assert [(grid.rows, grid.columns, grid.box) for grid in grids] == [(rows, columns, (0.0, top, 1.0, 1.0))]


BESIDE = {
    "mean of all": lambda x: x.mean(dim=None),
    "mean of places": lambda x: x.mean((-1, -2), keepdim=True),
    "padded with numbers": lambda x: nn.functional.pad(x, (1, 1), "constant", -9.0),
    "padded by a mirror": lambda x: nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "none of them": lambda x: nn.functional.conv2d(x[:0], torch.ones(1, 3, 2, 2)),
    "without a batch": lambda x: nn.functional.conv2d(x[0], torch.ones(1, 3, 3, 3), None, (2,), padding=1),
    "same size": lambda x: nn.functional.conv2d(input=x, weight=torch.ones(1, 3, 3, 3), padding="same"),
    "all at once": lambda x: nn.functional.conv2d(x, torch.ones(1, 3, *x.shape[2:])),
    "frames": lambda x: nn.functional.conv3d(
        x[:, :, None].expand(-1, -1, 3, -1, -1), torch.ones(1, 3, 2, 2, 2), stride=2
    ),
    "pooled with indices": lambda x: nn.functional.max_pool2d(x, 2, return_indices=True),
    "pooled beyond": lambda x: nn.functional.avg_pool2d(x, 3, ceil_mode=True),
    "no rows": lambda x: nn.functional.linear(x[:0], torch.ones(2, x.shape[-1])),
}


@pytest.mark.parametrize("name", BESIDE)
def test_whatever_else_is_done_with_pixels_changes_no_grid(name: str):
    def embed(pictures):
        BESIDE[name](pictures)
        return by_rearranging(pictures)

    model, pictures = Embedding(embed), torch.rand(1, 3, 32, 48)
    model(pictures)
    (grid,) = capture(model, pixel_values=pictures)[0].inputs.grids
    assert (grid.rows, grid.columns) == (4, 6)


def test_patches_that_are_given_in_an_unknown_order_are_no_grid():
    model = Embedding(nn.Sequential(nn.Conv2d(3, 8, 8), nn.Flatten()))
    patches = torch.rand(12, 3, 8, 8)
    model(patches)
    assert capture(model, pixel_values=patches, example=0)[0].inputs.grids == ()


@pytest.mark.parametrize("size", [(35, 47), (32, 32)])
def test_what_a_convolution_leaves_out_at_the_edges_lies_outside(size: tuple[int, int]):
    model = hf.ViTModel(hf.ViTConfig(**SEEING)).eval()
    given = {"pixel_values": torch.rand(1, 3, *size), "interpolate_pos_encoding": True}
    rows, columns = size[0] // 8, size[1] // 8
    box = (0.0, 0.0, 8 * columns / size[1], 8 * rows / size[0])
    (grid,) = capture(model, given)[0].inputs.grids
    assert (grid.rows, grid.columns, grid.positions) == (rows, columns, tuple(range(1, 1 + rows * columns)))
    assert grid.box == pytest.approx(box)


def test_pictures_of_other_sizes_are_cut_out_of_what_is_padded():
    (family,) = (family for family in FAMILIES if family.name == "Pixtral")
    given = in_text(16)(torch.rand(2, 3, 32, 32))
    given["input_ids"] = torch.tensor([[5, *[IMAGE] * 16, 6, *[IMAGE] * 6, 7]])
    given["attention_mask"] = torch.ones_like(given["input_ids"])
    trace = capture(family.model(), **given, image_sizes=torch.tensor([[32, 32], [16, 24]]))
    for layer in trace:
        first, second = layer.inputs.grids
        assert (first.rows, first.columns, second.rows, second.columns) == (4, 4, 2, 3)
        assert (first.box, second.box, second.image) == ((0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.75, 0.5), 1)
