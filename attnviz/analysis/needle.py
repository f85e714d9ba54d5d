"""Retrieval from a long text: how much of its attention each head gives to a passage that is hidden in it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.downsampling import downsample
from attnviz.base.language import value_error
from attnviz.layer import Layer


@dataclass(frozen=True, eq=False)
class PassageMass:
    """The attention of some queries to a passage, for each head of some layers."""

    layers: Int[Tensor, " heads"]  # indices among the layers
    heads: Int[Tensor, " heads"]
    mass: Float[Tensor, " heads"]  # the mean over the queries of the sum of their weights on the passage
    uniform: Float[Tensor, " heads"]  # the mass if the queries attended to all that the mask allows equally


def passage_mass(layers: Sequence[Layer], queries: slice, keys: slice) -> PassageMass:
    """Returns how much attention the tokens `queries` give to the tokens `keys`, in each head.

    It is exact, and computed in blocks of queries, for texts of any length. Raises ValueError if a slice is empty.

    Example:
        >>> from attnviz.sources import Toy
        >>> layers = Toy("the cat sat").layers()
        >>> found = passage_mass(layers, slice(2, 3), slice(0, 3))
        >>> len(found.mass), bool(found.mass.sub(1).abs().max() < 1e-6)  # a row adds up to 1
        (4, True)
    """
    rows = [
        (index, head, *_masses(layer, head, queries, keys))
        for index, layer in enumerate(layers)
        for head in range(layer.inputs.heads)
    ]
    indices, heads, masses, uniform = zip(*rows, strict=True)
    return PassageMass(torch.tensor(indices), torch.tensor(heads), torch.tensor(masses), torch.tensor(uniform))


def _masses(layer: Layer, head: int, queries: slice, keys: slice) -> tuple[float, float]:
    """Returns the mass of one head on the keys, and the share of the keys among all that its mask allows."""
    whole = downsample(layer.inputs, layer.mechanism, head, cells=(layer.inputs.queries, 1), queries=queries)
    part = downsample(layer.inputs, layer.mechanism, head, cells=(len(whole.queries), 1), queries=queries, keys=keys)
    return float(part.mass.mean()), float((part.allowed / whole.allowed.clamp(min=1)).mean())


def find_passage(tokens: Sequence[str], passage: str) -> slice:
    """Returns the positions of the tokens that a passage of the text stands in; of the last, if it is there twice.

    Tokens are as `inputs.key_tokens` has them: spaces and the ## of word pieces do not count. Raises ValueError if the
    passage is not there.

    Example:
        >>> find_passage(["[CLS]", "a", " light", "##house", " is", " high"], "lighthouse is")
        slice(2, 5, None)
    """
    letters = [_letters(token.removeprefix("##")) for token in tokens]
    first = "".join(letters).rfind(_letters(passage))
    if first < 0 or not passage.strip():
        raise value_error("The text has no passage “{passage}”.", passage=passage)
    ends = torch.tensor([len(one) for one in letters]).cumsum(0)
    last = first + len(_letters(passage))
    return slice(int((ends <= first).sum()), int((ends < last).sum()) + 1)


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if not character.isspace() and character not in "▁Ġ")
