"""The names of layers, and the tokens of their axes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

    def with_length(self, count: int) -> "AxisTokens":
        """Returns the tokens if there are `count` of them, or else numbers; and the ids if there are `count`."""
        fitting = self if len(self.tokens) == count else AxisTokens(tuple(map(str, range(count))))
        return replace(fitting, ids=self.ids if len(self.ids) == count else ())


@dataclass(frozen=True)
class LayerNames:
    """The names of layers, and the tokens of their axes."""

    modules: dict[nn.Module, str]
    is_encoder_decoder: bool  # the model has an encoder and a decoder, and the tokens are the encoder's
    source: AxisTokens = AxisTokens()
    target: AxisTokens = AxisTokens()  # the decoder's

    def is_cross(self, module: nn.Module) -> bool:
        marked = bool(getattr(module, "is_cross_attention", False))
        return marked or bool(CROSS.search(f"{self.modules[module]} {type(module).__name__}"))

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
        return axes[0].with_length(queries), axes[1].with_length(keys)


def stack(path: str) -> str:
    return next((name for name, words in STACKS.items() if re.search(words, path)), "")


def with_unique_ids(layers: Sequence[tuple[Layer, str]]) -> list[Layer]:
    """Returns layers, given with their modules' paths, with unique ids: by all numbers in the paths, or else by
    order. Layers whose paths say nothing are numbered."""
    numbers = count()
    ids = [replace(layer.id, index=next(numbers)) if layer.id == LayerId() else layer.id for layer, _ in layers]
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
