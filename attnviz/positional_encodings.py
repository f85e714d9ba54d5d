"""Positional encodings: sinusoids that are added to vectors, and rotations of queries and keys."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

Rotary = Literal["none", "half split", "interleaved"]


def rotated(
    vectors: Float[Tensor, "heads tokens d"], convention: Rotary, base: float = 10000.0
) -> Float[Tensor, "heads tokens d"]:
    """Queries or keys whose pairs of numbers are turned by an angle that grows with the token's position.

    Pair i of token t turns by t / base^(2i/d), so that a dot product of a query and a key depends on where they
    stand only by how far apart they are (Su et al. 2021, "RoFormer"). A pair is (i, i + d/2) by "half split", as
    in GPT-NeoX and in Hugging Face's Llama, and (2i, 2i + 1) by "interleaved", as in RoFormer and GPT-J.
    "none" leaves them as they are. Raises ValueError, in words, when d is odd.
    """
    if convention not in get_args(Rotary):
        raise ValueError(f"Rotary positions are one of {', '.join(get_args(Rotary))}; {convention!r} was asked for.")
    if convention == "none":
        return vectors
    _, tokens, width = vectors.shape
    if width % 2:
        raise ValueError(
            f"Rotary positions turn numbers in pairs, so each head needs an even count of them; here it is {width}. "
            "Choose another number of heads, or no rotary positions."
        )
    position = torch.arange(tokens, dtype=torch.float64, device=vectors.device)[:, None]
    angle = position / base ** (torch.arange(0, width, 2, device=vectors.device) / width)
    cos, sin = angle.cos().to(vectors.dtype), angle.sin().to(vectors.dtype)
    shape, axis = ((2, -1), -2) if convention == "half split" else ((-1, 2), -1)
    x, y = vectors.unflatten(-1, shape).unbind(axis)
    return torch.stack([x * cos - y * sin, x * sin + y * cos], axis).flatten(-2)


def sinusoids(positions: int, width: int) -> Float[Tensor, "positions width"]:
    """Positional encodings: sin and cos of position / 10000^(2i / width), in turn (Vaswani et al. 2017, 3.5)."""
    angle = torch.arange(positions)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
