"""The names of layers, and the tokens of their axes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import accumulate, count, groupby
from operator import itemgetter

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnviz.base.cached_property import cached_property
from attnviz.base.token_texts import TokenTexts, token_names
from attnviz.inputs import PatchGrid
from attnviz.layer import Kind, Layer, LayerId
from attnviz.tracing.cached_keys import CachedKeys
from attnviz.tracing.forward_arguments import ForwardArguments

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
    special: tuple[int, ...] = ()  # positions of those that do not stand for text
    ids: tuple[int, ...] = ()
    grids: tuple[PatchGrid, ...] = ()

    def with_length(self, count: int, first: int = 0) -> "AxisTokens":
        """Returns the tokens if there are `count` of them, or else numbers, counted from `first`; and the ids if there
        are `count`."""
        fitting = self if len(self.tokens) == count else AxisTokens(tuple(map(str, range(first, first + count))))
        return replace(fitting, ids=self.ids if len(self.ids) == count else ())

    def with_grids(self, grids: tuple[PatchGrid, ...]) -> "AxisTokens":
        """Returns the tokens with the grids of their patches, which are named where they have one name, that of a
        placeholder in a text, or numbers."""
        tokens, positions = self.tokens, [position for grid in grids for position in grid.positions]
        is_numbered = all(tokens[position] == str(position) for position in positions)
        if is_numbered or len({tokens[position] for position in positions}) == 1:
            for number, grid in enumerate(grids):
                tokens = grid.named(tokens, f"{number}:" if len(grids) > 1 else "")
        return replace(self, tokens=tokens, grids=grids)

    def of_chunk(self, layer: Layer, end: int) -> Layer:
        """Returns a layer with those of the tokens that it reads, up to one."""
        first = end - layer.inputs.queries
        tokens, ids = self.tokens[first:end], self.ids[first:end]
        special = tuple(place - first for place in self.special if first <= place < end)
        named = {"query_tokens": tokens, "query_ids": ids, "special_queries": special}
        named |= {"key_tokens": tokens, "key_ids": ids, "special_keys": special}
        return replace(layer, inputs=layer.inputs.with_tokens(**named))

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
    ids: Tensor | None = None  # of all sequences of those that a cache grows by
    texts: Callable[[tuple[int, ...]], tuple[str, ...]] = lambda ids: ()  # the tokens of ids, where they have names
    past: int | None = None  # tokens in the cache that the model is called with; None without one
    cached: dict[nn.Module, CachedKeys] = field(default_factory=dict)  # what attention gets from it in this forward
    unnamed: dict[nn.Module, tuple[int, int]] = field(default_factory=dict)  # keys without names, of how many
    arguments: ForwardArguments | None = None  # what the model is called with
    example: int = 0  # of these

    @classmethod
    def from_arguments(
        cls,
        modules: dict[nn.Module, str],
        is_encoder_decoder: bool,
        arguments: ForwardArguments,
        example: int,
        tokens: TokenTexts = (),
        decoder_tokens: TokenTexts = (),
        special: Sequence[int] = (),
        decoder_special: Sequence[int] = (),
    ) -> "LayerNames":
        """Returns the names for a forward pass. What makes names of token ids does so for a decoder, too."""
        decoder_tokens = decoder_tokens or (tokens if callable(tokens) else ())
        ids, decoder_ids = (arguments.ids(name, example) for name in ("input_ids", "decoder_input_ids"))
        growing = arguments.by_name.get("decoder_input_ids" if is_encoder_decoder else "input_ids")
        texts = decoder_tokens if is_encoder_decoder else tokens
        return cls(
            modules,
            is_encoder_decoder,
            AxisTokens(token_names(tokens, ids), tuple(special), ids),
            AxisTokens(token_names(decoder_tokens, decoder_ids), tuple(decoder_special), decoder_ids),
            growing.detach().cpu() if isinstance(growing, Tensor) and growing.ndim == 2 else None,
            cache(partial(token_names, texts)) if callable(texts) else lambda ids: (),
            arguments.past_length(),
            arguments=arguments,
            example=example,
        )

    def is_cross(self, module: nn.Module) -> bool:
        marked = bool(getattr(module, "is_cross_attention", False)) or module in self._cross_modules
        return marked or bool(CROSS.search(f"{self.modules[module]} {type(module).__name__}"))

    @cached_property
    def _cross_modules(self) -> set[nn.Module]:
        """The attention to the encoder's output in torch's decoder layers."""
        return {layer.multihead_attn for layer in self.modules if isinstance(layer, nn.TransformerDecoderLayer)}

    def continues_cache(self, module: nn.Module, queries: int, keys: int) -> bool:
        """Returns whether these keys are the tokens of a cache, and the queries come after them."""
        if self.is_cross(module) or not self.is_of_decoder(stack(self.modules[module])):
            return False
        cached = self.cached.get(module)
        is_longer = queries != keys and (cached is not None or self.past is not None)
        return is_longer or (cached is not None and cached.own.start > 0)

    def is_of_decoder(self, name: str) -> bool:
        """Returns whether the queries in a stack of layers are tokens of the text that a cache grows by."""
        return name not in ("vision", "audio") and (name == "decoder" or not self.is_encoder_decoder)

    def read_keys(self, module: nn.Module, keys: int) -> Bool[Tensor, " keys"]:
        """Returns which keys of a layer are read; all of them, where it is not known."""
        name, is_cross = stack(self.modules[module]), self.is_cross(module)
        if self.arguments is None or name in ("vision", "audio") or (is_cross and not self.is_encoder_decoder):
            return torch.ones(keys, dtype=torch.bool)
        try:
            return self.arguments.read(
                keys, self.is_encoder_decoder and name == "decoder" and not is_cross, self.example
            )
        except ValueError:  # of a mask for other positions
            return torch.ones(keys, dtype=torch.bool)

    def match_cache(self, module: nn.Module, key: Tensor) -> None:
        """Forgets what is known of a cache if these are other keys (sequences, heads, keys, width) than those that it
        gave. Layers may share the keys of another one."""
        shared = (one for one in self.cached.values() if one.key.data_ptr() == key.data_ptr())
        cached = self.cached.get(module) or next(shared, None)
        if cached and cached.key.shape == key.shape and not torch.equal(cached.key.to(key), key):
            self.cached.pop(module, None)
        elif cached:
            self.cached[module] = cached

    def layer_id(self, module: nn.Module) -> LayerId:
        """Returns the id of a module's layer."""
        return layer_id(self.modules[module], is_cross=self.is_cross(module))

    def axes(self, module: nn.Module, queries: int, keys: int) -> tuple[AxisTokens, AxisTokens]:
        """Returns the tokens of the queries and of the keys."""
        name, cross = stack(self.modules[module]), self.is_cross(module)
        if self.continues_cache(module, queries, keys):
            return self._cached_axes(module, queries, keys)
        first = 0
        if cross and self.is_of_decoder(name):  # its queries may be those of attention that continues a cache
            first = next((one.own.start for one in self.cached.values()), self.past or 0)
        own = self._tokens_of(name)
        return own.with_length(queries, first), (self.source if cross and own is self.target else own).with_length(keys)

    def _tokens_of(self, name: str) -> AxisTokens:
        """Returns the tokens that a stack of layers reads."""
        if name in ("vision", "audio"):
            return AxisTokens()
        return self.target if name == "decoder" and self.is_encoder_decoder else self.source

    def with_chunks(self, layers: Sequence[tuple[Layer, str]]) -> list[tuple[Layer, str]]:
        """Returns layers, given with their modules' paths, with the tokens of chunks: of calls of one module, one after
        another, that attend to themselves and have together as many tokens as it reads, as CANINE's."""
        named: list[tuple[Layer, str]] = []
        for path, calls in groupby(layers, itemgetter(1)):
            chunks = [layer for layer, _ in calls]
            axis = self._tokens_of(stack(path))
            axis = axis.with_length(len(axis.tokens) or len(axis.ids))
            ends = [*accumulate(layer.inputs.queries for layer in chunks)]
            if len(chunks) > 1 and ends[-1] == len(axis.tokens) and all(map(_is_of_itself, chunks)):
                chunks = [axis.of_chunk(layer, end) for layer, end in zip(chunks, ends, strict=True)]
            named += [(layer, path) for layer in chunks]
        return named

    def _cached_axes(self, module: nn.Module, queries: int, keys: int) -> tuple[AxisTokens, AxisTokens]:
        """Returns the tokens of queries that continue a cache, and of its keys: numbers where they are not known, and
        counted on in free places."""
        cached = self.cached.get(module)
        if cached is None or (len(cached.own), len(cached.positions)) != (queries, keys):
            cached = CachedKeys.unknown(queries, keys, keys - queries if self.past is None else self.past)
        axis = self.target if self.is_encoder_decoder else self.source
        labels = axis.tokens if len(axis.tokens) == cached.own.stop else ()
        names = self._names(cached.ids, cached.positions, labels)
        self.unnamed[module] = names.count(None), keys
        texts = tuple(str(place) if name is None else name for place, name in enumerate(names))
        return (
            AxisTokens(tuple(map(str, self._names(cached.own_ids, cached.own, labels))), ids=_known(cached.own_ids)),
            AxisTokens(texts, ids=_known(cached.ids) if None not in cached.ids else ()),
        )

    def _names(
        self, ids: Sequence[int | None], positions: Sequence[int | None], labels: tuple[str, ...]
    ) -> list[str | None]:
        """Returns the names of tokens: labels of all positions, or what their ids stand for, or else their positions;
        None where those are not known."""
        if len(labels) == len(positions):
            return [*labels]
        texts = iter(self.texts(_known(ids)))
        names: list[str | None] = []
        for id, position in zip(ids, positions, strict=True):
            name = None if id is None else next(texts, None)
            if name is None and position is not None:
                name = labels[position] if position < len(labels) else str(position)
            names.append(name)
        return names


def _is_of_itself(layer: Layer) -> bool:
    return layer.kind is not Kind.CROSS and layer.inputs.queries == layer.inputs.keys and not layer.inputs.grids


def _known(ids: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(id for id in ids if id is not None)


def layer_id(path: str, *, is_cross: bool | None = None) -> LayerId:
    """Returns the id of the layer of a module, by the first number in its path, or else by its most specific part. If
    it is not known whether its keys are those of other tokens, the path says so.

    Example:
        >>> str(layer_id("model.decoder.layers.3.encoder_attn"))
        'decoder 3 cross'
    """
    specific = [part for part in path.split(".") if part and not GENERIC.search(part)]
    index = next(iter(_numbers(path)), specific[-1] if specific else None)
    return LayerId(stack(path) or "layer", index, bool(CROSS.search(path)) if is_cross is None else is_cross)


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
