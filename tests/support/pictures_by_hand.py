"""The numbers of the lesson about pictures, by transformers' own attention of DINOv2-small."""

import copy
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnviz.models import DINOV2
from attnviz.models.dinov2 import dinov2
from attnviz.models.drawings import DRAWINGS
from attnviz.models.image_inputs import ImageInputs
from attnviz.sources import Model

SUN, RED, BLUE = (1.0, 0.9, 0.5), (0.82, 0.2, 0.2), (0.16, 0.36, 0.75)
SIDE, PATCH, HEADS = 16, 14, 6  # patches along a side, pixels along a patch, heads of a layer
Colors = Float[Tensor, "3 height width"]
Pixels = Bool[Tensor, "height width"]


class Seen(NamedTuple):
    """What the model makes of a picture; [CLS] is the first token."""

    weights: Float[Tensor, "layers heads tokens tokens"]
    vectors: list[Float[Tensor, "tokens width"]]  # before each layer, and after the last one
    values: Float[Tensor, "layers heads tokens width"]


@cache
def eager() -> nn.Module:
    model = copy.deepcopy(dinov2().model)
    model.set_attn_implementation("eager")
    return model


def colors_of(drawing: str) -> Colors:
    """The picture as the model gets it."""
    inputs = dinov2().image_inputs
    assert isinstance(inputs, ImageInputs)
    return inputs.processor.colors(inputs.pixels(Model(name=DINOV2, drawing=drawing).example[2])[0]) / 255


def seen(colors: Colors) -> Seen:
    inputs, values = dinov2().image_inputs, []
    assert inputs is not None
    with torch.no_grad():
        hooks = [
            layer.attention.v_proj.register_forward_hook(lambda _module, _args, out: values.append(out[0]))
            for layer in eager().encoder.layer
        ]
        pixels = inputs.processor.normalized(colors * 255)[None]
        out = eager()(pixel_values=pixels, output_attentions=True, output_hidden_states=True)
        for hook in hooks:
            hook.remove()
    vectors = [*(each[0] for each in out.hidden_states[:-1]), out.last_hidden_state[0]]
    return Seen(
        torch.stack(out.attentions)[:, 0], vectors, torch.stack(values).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    )


def has_color(colors: Colors, color: tuple[float, float, float]) -> Pixels:
    return (colors - torch.tensor(color)[:, None, None]).abs().amax(0) < 0.05


def covered(pixels: Pixels) -> Float[Tensor, " patches"]:
    """The share of each patch that some pixels cover."""
    return pixels.float().unfold(0, PATCH, PATCH).unfold(1, PATCH, PATCH).mean((-1, -2)).flatten()


def token(row: int, column: int) -> int:
    return 1 + SIDE * row + column


def in_gray(colors: Colors, row: int, column: int) -> Colors:
    """With one patch in the mean color of the images that the model knows."""
    gray, inputs = colors.clone(), dinov2().image_inputs
    assert isinstance(inputs, ImageInputs)
    mean = inputs.processor.colors(torch.zeros(3, 1, 1)) / 255
    gray[:, PATCH * row : PATCH * (row + 1), PATCH * column : PATCH * (column + 1)] = mean
    return gray


def what_a_picture_looks_at() -> list[str]:
    """The numbers of the lesson."""
    colors = {name: colors_of(name) for name in DRAWINGS}
    of = {name: seen(each) for name, each in colors.items()}
    sunset, shapes = of["sunset"], of["shapes"]
    sun_head = sunset.weights[11, 2, 0]
    sun = covered(has_color(colors["sunset"], SUN)) >= 0.5

    red, blue = (has_color(colors["shapes"], color) for color in (RED, BLUE))
    below = (torch.arange(SIDE * PATCH) > SIDE * PATCH / 2)[:, None]
    circles, triangle, paper = covered(red) >= 0.5, covered(blue & below) >= 0.5, covered(red | blue) == 0
    exchanged = colors["shapes"].clone()
    exchanged[:, red], exchanged[:, blue] = torch.tensor(BLUE)[:, None], torch.tensor(RED)[:, None]
    heads = shapes.weights[11, :, 0, 1:]
    assert heads[:, circles].sum(-1).argmax() == 2
    assert heads[:, paper].sum(-1).argmax() == 3
    assert heads[1, triangle].sum() > max(heads[1, circles].sum(), heads[1, paper].sum())

    own = sunset.weights[:, :, 0].argmax(-1) == 0
    assert {f"{one.weights[3, 4, 0, 0]:.2f}" for one in of.values()} <= {"0.97", "0.98"}
    sink = shapes.weights[0, 5]
    assert {*sink.argmax(-1).tolist()} == {token(11, 10)}
    longest = [vectors[1:].norm(dim=-1) for one in of.values() for vectors in one.vectors]

    weights, lengths = sunset.weights[10, 5, 0], sunset.values[10, 5].norm(dim=-1)
    assert weights.argmax() == 0
    assert (weights * lengths).argmax() == token(3, 10) == weights[1:].argmax() + 1

    assert sun_head.argmax() == token(7, 10)
    last = sunset.vectors[-1][0]
    sky = colors["sunset"][:, :, :1].expand_as(colors["sunset"])  # a row of it has one color
    without_sun = torch.where(has_color(colors["sunset"], SUN), sky, colors["sunset"])
    changed = (in_gray(colors["sunset"], 7, 10), in_gray(colors["sunset"], 12, 15), without_sun)
    changes = [float((seen(each).vectors[-1][0] - last).norm() / last.norm()) for each in changed]
    patches = len(sun_head) - 1
    return [
        *map(str, (patches, patches + 1, int(sun.sum()), HEADS, 1, 2, 3, int(own.sum()), own.numel())),
        *("7", "10", "12", "15", "11"),  # rows and columns of patches
        f"{sun_head[token(12, 15)]:.3f}",
        *(
            f"{each:.2f}"
            for each in (
                *(sun.sum() / patches, sun_head[1:][sun].sum()),
                *(heads[2, circles].sum(), heads[1, triangle].sum(), heads[3, paper].sum()),
                seen(exchanged).weights[11, 2, 0, 1:][circles].sum(),
                *(sunset.weights[3, 4, 0, 0], sunset.weights[3, 4, 0, 1:].sum()),
                *(sink[:, token(11, 10)].min(), max(each.max() / each.median() for each in longest)),
                *(weights[0], weights[token(3, 10)], lengths[0] / lengths[1:].median()),
                *changes,
            )
        ),
    ]
