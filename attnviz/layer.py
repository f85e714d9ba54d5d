"""One attention layer of one example."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from jaxtyping import Float, Real
from torch import Tensor

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import dimensions
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import _, current_language, language, option_name, value_error
from attnviz.inputs import MapAxes, PatchGrid
from attnviz.mechanism import Mechanism, Pick, picked_positions


@dataclass(frozen=True, eq=False)
class WeightsOnly(MapAxes):
    """The weights of all heads of one layer, where there are no queries and keys to compute them from.

    Weights are NaN where not allowed. They may be of any type of real numbers, and are not copied. Raises ValueError if
    there are none, if one is infinite, or if tokens are of another number.

    Example:
        >>> import torch
        >>> weights = WeightsOnly(torch.eye(2)[None], ("it", "is"), ("it", "is"))
        >>> weights, weights.heads
        (WeightsOnly(1 × 2 × 2), 1)
    """

    weights: Real[Tensor, "heads queries keys"]
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()
    query_ids: tuple[int, ...] = ()
    key_ids: tuple[int, ...] = ()
    query_grids: tuple[PatchGrid, ...] = ()
    key_grids: tuple[PatchGrid, ...] = ()

    def __post_init__(self) -> None:
        weights = self._set_plain("weights", self.tensors["weights"])
        if weights.ndim != 3 or 0 in weights.shape:
            raise value_error(
                "Weights must have 3 axes (heads, queries, keys), none of them empty; their shape is {shape}.",
                shape=dimensions(weights.shape),
            )
        self._check_numbers("weights", weights)
        self._check_axes(*weights.shape[1:])

    def __repr__(self) -> str:
        return f"WeightsOnly({dimensions(self.tensors['weights'].shape)})"

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {"weights": vars(self)["weights"]}

    def _check_numbers(self, name: str, array: Tensor) -> None:
        """Raises ValueError if a number is infinite."""
        if bool(array.isinf().any()):
            raise value_error("These weights hold infinity, so they are scores. Apply softmax to them first.")

    def maps(self, heads: slice | list[int], rows: slice | list[int]) -> Float[Tensor, "heads rows keys"]:
        return self.weights[:, rows][heads].float()


@dataclass(frozen=True, eq=False)
class FixedAttention:
    """Weights that nothing computes, of the selected heads and query rows."""

    maps: Float[Tensor, "heads rows keys"]  # NaN where not allowed

    @property
    def weights(self) -> Float[Tensor, "heads rows keys"]:
        """The weights, zero where not allowed."""
        return self.maps.nan_to_num(0.0)


@dataclass(frozen=True)
class FixedWeights:
    """The weights of a layer in place of a mechanism, where they are all that is known.

    Example:
        >>> import torch
        >>> FixedWeights()(WeightsOnly(torch.eye(2)[None], ("it", "is"), ("it", "is")), rows=slice(1, 2)).maps
        tensor([[[0., 1.]]])
    """

    def __call__(self, inputs: MapAxes, *, heads: Pick = slice(None), rows: Pick = slice(None)) -> FixedAttention:
        """Returns the weights of the heads and query rows picked by a slice or by positions. Raises ValueError if there
        are queries and keys instead."""
        end_if_unwanted()
        picked = picked_positions(heads, inputs.heads, "head"), picked_positions(rows, inputs.queries, "row")
        return FixedAttention(inputs.maps(*picked))


@dataclass(frozen=True)
class LayerId:
    """Which attention of a model a layer is. Its `str` is the layer's name in menus and links.

    Example:
        >>> str(LayerId("encoder", 0)), str(LayerId("decoder", 1, cross=True))
        ('encoder 0', 'decoder 1 cross')
        >>> str(LayerId("encoder", 1, sub_indices=(2,)))
        'encoder 1.2'
    """

    stack: str = "layer"  # "encoder", "decoder", "vision", …; "layer" where there is only one
    index: int | str | None = None  # counted from 0, or the name of a module without a number
    cross: bool = False
    sub_indices: tuple[int, ...] = ()  # further numbers, where the index alone does not tell two layers apart
    occurrence: int | None = None  # which run of the same module, counted from 0, where it runs several times

    @property
    def number(self) -> str:
        """The index with the sub-indices, such as "1.2"; empty where the layer has no number."""
        return ".".join(map(str, (self.index, *self.sub_indices))) if isinstance(self.index, int) else ""

    def __str__(self) -> str:
        name = self.number or self.index
        parts = [self.stack, *([name] if name else []), *["cross"] * self.cross]
        return " ".join(map(str, parts)) + ("" if self.occurrence is None else f" · {self.occurrence}")


def layer_names(layers: Sequence[LayerId | str]) -> tuple[str, ...]:
    """Returns the names of layers, which are all different.

    Example:
        >>> layer_names([LayerId("encoder", 0), LayerId("encoder", 1), LayerId("encoder", 1)])
        ('encoder 0', 'encoder 1 · 1', 'encoder 1 · 2')
    """
    names = [*map(str, layers)]
    return tuple(name if names.count(name) == 1 else f"{name} · {i}" for i, name in enumerate(names))


def layer_numbers(layers: Sequence[LayerId]) -> tuple[str, ...]:
    """Returns the numbers of layers, or their names where the numbers do not tell them apart.

    Example:
        >>> layer_numbers([LayerId("layer", 0), LayerId("layer", 1)])
        ('0', '1')
    """
    numbers = tuple(layer.number for layer in layers)
    return numbers if len({*numbers} - {""}) == len(numbers) else layer_names(layers)


WEIGHTS_ONLY_REASON = (
    "This layer has only weights, without the queries and keys that they come from: the score, the mask and the "
    "normalizer cannot be changed."
)
BETWEEN = ", head "  # a layer and the number of a head, in an option


def head_option(layer: LayerId | str, head: int) -> str:
    """Returns a head of a layer as an option of menus and links.

    Example:
        >>> head_option(LayerId("encoder", 3), 1)
        'encoder 3, head 1'
    """
    return f"{layer}{BETWEEN}{head}"


def head_name(layer: LayerId | str, head: int | str, code: str | None = None) -> str:
    """Returns the name of a head of a layer on the screen, in a language, by default the current one.

    Example:
        >>> head_name("layer 3", 1), head_name("layer 3", 1, "de")
        ('layer 3, head 1', 'Schicht 3, Kopf 1')
    """
    with language(code or current_language()):
        return _("{layer}, head {head}", layer=option_name(str(layer)), head=head)


def head_option_name(option: str, code: str | None = None) -> str:
    """Returns the name of an option that is a head of a layer or a layer on the screen: as `head_name`, after the
    number by which tables and axes name the head, which one may type in a menu.

    Example:
        >>> head_option_name("layer 3, head 1", "de"), head_option_name("layer 3", "de")
        ('3.1 · Schicht 3, Kopf 1', 'Schicht 3')
        >>> head_option_name("decoder 1 cross, head 3")
        'decoder 1 cross, head 3'
    """
    layer, between, head = option.partition(BETWEEN)
    if not between:
        return option_name(layer, code)
    number = re.fullmatch(r"\w+ ([0-9.]+)", layer)
    return (f"{number[1]}.{head} · " if number else "") + head_name(layer, head, code)


class Kind(StrEnum):
    """Which keys the queries of a layer attend to."""

    SELF = "self"  # the same tokens
    CAUSAL = "causal"  # the same tokens, up to the query
    CROSS = "cross"  # other tokens


class Fidelity(StrEnum):
    """How certain it is that a captured layer has the model's own weights."""

    VERIFIED = "verified"  # recomputed from queries and keys, and compared with the model's own
    UNVERIFIED = "unverified"  # recomputed from queries and keys; the model gives nothing to compare with
    WEIGHTS_ONLY = "weights_only"  # as the model computed them, without queries and keys


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention layer of one example: its inputs and its mechanism, or its weights where these are not known."""

    id: LayerId
    kind: Kind
    inputs: MapAxes  # Inputs, or WeightsOnly
    mechanism: Mechanism | FixedWeights  # the one it was made for; a page may exchange any part of it
    fidelity: Fidelity | None = None  # None where nothing was captured from a model
    locked_reason: str = ""  # why the mechanism cannot be changed, as a sentence; empty where it can
    comparison: str = ""  # what was compared with the model's own and how exactly, as a sentence; empty if nothing was
    leak: str = ""  # which keys have weight although the model's mask meant to forbid them, in sentences

    def __post_init__(self) -> None:
        if isinstance(self.mechanism, FixedWeights) and not self.locked_reason:
            object.__setattr__(self, "locked_reason", WEIGHTS_ONLY_REASON)

    def __repr__(self) -> str:
        heads, queries, keys = self.inputs.heads, self.inputs.queries, self.inputs.keys
        fidelity = f", {self.fidelity}" if self.fidelity else ""
        return f"Layer({self.name}: {self.kind}, {heads} heads, {queries} queries × {keys} keys{fidelity})"

    @cached_property
    def name(self) -> str:
        return str(self.id)

    @property
    def locked(self) -> bool:
        """Whether the mechanism cannot be changed."""
        return bool(self.locked_reason)

    def maps(self, heads: Pick = slice(None), rows: Pick = slice(None)) -> Float[Tensor, "heads rows keys"]:
        """Returns the weights of some heads and queries, by default of all, NaN where not allowed."""
        return self.mechanism(self.inputs, heads=heads, rows=rows).maps

    @property
    def weights(self) -> Float[Tensor, "heads queries keys"] | None:
        """The weights, NaN where not allowed, if there are no queries and keys to compute them from; else None."""
        return self.maps() if isinstance(self.mechanism, FixedWeights) else None

    @property
    def known_mechanism(self) -> Mechanism:
        """The mechanism. Raises ValueError if there are only weights."""
        if isinstance(self.mechanism, FixedWeights):
            raise ValueError(self.locked_reason)
        return self.mechanism

    def updated(self, before: Mechanism | FixedWeights, after: Mechanism | FixedWeights) -> Self:
        """Returns the layer with the parts of `after` that differ from `before`; weights alone stay as they are."""
        own = self.mechanism
        if isinstance(own, FixedWeights) or isinstance(before, FixedWeights) or isinstance(after, FixedWeights):
            return self
        return replace(self, mechanism=own.updated(before, after))
