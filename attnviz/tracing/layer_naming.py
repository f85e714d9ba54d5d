"""The names of layers, and the tokens of their axes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from torch import nn

from attnviz.layer import Layer, LayerId

CROSS = re.compile(r"cross|enc_?dec_?att|encoder_attn", re.IGNORECASE)
GENERIC = re.compile("att|self|model|coder", re.IGNORECASE)  # parts of a path that do not tell a layer from another
# A part of a module's path says what stack it is in; the first of these that occurs names it.
STACKS = {
    "vision": r"vision|visual|image",
    "audio": r"audio|speech",
    "decoder": r"decoder",
    "text": r"text|language",
    "encoder": r"encoder",
}


@dataclass(frozen=True)
class AxisTokens:
    """The tokens of one axis."""

    tokens: tuple[str, ...] = ()
    special: tuple[int, ...] = ()  # positions of those that are no text
    ids: tuple[int, ...] = ()

    def with_length(self, count: int, first: int = 0) -> "AxisTokens":
        """Returns the tokens if there are `count` of them, or else numbers, counted from `first`; and the ids if there
        are `count`."""
        fitting = self if len(self.tokens) == count else AxisTokens(tuple(map(str, range(first, first + count))))
        return replace(fitting, ids=self.ids if len(self.ids) == count else ())

    def last(self, count: int) -> "AxisTokens":
        """Returns the last tokens and ids. If there are fewer than `count`, numbers follow: caches have free places."""
        known = max(len(self.tokens), len(self.ids))
        first = max(0, known - count)
        names = self.tokens or tuple(map(str, range(known)))
        special = tuple(place - first for place in self.special if place >= first)
        free = tuple(map(str, range(known, count)))
        return AxisTokens((*names[first:], *free), special, self.ids[first:] if known >= count else ())

    def with_added(self, names: tuple[str, ...]) -> "AxisTokens":
        """Returns the tokens and special ones after them, which have no ids."""
        if not names:
            return self
        count = len(self.tokens)
        return AxisTokens((*self.tokens, *names), (*self.special, *range(count, count + len(names))))


@dataclass(frozen=True)
class LayerNames:
    """The names of layers, and the tokens of their axes."""

    modules: dict[nn.Module, str]
    is_encoder_decoder: bool  # the model has an encoder and a decoder, and the tokens are the encoder's
    source: AxisTokens = AxisTokens()
    target: AxisTokens = AxisTokens()  # the decoder's
    past: int | None = None  # tokens in a cache, before the queries; None without a cache
    cached: AxisTokens = AxisTokens()  # these and the queries' own

    def is_cross(self, module: nn.Module) -> bool:
        marked = bool(getattr(module, "is_cross_attention", False)) or module in self._cross_modules
        return marked or bool(CROSS.search(f"{self.modules[module]} {type(module).__name__}"))

    @cached_property
    def _cross_modules(self) -> set[nn.Module]:
        """The attention to the encoder's output in torch's decoder layers."""
        return {layer.multihead_attn for layer in self.modules if isinstance(layer, nn.TransformerDecoderLayer)}

    def continues_cache(self, module: nn.Module, queries: int, keys: int) -> bool:
        """Returns whether these keys are the tokens of a cache, and the queries come after them."""
        name = stack(self.modules[module])
        if self.past is None or queries == keys or self.is_cross(module) or name in ("vision", "audio"):
            return False
        return name == "decoder" or not self.is_encoder_decoder

    def layer_id(self, module: nn.Module) -> LayerId:
        """Returns the id of a module's layer, by the first number in its path, or else by its most specific part."""
        path = self.modules[module]
        specific = [part for part in path.split(".") if part and not GENERIC.search(part)]
        index = next(iter(_numbers(path)), specific[-1] if specific else None)
        return LayerId(stack(path) or "layer", index, self.is_cross(module))

    def axes(self, module: nn.Module, queries: int, keys: int) -> tuple[AxisTokens, AxisTokens]:
        """Returns the tokens of the queries and of the keys."""
        name, cross = stack(self.modules[module]), self.is_cross(module)
        source, target = self.source, self.target if self.is_encoder_decoder else self.source
        axes = (target, source if cross else target) if name == "decoder" else (source, source)
        if name in ("vision", "audio"):
            axes = AxisTokens(), AxisTokens()
        if self.continues_cache(module, queries, keys):
            return axes[0].with_length(queries, self.past or 0), self.cached.last(keys)
        return axes[0].with_length(queries), axes[1].with_length(keys)


def stack(path: str) -> str:
    return next((name for name, words in STACKS.items() if re.search(words, path)), "")


def with_unique_ids(layers: Sequence[tuple[Layer, str]]) -> list[Layer]:
    """Returns layers, given with their modules' paths, with unique ids: by all numbers in the paths, or else by
    order. Layers whose paths say nothing are numbered, or have their modules' names beside others."""
    numbers = count()
    alone = all(layer.id == LayerId() for layer, _ in layers)
    ids = [
        layer.id
        if layer.id != LayerId()
        else replace(layer.id, index=next(numbers) if alone else path.rpartition(".")[2] or None)
        for layer, path in layers
    ]
    longer = [
        replace(one, sub_indices=tuple(_numbers(path)[1:])) if ids.count(one) > 1 else one
        for one, (_, path) in zip(ids, layers, strict=True)
    ]
    if len(set(longer)) > len(set(ids)):
        ids = longer
    unique = [replace(one, occurrence=ids[:i].count(one)) if ids.count(one) > 1 else one for i, one in enumerate(ids)]
    return [replace(layer, id=one) for one, (layer, _) in zip(unique, layers, strict=True)]


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def named_modules(model: nn.Module) -> dict[nn.Module, str]:
    """Returns the path of each module in a model; the first, if there are several."""
    return {module: name for name, module in model.named_modules()}
