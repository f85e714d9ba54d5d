"""The recording of the layers of one forward pass, in the order in which they run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor, nn

from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, Kind, Layer
from attnviz.masks import Mask
from attnviz.mechanism import Mechanism, blocks
from attnviz.normalizers import Identity
from attnviz.scores import Dot
from attnviz.tracing.call import INDICES, Call
from attnviz.tracing.fp16_values import with_fp16_values
from attnviz.tracing.layer_naming import LayerNames, with_unique_ids
from attnviz.tracing.mechanism_builder import MechanismBuilder
from attnviz.tracing.memory_budget import MemoryBudget, NotCaptured
from attnviz.tracing.verification import SampledRows

WEIGHTS_ONLY_REASON = (
    "These are weights as the model itself computed them, without the queries and keys that they come from: the "
    "score, the mask and the normalizer cannot be changed."
)

# Takes a layer's position among those that ran, its inputs and its mechanism; returns another mechanism with its output
# (heads, queries, width), or None.
Intervene: TypeAlias = Callable[[int, Inputs, Mechanism], tuple[Mechanism, Tensor] | None]


@dataclass
class Recording:
    """One forward pass of a model: the layers recorded so far, and what is missing."""

    names: LayerNames
    examples: int  # in the batch
    example: int  # the one that is shown
    budget: MemoryBudget
    intervene: Intervene | None = None
    layers: list[tuple[Layer, str]] = field(default_factory=list)  # with the paths of their modules
    missing: dict[str, tuple[str, str]] = field(default_factory=dict)  # by its module's path, a layer's name, and why
    chose_keys: bool = False  # the model chose keys in a form that its own attention alone understands
    busy: bool = False  # inside an attention that is being recorded

    def __post_init__(self) -> None:
        self._builder = MechanismBuilder(self.budget)
        self._identities: dict[int, Tensor] = {}

    @contextmanager
    def capturing(self, module: nn.Module) -> Iterator[None]:
        """Prevents nested recording within the context, and records why a layer is not captured."""
        before, self.busy = self.busy, True
        try:
            yield
        except NotCaptured as reason:
            self.missing[self.names.modules[module]] = str(self.names.layer_id(module)), str(reason)
        finally:
            self.busy = before

    def capture_call(self, call: Call) -> Tensor:
        """Records a call of the attention interface, and returns its output (sequences, queries, heads, width)."""
        self.chose_keys |= any(call.options.get(name) is not None for name in INDICES)
        with self.capturing(call.module):
            output = call.output()
            sequences = self._sequences(len(call.query))
            sample = SampledRows.from_call(call, sequences) if call.own_function() else None
            if sample and not sample.matches_output(output, sequences):
                output = torch.cat([call.rows(*part)[0] for part in blocks(call.lengths[0])], dim=1)
            inputs, mechanism = self._inputs(call, sequences), self._builder.mechanism(call, sequences)
            if sample is None or sample.matches(mechanism, inputs):
                mechanism, output = self._intervened(inputs, mechanism, output, sequences)
                self._add(call.module, inputs, mechanism, Fidelity.VERIFIED if sample else Fidelity.UNVERIFIED)
            else:
                self._capture_own_weights(call, sequences)
        return output

    def capture_sdpa(self, call: Call, output: Tensor) -> Tensor:
        """Records a call of scaled_dot_product_attention, and returns its output."""
        with self.capturing(call.module):
            sequences = self._sequences(len(call.query))
            inputs, mechanism = self._inputs(call, sequences), self._builder.mechanism(call, sequences)
            if not SampledRows.from_call(call, sequences, output).matches(mechanism, inputs):
                raise NotCaptured("its output is not what its queries, keys and values give here")
            mechanism, output = self._intervened(inputs, mechanism, output, sequences)
            self._add(call.module, inputs, mechanism, Fidelity.VERIFIED)
        return output

    def _intervened(
        self, inputs: Inputs, mechanism: Mechanism, output: Tensor, sequences: slice
    ) -> tuple[Mechanism, Tensor]:
        """Returns the mechanism and the output (sequences, queries, heads, width) after the intervention."""
        other = self.intervene and self.intervene(len(self.layers), inputs, mechanism)
        if not other:
            return mechanism, output
        after, attended = other
        output = output.clone()
        output[sequences] = attended.transpose(0, 1).reshape(output[sequences].shape).to(output)
        return after, output

    def capture_weights(self, module: nn.Module, weights: Tensor) -> None:
        """Records weights (sequences, heads, queries, keys) that the model has computed."""
        with self.capturing(module):
            selected = weights[self._sequences(len(weights))]
            merged = self._empty_weights(*selected.shape)
            for group, one in enumerate(selected):
                merged[group, :, :, group] = one
            self._add_weights_only(module, merged)

    def _capture_own_weights(self, call: Call, sequences: slice) -> None:
        """Records the weights of the model's own function, which no mechanism reproduces."""
        (queries, keys), groups = call.lengths, range(sequences.stop - sequences.start)
        merged = self._empty_weights(len(groups), call.query.shape[1], queries, keys)
        for first, last in blocks(queries):
            for group, weights in zip(groups, call.rows(first, last, sequences)[1], strict=True):
                merged[group, :, first:last, group] = weights
        self._add_weights_only(call.module, merged)

    def _empty_weights(self, groups: int, heads: int, queries: int, keys: int) -> Tensor:
        """Returns zeros for sequences that do not attend to each other: (groups, heads, queries, groups, keys)."""
        self.budget.reserve(4 * groups**2 * heads * queries * keys, "its weights")
        return torch.zeros(groups, heads, queries, groups, keys)

    def unique_layers(self) -> list[Layer]:
        """Returns all layers, except those of modules of which another part is missing."""
        return with_fp16_values(with_unique_ids([one for one in self.layers if one[1] not in self.missing]))

    def missing_sentences(self) -> list[str]:
        """Returns what is missing and why, one sentence each."""
        recorded = {layer.name for layer, path in self.layers if path not in self.missing}
        return [
            f"{'A part of ' if name in recorded else ''}{name} is not shown: {reason}."
            for name, reason in self.missing.values()
        ]

    def _sequences(self, count: int) -> slice:
        """Returns the sequences of the example; windows and pictures are several sequences to an example."""
        if count == 1:
            return slice(0, 1)
        if count % self.examples:
            raise NotCaptured(f"its {count} sequences cannot be told apart by example. Give it one example at a time")
        groups = count // self.examples
        return slice(self.example * groups, (self.example + 1) * groups)

    def _inputs(self, call: Call, sequences: slice) -> Inputs:
        query, key, value = (_merged_sequences(tensor[sequences]) for tensor in (call.query, call.key, call.value))
        return self._make_inputs(call.module, query, key, value)

    def _make_inputs(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor) -> Inputs:
        queries, keys = self.names.axes(module, query.shape[1], key.shape[1])
        try:
            return Inputs(
                *(query, key, value),
                *(queries.tokens, keys.tokens),
                *(queries.special, keys.special),
                *(queries.ids, keys.ids),
            )
        except ValueError as error:
            raise NotCaptured(str(error).rstrip(".")) from error

    def _add_weights_only(self, module: nn.Module, weights: Tensor) -> None:
        """Adds a layer with finished weights, as queries of an identity matrix."""
        whole = weights.transpose(0, 1).flatten(3).flatten(1, 2)
        keys = whole.shape[-1]
        identity = self._identities.setdefault(keys, torch.eye(keys)[None])
        inputs = self._make_inputs(module, whole, identity, identity)
        self._add(
            module, inputs, Mechanism(score=Dot(), normalizer=Identity()), Fidelity.WEIGHTS_ONLY, WEIGHTS_ONLY_REASON
        )

    def _add(
        self, module: nn.Module, inputs: Inputs, mechanism: Mechanism, fidelity: Fidelity, locked_reason: str = ""
    ) -> None:
        cross = self.names.is_cross(module) or inputs.queries != inputs.keys
        if locked_reason:
            causal = _has_causal_weights(inputs.query)
        else:
            causal = _is_causal(mechanism.mask, inputs.queries, inputs.keys)
        kind = Kind.CROSS if cross else Kind.CAUSAL if causal and inputs.queries > 1 else Kind.SELF
        layer = Layer(self.names.layer_id(module), kind, inputs, mechanism, fidelity, locked_reason)
        self.layers.append((layer, self.names.modules[module]))


def _is_causal(mask: Mask, queries: int, keys: int) -> bool:
    """Returns whether no query may attend to a later key, sampled at two queries."""
    q, k = torch.tensor([[0], [queries // 2]]), torch.arange(keys)
    allowed = mask.bind(queries, keys, 1)(torch.tensor(0), torch.tensor(0), q, k).expand(2, keys)
    return not bool((allowed & (k > q)).any())


def _has_causal_weights(weights: Tensor) -> bool:
    """Returns whether no query has weight on a later key, except for rows of equal weights, which are often padding."""
    uneven = weights.amax(-1) > weights.amin(-1)
    return not bool(weights.triu(1).any(-1)[uneven].any())


def _merged_sequences(tensor: Tensor) -> Tensor:
    """Returns sequences (sequences, heads, tokens, width) concatenated along tokens, in a new tensor."""
    whole = tensor.transpose(0, 1).flatten(1, 2).float().cpu()
    return whole.clone(memory_format=torch.contiguous_format)


current_recording: ContextVar[Recording | None] = ContextVar("attnviz_record", default=None)
