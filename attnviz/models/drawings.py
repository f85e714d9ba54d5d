"""Example pictures, drawn by code at any size: colors (3, height, width) from 0 to 1."""

import io
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Drawing: TypeAlias = Literal["sunset", "house and tree", "shapes"]
SUNSET: Drawing = "sunset"


def drawing(height: int, width: int, name: Drawing = SUNSET) -> Float[Tensor, "3 height width"]:
    """Returns an example picture.

    Example:
        >>> drawing(32, 48, "shapes").shape
        torch.Size([3, 32, 48])
    """
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    return DRAWINGS[name](x, y)


@lru_cache(8)
def drawing_file(height: int, width: int, name: Drawing) -> bytes:
    """Returns an example picture as the content of a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    colors = (255 * drawing(height, width, name)).round().byte().permute(1, 2, 0).numpy()
    Image.fromarray(colors).save(file, "PNG")
    return file.getvalue()


def _sunset(x: Tensor, y: Tensor) -> Tensor:
    """A sun in the evening sky above a dark field."""
    sky = torch.stack([0.3 + 0.6 * y, 0.4 + 0.2 * y, 0.8 - 0.5 * y])
    sun = ((x - 0.65) ** 2 + (y - 0.35) ** 2).sqrt() < 0.15
    field = y > 0.75 - 0.05 * (x * 2 * math.pi).sin()
    return _painted(sky, (sun, (1.0, 0.9, 0.5)), (field, (0.1, 0.25, 0.1)))


def _house_and_tree(x: Tensor, y: Tensor) -> Tensor:
    """A house and a tree on a meadow, under a sun."""
    sky = torch.stack([0.55 - 0.1 * (1 - y), 0.72 + 0 * y, 0.9 + 0 * y])
    return _painted(
        sky,
        (y > 0.68, (0.38, 0.6, 0.3)),
        (((x - 0.9) ** 2 + (y - 0.13) ** 2).sqrt() < 0.07, (1.0, 0.93, 0.55)),
        (_box(x, y, 0.22, 0.5, 0.27, 0.78), (0.36, 0.25, 0.16)),
        ((((x - 0.245) / 0.13) ** 2 + ((y - 0.38) / 0.2) ** 2) < 1, (0.15, 0.42, 0.2)),
        (_box(x, y, 0.56, 0.42, 0.86, 0.76), (0.9, 0.85, 0.76)),
        ((y < 0.42) & (y > 0.2 + 1.25 * (x - 0.71).abs()), (0.62, 0.2, 0.17)),
        (_box(x, y, 0.68, 0.56, 0.76, 0.76), (0.4, 0.27, 0.2)),
        (_box(x, y, 0.6, 0.5, 0.66, 0.58), (0.35, 0.5, 0.65)),
    )


def _shapes(x: Tensor, y: Tensor) -> Tensor:
    """Two equal circles, and a square and a triangle of their colors, on paper."""
    paper = torch.full((3, *x.shape), 0.93)
    red, blue = (0.82, 0.2, 0.2), (0.16, 0.36, 0.75)
    return _painted(
        paper,
        (((x - 0.24) ** 2 + (y - 0.26) ** 2).sqrt() < 0.14, red),
        (((x - 0.76) ** 2 + (y - 0.74) ** 2).sqrt() < 0.14, red),
        (_box(x, y, 0.62, 0.14, 0.88, 0.4), blue),
        ((y < 0.88) & (y > 0.6 + 2 * (x - 0.24).abs()), blue),
    )


def _box(x: Tensor, y: Tensor, left: float, top: float, right: float, bottom: float) -> Bool[Tensor, "height width"]:
    return (x > left) & (x < right) & (y > top) & (y < bottom)


def _painted(paper: Tensor, *things: tuple[Tensor, tuple[float, float, float]]) -> Tensor:
    for place, color in things:
        paper = torch.where(place, torch.tensor(color)[:, None, None], paper)
    return paper


DRAWINGS: dict[Drawing, Callable[[Tensor, Tensor], Tensor]] = {
    SUNSET: _sunset,
    "house and tree": _house_and_tree,
    "shapes": _shapes,
}
