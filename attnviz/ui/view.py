"""What is looked at: a layer and a head of it, under a mechanism, with the numbers that its pictures are made of."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from attnviz.analysis.downsampling import thumbnails
from attnviz.analysis.head_maps import Aggregate, HeadChoice, Special, head_map, shown_positions
from attnviz.analysis.work import check_heads
from attnviz.figures.sentences import GIVES, GIVES_AT_MOST, GIVES_ON_AVERAGE
from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer
from attnviz.mechanism import Mechanism
from attnviz.sources import Source
from attnviz.ui import cache
from attnviz.ui.color_range import ColorRange

SAYS: dict[HeadChoice, str] = {Aggregate.MEAN: GIVES_ON_AVERAGE, Aggregate.MAXIMUM: GIVES_AT_MOST}
THUMBNAIL_CELLS = 768  # a side of the mosaic has about so many, shared by the heads along it


@dataclass(frozen=True, eq=False)
class View:
    """One choice of what to look at. Making it computes it, and raises ValueError where that cannot be done."""

    source: Source
    layers: Sequence[Layer]
    mechanisms: Sequence[Mechanism]  # one for each layer
    layer: int
    head: HeadChoice
    special: Special
    every: bool  # the mosaic shows all layers, not this one alone
    colors: ColorRange
    weights: Float[np.ndarray, "queries keys"] = field(init=False)
    mosaic: Float[np.ndarray, "heads height width"] = field(init=False)

    def __post_init__(self) -> None:
        layers, mechanisms = [self.layers[i] for i in self.beside], [self.mechanisms[i] for i in self.beside]
        check_heads(layers, mechanisms)
        size = THUMBNAIL_CELLS // (max(self.heads, len(layers)) if self.every else 6)
        made = {
            "weights": self._weights(),
            "mosaic": cache.once(
                lambda: thumbnails(layers, mechanisms, size, self.special).numpy(),
                *(self.source, self.special, self.beside, mechanisms),
            ),
        }
        for name, array in made.items():
            object.__setattr__(self, name, array)

    def _weights(self) -> Float[np.ndarray, "queries keys"]:
        mechanism = self.mechanisms[self.layer]
        return head_weights(self.source, self.layers, self.layer, mechanism, self.head, self.special)

    @property
    def beside(self) -> list[int]:
        """The layers in the mosaic: this one, or all of its kind that have as many heads, queries and keys."""
        like = [fitting(layer) for layer in self.layers]
        return [i for i, one in enumerate(like) if i == self.layer or (self.every and one == like[self.layer])]

    @property
    def heads(self) -> int:
        return self.layers[self.layer].inputs.heads

    @property
    def queries(self) -> list[int]:
        """The positions of the rows."""
        inputs = self.layers[self.layer].inputs
        return shown_positions(inputs.queries, inputs.special_queries, self.special)

    @property
    def keys(self) -> list[int]:
        """The positions of the columns."""
        inputs = self.layers[self.layer].inputs
        return shown_positions(inputs.keys, inputs.special_keys, self.special)

    @property
    def query_tokens(self) -> list[str]:
        return [self.layers[self.layer].inputs.query_tokens[i] for i in self.queries]

    @property
    def key_tokens(self) -> list[str]:
        return [self.layers[self.layer].inputs.key_tokens[i] for i in self.keys]

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """What the rows and the columns of the weights are called."""
        return self.query_tokens, self.key_tokens

    @property
    def largest(self) -> float:
        """The weight at the end of the color scale."""
        return self.colors.end([self.weights], [self.mosaic])

    @property
    def says(self) -> str:
        return SAYS.get(self.head, GIVES)

    @property
    def title(self) -> str:
        return title(self.layers[self.layer], self.head)


def title(layer: Layer, head: HeadChoice) -> str:
    """What a head of a layer, or of several as one, is called."""
    return f"{layer.name}, {f'head {head}' if isinstance(head, int) else f'{head} of heads'}"


def fitting(layer: Layer) -> tuple[object, ...]:
    """What is the same of layers that fit into one mosaic: the stack, the kind, and how much there is to look at."""
    inputs = layer.inputs
    sizes = (inputs.heads, inputs.queries, inputs.keys, len(inputs.special_queries), len(inputs.special_keys))
    return layer.id.stack, layer.kind is Kind.CROSS, *sizes


def head_weights(
    source: Source, layers: Sequence[Layer], layer: int, mechanism: Mechanism, head: HeadChoice, special: Special
) -> Float[np.ndarray, "queries keys"]:
    """The weights of one head of a layer, or of several as one, computed once for all who ask."""
    check_heads([layers[layer]], [mechanism])
    return cache.once(
        lambda: head_map(layers[layer].inputs, mechanism, head, special).numpy(),
        *(source, special, layer, mechanism, head),
    )


def tokens_stamp(inputs: Inputs) -> str:
    """What a zoom belongs to: these tokens, whatever is computed of them."""
    return str(zlib.crc32("\0".join((*inputs.query_tokens, "", *inputs.key_tokens)).encode(errors="replace")))
