"""The forward passes of a text that a model writes: the first reads the prompt, each later one a token."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.inputs import PatchGrid
from attnviz.layer import Fidelity, FixedWeights, Kind, Layer, LayerId, WeightsOnly
from attnviz.trace import Trace
from attnviz.tracing.encoder_padding import zeros_for_padding
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.growing_layers import ChangedHeads, FirstPass, GrowingLayers
from attnviz.tracing.head_axes import head_counts
from attnviz.tracing.joined_passes import JoinedWeights
from attnviz.tracing.layer_naming import AxisTokens, LayerNames, named_modules
from attnviz.tracing.memory_budget import MemoryBudget, NotCaptured
from attnviz.tracing.optional_transformers import is_encoder_decoder, transformers_models
from attnviz.tracing.refusal import no_attention
from attnviz.tracing.run_changes import Run, changed_modules
from attnviz.tracing.single_capture import evaluating, prepared
from attnviz.tracing.torch_interception import recorded, tracked_modules


class GenerationPasses:
    """The attention of the passes, in layers over all tokens that the model has read.

    The model computes as it would anyway, and others may run it between two passes.
    """

    def __init__(
        self,
        model: nn.Module,
        source: AxisTokens,
        new_tokens: int,
        mask_and_images: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Records passes of a model that reads the `source`, but what its attention mask hides, with the images that it
        is given, and then at most about `new_tokens` tokens."""
        transformers = transformers_models()
        self._observed = transformers.observed_attention if transformers else nullcontext()
        self.model, self._new_tokens = model, new_tokens
        self._changed = ChangedHeads()
        arguments = ForwardArguments((), {}, {**(mask_and_images or {})}, False)
        self._grids: tuple[PatchGrid, ...] = ()  # of the images in the text
        self._names = LayerNames(named_modules(model), is_encoder_decoder(model), source, arguments=arguments)
        self._layers: GrowingLayers | JoinedLayers

    @contextmanager
    def first(self, changes: Run) -> Iterator[None]:
        """Records the pass over the prompt, and over the encoder's text, with changes, within the context."""
        self._changed.begin_pass(changes)
        recording = FirstPass(self._names, (1,), 0, MemoryBudget(), observes=True, changed=self._changed)
        heads = head_counts(self.model)
        modules = changed_modules([changes], lambda: 1)
        with prepared(self.model), self._observed, torch.no_grad(), recorded(recording, heads), modules:
            yield
        if not recording.layers and not recording.missing:
            raise ValueError(no_attention(self.model, recording))
        of_text = (layer for layer, _ in recording.layers if self._names.is_of_decoder(layer.id.stack))
        self._grids = next((layer.inputs.query_grids for layer in of_text), ())
        can_grow = GrowingLayers.can_follow(recording)
        if _changes_heads(changes) and not can_grow and len(recording.layers) != len(self._changed.counts):
            raise not_changed(self.model)
        self._layers = GrowingLayers(recording, self._new_tokens) if can_grow else JoinedLayers(self.model, recording)

    @contextmanager
    def later(self, changes: Run) -> Iterator[None]:
        """Records the pass over one more token, with changes, within the context."""
        modules = changed_modules([changes], lambda: 1)
        with evaluating(self.model), self._observed, torch.no_grad(), self._layers.next_pass(changes), modules:
            yield

    @property
    def heads(self) -> list[int]:
        """The number of heads of each layer of the first pass."""
        return self._changed.counts

    def trace(self, queries: int, target: AxisTokens, source: AxisTokens) -> Trace:
        """Returns the layers of a number of queries, which are the `target` tokens; those of an encoder are the
        `source`."""
        return self._layers.trace(queries, target.with_grids(self._grids) if self._grids else target, source)

    @property
    def evicted(self) -> dict[str, int]:
        """By the layer's name, how many keys, the oldest, the cache of the model held no more in the last pass."""
        return {name: count for name, count in self._layers.evicted.items() if count > 0}


def _changes_heads(changes: Run) -> bool:
    return any(each.layers for each in changes)


def not_changed(model: nn.Module) -> ValueError:
    """Returns the error for a model whose attention is not seen in each pass where it is computed."""
    return value_error(
        "Heads of {name} cannot be changed while it writes, because it computes its attention by itself. Call "
        "attnviz.run for each token.",
        name=type(model).__name__,
    )


class JoinedLayers:
    """The layers of passes that are each recorded in full, of which the weights are joined."""

    def __init__(self, model: nn.Module, first: FirstPass) -> None:
        trace = first.trace()
        self._changed = first.changed
        self._model, self._heads, self._names, self._budget = model, head_counts(model), first.names, first.budget
        self._parts = {layer.id: [(layer, [*range(layer.inputs.keys)])] for layer in trace}
        self._missing = [*trace.missing]
        self.evicted: dict[str, int] = {}

    @contextmanager
    def next_pass(self, run: Run) -> Iterator[None]:
        """Records a forward pass with changes within the context."""
        growing = {id: parts for id, parts in self._parts.items() if self._grows(id)}
        if not growing and _changes_heads(run):
            raise not_changed(self._model)
        if not growing:
            yield
            return
        read = max(map(_queries, growing.values()))
        arguments = self._names.arguments
        if arguments is not None and not self._names.is_encoder_decoder:
            arguments = arguments.with_tokens(read + 1)
        names = replace(self._names, past=read, cached={}, unnamed={}, arguments=arguments)
        recording = FirstPass(names, (1,), 0, MemoryBudget(), observes=True, changed=self._changed)
        recording.changed.begin_pass(run)
        with tracked_modules(self._model), zeros_for_padding(self._model), recorded(recording, self._heads):
            yield
        layers, sentences = {layer.id: layer for layer in recording.trace()}, recording.missing.sentences([])
        for id in growing:
            try:
                self._add(id, layers.get(id), read + 1)
            except NotCaptured as reason:
                del self._parts[id]
                own = (sentence for sentence in sentences if sentence.startswith(f"{id} is "))
                self._missing.append(next(own, f"{id} is not shown: {reason}."))

    def trace(self, queries: int, target: AxisTokens, source: AxisTokens) -> Trace:
        """Returns the layers up to a number of queries, with the tokens of these, and of the encoder's text."""
        layers = [
            self._joined(parts, queries, target, source) if self._grows(id) else parts[0][0]
            for id, parts in self._parts.items()
        ]
        return Trace(tuple(layers), tuple(self._missing))

    def _grows(self, id: LayerId) -> bool:
        return self._names.is_of_decoder(id.stack)

    def _add(self, id: LayerId, layer: Layer | None, read: int) -> None:
        """Adds the layer of a pass; without a cache it reads all tokens again. Raises NotCaptured if there is none."""
        if layer is None:
            raise NotCaptured("it was not captured for every token")
        inputs = layer.inputs
        if inputs.queries == read:
            self._parts[id] = [(layer, [*range(inputs.keys)])]
            return
        weights = layer.maps()
        self._budget.reserve(weights.nbytes, "its weights")
        last = len(self._parts[id][0][1]) if layer.id.cross else read
        self.evicted[layer.name] = last - inputs.keys
        row = Layer(id, layer.kind, WeightsOnly(weights, inputs.query_tokens, inputs.key_tokens), FixedWeights())
        self._parts[id].append((row, [*range(last - inputs.keys, last)]))

    def _joined(
        self, parts: Sequence[tuple[Layer, list[int]]], queries: int, target: AxisTokens, source: AxisTokens
    ) -> Layer:
        first, total = parts[0][0], _queries(parts)
        is_cross = first.kind is Kind.CROSS
        keys = len(parts[0][1]) if is_cross else queries
        side, other = target.with_length(queries), (source if is_cross else target).with_length(keys)
        if len(parts) == 1 and queries == total:
            named = first.inputs.with_tokens(
                query_tokens=side.tokens,
                key_tokens=other.tokens,
                special_queries=side.special,
                special_keys=other.special,
                query_ids=side.ids,
                key_ids=other.ids,
                query_grids=side.grids,
                key_grids=other.grids,
            )
            return replace(first, inputs=named)
        shown, count = [], 0
        for layer, columns in parts:
            if count < queries:
                shown.append((layer, [column for column in columns if column < keys]))
            count += layer.inputs.queries
        inputs = JoinedWeights(
            tuple(shown), side.tokens, other.tokens, side.special, other.special, side.ids, other.ids,
            side.grids, other.grids,
        )  # fmt: skip
        kind = Kind.CROSS if is_cross else Kind.CAUSAL
        return Layer(first.id, kind, inputs, FixedWeights(), Fidelity.WEIGHTS_ONLY)


def _queries(parts: Sequence[tuple[Layer, list[int]]]) -> int:
    return sum(layer.inputs.queries for layer, _ in parts)
