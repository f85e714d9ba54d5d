"""Positional encodings: sinusoids and rotary position embeddings."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.language import value_error

Rotary = Literal["none", "half split", "interleaved"]


def rotated(
    vectors: Float[Tensor, "heads tokens d"], convention: Rotary, base: float = 10000.0
) -> Float[Tensor, "heads tokens d"]:
    """Returns queries or keys with rotary position embeddings (Su et al. 2021, "RoFormer").

    Pair i of the numbers of token t is rotated by t / base^(2i/d), so that a dot product of a query and a key depends
    on their distance only. A pair is (i, i + d/2) with "half split", as in GPT-NeoX and in Hugging Face's Llama, and
    (2i, 2i + 1) with "interleaved", as in RoFormer and GPT-J. "none" returns the vectors unchanged. Raises ValueError
    if d is odd.

    Example:
        >>> rotated(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), "half split")
        tensor([[[1.0000, 0.0000],
                 [0.5403, 0.8415]]])
    """
    if convention not in get_args(Rotary):
        raise value_error(
            "Rotary positions are one of {conventions}; {convention} was requested.",
            conventions=", ".join(get_args(Rotary)),
            convention=repr(convention),
        )
    if convention == "none":
        return vectors
    tokens, width = vectors.shape[1:]
    if width % 2:
        raise value_error(
            "Rotary positions turn numbers in pairs, so each head needs an even count of them; "
            "here it is {width}. Choose another number of heads, or no rotary positions.",
            width=width,
        )
    position = torch.arange(tokens, dtype=torch.float64, device=vectors.device)[:, None]
    angle = position / base ** (torch.arange(0, width, 2, device=vectors.device) / width)
    cos, sin = angle.cos().to(vectors.dtype), angle.sin().to(vectors.dtype)
    shape, axis = ((2, -1), -2) if convention == "half split" else ((-1, 2), -1)
    x, y = vectors.unflatten(-1, shape).unbind(axis)
    return torch.stack([x * cos - y * sin, x * sin + y * cos], axis).flatten(-2)


def sinusoids(positions: int, width: int) -> Float[Tensor, "positions width"]:
    """Returns sinusoidal positional encodings: sin and cos of position / 10000^(2i / width), interleaved (Vaswani et
    al. 2017, 3.5).

    Example:
        >>> sinusoids(2, 4)
        tensor([[0.0000, 1.0000, 0.0000, 1.0000],
                [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    angle = torch.arange(positions)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
