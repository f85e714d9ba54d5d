"""Which token is which patch of which picture, tile or frame, against what changes where one patch is painted over."""

import re

import pytest
import torch
from torch import nn

from attnviz.tracing import capture
from tests.support.image_models import FAMILIES, ImageModel

OUTPUT = re.compile(r"(attn|attention|self_attention)\S*\.(out_proj|proj|o_proj|dense|projection_layer|wo)$")


def silence(model):
    """Takes what attention writes in the layers of a picture, so that each patch stays where it is up to the text."""
    for name, module in model.named_modules():
        if OUTPUT.search(name) and not re.search("language_model|text_model|decoder", name):
            for parameter in module.parameters():
                nn.init.zeros_(parameter)


def first_of_each_stack(trace):
    """The layers that are captured first of each stack, by stack; those of windows together."""
    firsts = {}
    for layer in trace:
        firsts.setdefault((layer.id.stack, layer.kind == "cross"), layer.id.index)
    return [layer for layer in trace if firsts[layer.id.stack, layer.kind == "cross"] == layer.id.index]


def painted(pictures, grid, patch):
    """The pictures with one patch of a grid in other colors; its box has to be one of whole pixels."""
    picture = pictures.clone()
    place = picture[grid.image] if grid.tile is None or pictures.ndim < 5 else picture[grid.image, grid.tile]
    if grid.tile is not None and pictures.ndim < 5:
        place = picture[grid.tile]
    height, width = place.shape[-2:]
    sides = [side * length for side, length in zip(grid.place(patch), (width, height) * 2, strict=True)]
    assert sides == pytest.approx([round(side) for side in sides], abs=1e-6)
    left, top, right, bottom = map(round, sides)
    place[:, top:bottom, left:right] = 1 - place[:, top:bottom, left:right]
    return picture


def changed(before, after):
    return {*(before != after).any(-1).any(0).nonzero()[:, 0].tolist()}


def assert_layouts_are_true(model, family, pictures):
    """Asserts that of all tokens that are patches each changes with its own, and no other one does; returns grids."""

    def run(given):
        return first_of_each_stack(capture(model, **family.given(given), **family.options))

    layers, verified = run(pictures), {}
    for number, layer in enumerate(layers):
        sides = {"query": layer.inputs.query_grids, "key": layer.inputs.key_grids}
        verified[layer.name] = layer.inputs.grids
        for grid in layer.inputs.grids:
            for patch in {1 % len(grid.positions), 2 * len(grid.positions) // 3}:
                others = run(painted(pictures, grid, patch))
                assert len(others) == len(layers)
                for side, grids in sides.items():
                    patches = {position for one in grids for position in one.positions}
                    vectors = (getattr(one[number].inputs, side) for one in (layers, others))
                    expected = {grid.positions[patch]} if grid in grids else set()
                    assert changed(*vectors) & patches == expected, (layer.name, side, grid, patch)
    return verified


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_a_patch_is_the_token_that_changes_with_it(family: ImageModel):
    model = family.model()
    silence(model)
    for shape, expected in zip(family.shapes, family.grids, strict=True):
        pictures = torch.rand(shape, generator=torch.Generator().manual_seed(1))
        verified = assert_layouts_are_true(model, family, pictures)
        assert [(grid.rows, grid.columns) for grid in [*verified.values()][-1]] == expected
