"""What libraries compute for empty rows, and other effects of how they mask.

Masking before softmax has four implementations, which agree on every row with an allowed key (except that a finite fill
leaks), and differ on empty rows.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.base.language import value_error

EmptyRowName = Literal["zeros", "NaN", "uniform", "finite fill"]


@dataclass(frozen=True)
class EmptyRowConvention:
    """One way of masking, and its result for an empty row."""

    name: EmptyRowName
    masking: str  # how masked scores are treated
    result: str  # what an empty row becomes
    libraries: str  # who does so


EMPTY_ROW_CONVENTIONS = (
    EmptyRowConvention(
        "zeros",
        "a masked score is −∞, and a row of nothing but −∞ is set to 0",
        "weight 0 on every key, so the output is the zero vector",
        "PyTorch's scaled_dot_product_attention and FlexAttention, FlashAttention from 2.1, attnviz",
    ),
    EmptyRowConvention(
        "NaN",
        "a masked score is −∞, and softmax is applied as it is",
        "NaN on every key (0/0), which spreads to all that is computed from it",
        "any plain softmax after masked_fill(−inf); PyTorch's nn.MultiheadAttention with need_weights=True",
    ),
    EmptyRowConvention(
        "uniform",
        "the most negative finite number is added to a masked score, in which the score itself is lost",
        "the same weight on every key, those past the mask and padding included",
        "Hugging Face transformers' eager attention (torch.finfo(dtype).min); the same follows where scores are "
        "replaced by one number, as by −1e4 in its first GPT",
    ),
    EmptyRowConvention(
        "finite fill",
        "a number such as −10000 or −100 is added to a masked score, which remains",
        "the softmax of the raw scores as if nothing were masked, up to rounding",
        "Swin (−100), BigBird's block-sparse attention and MarkupLM (−10000), in Hugging Face transformers",
    ),
)


def masked_softmax(
    scores: Float[Tensor, "*batch queries keys"],
    allowed: Bool[Tensor, "#*batch queries keys"],
    convention: EmptyRowName,
    fill: float = -10000.0,
) -> Float[Tensor, "*batch queries keys"]:
    """The softmax weights of scores (before the mask) as libraries of that convention compute them, in float32.

    `fill` is what "finite fill" adds to a masked score. It leaves e^fill of a masked key's share: with −10000
    nothing, while with −100 a masked score some 100 above the rest gets through. From about −1e9 on
    the score is lost in rounding, and "finite fill" becomes "uniform".

    Raises ValueError for an unknown convention, and for a fill that is not finite and negative.

    Example:
        >>> scores, allowed = torch.tensor([[1.0, 1.0]]), torch.tensor([[False, False]])
        >>> masked_softmax(scores, allowed, "zeros"), masked_softmax(scores, allowed, "uniform")
        (tensor([[0., 0.]]), tensor([[0.5000, 0.5000]]))
    """
    if convention == "finite fill" and not -math.inf < fill < 0:
        raise value_error("A finite fill is a number below 0, such as −10000 or −100; it got {fill}.", fill=fill)
    fills = {"zeros": -math.inf, "NaN": -math.inf, "uniform": torch.finfo(torch.float32).min, "finite fill": fill}
    if convention in fills:
        weights = torch.softmax(scores.float() + torch.where(allowed, 0.0, fills[convention]), -1)
        return weights.masked_fill(~allowed.any(-1, keepdim=True), 0) if convention == "zeros" else weights
    names = ", ".join(each.name for each in EMPTY_ROW_CONVENTIONS)
    raise value_error(
        "There is no convention {convention} for empty rows. Choose one of {names}.",
        convention=repr(convention),
        names=names,
    )
