"""The recording of the layers of one forward pass, in the order in which they run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward

from attnviz.base.formatting import quoted
from attnviz.base.interruption import end_if_unwanted
from attnviz.inputs import Inputs, MapAxes
from attnviz.layer import Fidelity, FixedWeights, Kind, Layer, WeightsOnly
from attnviz.masks import Mask
from attnviz.mechanism import Mechanism, blocks
from attnviz.trace import Trace, TraceWriter
from attnviz.trace.mechanism_parts import NotSaved
from attnviz.tracing.cached_keys import Entries, recognize
from attnviz.tracing.call import Call
from attnviz.tracing.chunked_prefill import ChunkedCalls
from attnviz.tracing.layer_naming import LayerNames, with_unique_ids
from attnviz.tracing.mechanism_builder import MechanismBuilder
from attnviz.tracing.memory_budget import MemoryBudget, NotCaptured
from attnviz.tracing.missing_layers import MissingLayers
from attnviz.tracing.multi_head_attention import MultiHeadCall, sequence_count
from attnviz.tracing.patch_tracking import PatchTracking, Sides
from attnviz.tracing.tensor_marks import RecordedSoftmax
from attnviz.tracing.unbounded_numbers import UnboundedNumbers, kind_of_unbounded
from attnviz.tracing.verification import SampledRows, compared_rows
from attnviz.tracing.weighted_sums import RunningModule

UNUSED = "what its values are multiplied with is not known: neither its softmax, nor this changed number by number"
Axes = TypeVar("Axes", bound=MapAxes)
HeadOutputs: TypeAlias = Tensor | Mapping[int, Tensor]  # (heads, queries, width), or (queries, width) of some heads
# Takes the index of a layer among those that ran, its inputs and its mechanism; returns another with its outputs,
# or None.
Intervene: TypeAlias = Callable[[int, Inputs, Mechanism], tuple[Mechanism, HeadOutputs] | None]

CallOfSequence: TypeAlias = Callable[[int], Call | None]  # of the batch; None if it is not known
EXACT = 64 << 20  # bytes of queries, keys and values up to which all of a capture are held as they are
# The range of a head's largest number in which float16 holds each number to within 2⁻¹¹ of the largest.
LEAST_NUMBER, LARGEST_NUMBER = 2.0**-14, 65_504.0


def with_fp16_values(layers: Sequence[Layer]) -> list[Layer]:
    """Returns the same layers, with float16 values if all layers take more than EXACT bytes together.

    Queries, keys and finished weights are unchanged, and so are values beyond the range of float16.
    """
    computed = [layer.inputs for layer in layers if isinstance(layer.inputs, Inputs)]
    if sum(tensor.nbytes for one in computed for tensor in (one.query, one.key, one.value)) <= EXACT:
        return list(layers)
    return [
        replace(layer, inputs=replace(layer.inputs, value=layer.inputs.value.half()))
        if isinstance(layer.inputs, Inputs) and _fits(layer.inputs.value)
        else layer
        for layer in layers
    ]


def _fits(value: Tensor) -> bool:
    least, most = value.flatten(1).aminmax(dim=1)
    return all(LEAST_NUMBER <= size < LARGEST_NUMBER or size == 0 for size in torch.maximum(-least, most).tolist())


@dataclass
class Recording:
    """One forward pass of a model: the layers recorded so far, and what is missing."""

    names: LayerNames
    example_counts: tuple[int, ...]  # how many examples the batch holds: the likeliest number first
    example: int  # the one that is shown
    budget: MemoryBudget
    intervene: Intervene | None = None
    writer: TraceWriter | None = None  # writes layers as they come, so that no more than one is in memory
    selected: frozenset[int] | None = None  # the layers that are kept, counted as they run; None: all
    chunked: ChunkedCalls | None = None  # where the calls of a forward pass over a chunk go
    layers: list[tuple[Layer, str]] = field(default_factory=list)  # with the paths of their modules
    is_chosen: bool = True  # the example, and not only the first one
    busy: bool = False  # inside an attention that is being recorded
    observes: bool = False  # what runs is left as it is, also if a model is one of transformers
    replaced: set[str] = field(default_factory=set)  # implementations in place of which eager attention runs
    notes: list[str] = field(default_factory=list)  # what else is missing, in sentences
    running: list[RunningModule] = field(default_factory=list)
    softmaxes: dict[nn.Module, torch.Size] = field(default_factory=dict)  # shapes, by the modules in which they ran

    def __post_init__(self) -> None:
        self._builder = MechanismBuilder(self.budget)
        self._mask: Tensor | None = None  # of the last multi-head attention
        self._count = 0  # of layers that have run
        arguments = self.names.arguments
        self.patches = PatchTracking(self.names.modules, arguments.by_name if arguments else {})
        self.missing = MissingLayers(self.names, self._record_multiplied)
        self._softmax: RecordedSoftmax | None = None  # the last one that is to be recorded

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Prevents that attention within the context is recorded by itself."""
        before, self.busy = self.busy, True
        try:
            yield
        finally:
            self.busy = before

    @contextmanager
    def recording_layer(self, module: nn.Module) -> Iterator[None]:
        """Prevents nested recording and gradients within the context, and records why a layer is not captured."""
        try:
            with self.nested(), torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.no_grad():
                yield
        except NotCaptured as reason:
            self.missing.add(module, reason)

    def follow(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, is_recorded: bool = False
    ) -> None:
        """Follows a function of torch that a running module has called; its result may be recorded weights."""
        self.missing.sums.follow(function, args, kwargs, result, self.running)
        if is_recorded:
            self.missing.sums.set_recorded(result, self._softmax)
            self._softmax = None

    def capture_call(self, call: Call) -> Tensor:
        """Records a call of the attention interface, and returns its output (sequences, queries, heads, width)."""
        end_if_unwanted()
        with self.recording_layer(call.module):
            whole = slice(0, len(call.query))
            is_short = len(compared_rows(call, whole)) == len(call.query) * call.lengths[0]
            output = call.own_output() if is_short else call.output()
            sequences = self.sequences(len(call.query))
            sample = SampledRows.from_call(call, sequences, output if is_short else None)
            if not sample.matches_output(output, sequences):
                output = call.own_output()
            if self.chunked is not None:
                self.chunked.append(call, output)
                return output
            try:
                output = self._record(call, sequences, sample, output, lambda: self._own_weights(call, sequences))
            except UnboundedNumbers:
                output = call.own_output()  # torch's own function gives zeros where the model's gives NaN
                raise
        return output

    def record_chunked_calls(self, chunked: ChunkedCalls) -> None:
        """Records the calls over the whole text that chunks make together."""
        sequences = slice(0, 1)
        for whole in chunked.whole_calls():
            if whole is None:
                self._count += 1
                continue
            call, rows = whole
            with self.recording_layer(call.module):
                sample = SampledRows.from_call(call, sequences, rows=chunked.sampled_rows)
                if not sample.matches_rows(rows):
                    raise NotCaptured("its chunks give another output than the whole text. Capture it without chunks")
                inputs, mechanism, leak = self._mechanism(call, sequences)
                comparison = sample.comparison(mechanism, inputs)
                if not comparison:
                    raise NotCaptured("its weights are not what its queries and keys give. Capture it without chunks")
                self._add(call, inputs, mechanism, comparison, leak)

    def observe(self, call: Call, result: tuple[Any, ...], implementation: str = "") -> tuple[Any, ...]:
        """Records a call of the attention interface that has run, and returns its result, which begins with the output
        (sequences, queries, heads, width). An implementation is named if its mask is not known here."""
        output = result[0]
        with self.recording_layer(call.module):
            if implementation:
                raise NotCaptured(
                    f"its attention implementation is {quoted(implementation)}. Load the model with "
                    'attn_implementation="sdpa" or "eager"'
                )
            sequences = self.sequences(len(call.query))
            exact = not (call.module.training and call.options.get("dropout"))
            sample = SampledRows.from_call(call, sequences, output if exact else None)
            self._record(call, sequences, sample, output, lambda: self._own_weights(call, sequences))
        return result

    def capture_computed(
        self, call: Call, output: Tensor, own_weights: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """Records attention that a function of torch has computed, with its output (sequences, queries, heads, width).

        `own_weights` computes the weights (sequences, heads, queries, keys) of a layer that no mechanism reproduces.
        Returns another output after an intervention, or None.
        """
        with self.recording_layer(call.module):
            sequences = self.sequences(len(call.query))
            sample = SampledRows.from_output(call, sequences, output)
            weights = own_weights and (lambda: own_weights()[sequences])
            changed = self._record(call, sequences, sample, output, weights)
            return None if changed is output else changed
        return None

    def capture_flex_attention(
        self, module: nn.Module, call: CallOfSequence, output: Tensor, own_weights: Callable[[], Tensor]
    ) -> Tensor | None:
        """Records FlexAttention as `capture_computed` does, by its call for a sequence; weights, if it has none."""
        with self.recording_layer(module):
            with self.patches.resumed():
                example = call(self.sequences(len(output)).start)
            if example is not None:
                return self.capture_computed(example, output, own_weights)
            self.capture_weights(module, own_weights())
        return None

    def multi_head_attention(self, module: nn.Module, arguments: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        """Calls torch's multi-head attention as the model does, and records its queries, keys and values. Returns its
        results, or those of an intervention."""
        output, weights = multi_head_attention_forward(**arguments)
        with self.recording_layer(module):
            examples = self.sequences(sequence_count(arguments))
            with self.patches.resumed():
                own = MultiHeadCall.from_arguments(module, arguments, examples)
                call = own.call()
            if call.mask is not None and self._mask is not None and _equal(call.mask, self._mask):
                call = replace(call, mask=self._mask)  # what was read in it is known
            self._mask = call.mask
            sample, before = SampledRows.from_multi_head(call, own), call.output() if self.intervene else call.query
            changed = self._record(call, slice(0, len(call.query)), sample, before, own.weights)
            if changed is not before:
                output = output.clone()
                whole = output if output.ndim == 3 else output[:, None]
                whole[:, examples] = own.projected(changed)
        return output, weights

    def _record(
        self,
        call: Call,
        sequences: slice,
        sample: SampledRows,
        output: Tensor,
        own_weights: Callable[[], Tensor] | None = None,
    ) -> Tensor:
        """Records a layer, and returns its output (sequences, queries, heads, width), or that of an intervention.

        If no mechanism reproduces the sample, the layer has the model's own weights (sequences, heads, queries, keys).
        """
        inputs, mechanism, leak = self._mechanism(call, sequences)
        comparison = sample.comparison(mechanism, inputs)
        if not comparison:
            if own_weights is None or not sample.weights_give_output(inputs):
                raise NotCaptured("its output is not what its queries, keys and values give here")
            self._add_weights(call.module, own_weights(), self._sides(call, sequences), call.added_keys)
            return output
        if other := self.intervene and self.intervene(len(self.layers), inputs, mechanism):
            mechanism, attended = other
            output = output.clone()
            for head, one in attended.items() if isinstance(attended, Mapping) else enumerate(attended):
                output[sequences, :, head] = one.unflatten(0, (-1, output.shape[1])).to(output)
        self._add(call, inputs, mechanism, comparison, leak)
        return output

    def capture_weights(self, module: nn.Module, weights: Tensor, own_shape: torch.Size | None = None) -> Tensor | None:
        """Records weights (sequences, heads, queries, keys) that the model has computed. Those of a softmax, which has
        its `own_shape`, may change until values are multiplied with them. Returns None: they stay."""
        with self.recording_layer(module):
            with self.patches.resumed():
                example = weights[self.sequences(len(weights))]
            sides = self.patches.sides_of_weights(example)
            if own_shape is None:
                self._add_weights(module, example, sides)
            else:
                self._softmax = RecordedSoftmax(module, weights.shape, own_shape, sides)
        return None

    def _record_multiplied(self, softmax: RecordedSoftmax, weights: Tensor | None) -> None:
        """Records the weights (sequences, heads, queries, keys) that have become of a softmax."""
        with self.recording_layer(softmax.module):
            if weights is None:
                raise NotCaptured("it makes other weights of its softmax than one for each head, query and key")
            example = weights[self.sequences(len(weights))]
            size = float(example.double().square().sum())
            if softmax.size is None:
                self._add_weights(softmax.module, example, softmax.sides)
            elif not math.isclose(size, softmax.size, rel_tol=1e-6):
                raise NotCaptured("it multiplies values with its weights more than once, and changes them in between")
            softmax.size = size

    def _own_weights(self, call: Call, sequences: slice) -> Tensor:
        """Returns the weights (sequences, heads, queries, keys) of the model's own function."""
        (queries, keys), groups = call.lengths, sequences.stop - sequences.start
        self.budget.check(4 * groups**2 * call.query.shape[1] * queries * keys, "its weights")
        weights = torch.empty(groups, call.query.shape[1], queries, keys)
        for first, last in blocks(queries):
            weights[:, :, first:last] = call.weights(first, last, sequences)
        return weights

    def add_cached_keys(
        self, entries: Entries, past: int, new: tuple[Tensor, Tensor], cached: tuple[Tensor, Tensor]
    ) -> None:
        """Records which tokens the keys and values are that the running module gets from a cache; see `recognize`."""
        module = self.running[-1][0] if self.running else None
        if module is None or self.chunked is not None or self.names.is_cross(module):
            return
        with self.recording_layer(module):
            sequence = self.sequences(len(new[0])).start
            self.names.cached[module] = recognize(entries, past, new, cached, sequence, self.names.ids)

    def trace(self) -> Trace:
        """Returns all layers, except those of modules with another part that is missing, and what is missing."""
        self._add_unused_softmaxes()
        layers = with_unique_ids([one for one in self.names.with_chunks(self.layers) if one[1] not in self.missing])
        if self.writer is None:
            layers = with_fp16_values(layers)
        beyond = [
            f"Layer {index} is not shown: the model has {self._count}, counted from 0."
            for index in sorted(self.selected or ())
            if index >= self._count
        ]
        missing = self.missing
        return Trace(
            tuple(layers),
            (
                *missing.sentences(self.layers),
                *beyond,
                *missing.unnamed_keys(self.layers),
                *self.notes,
                *self.patches.notes,
            ),
        )

    def begin_with(self, encoder: "Recording") -> None:
        """Adds the layers of an encoder that ran by itself before, and what is missing of it."""
        encoder._add_unused_softmaxes()
        self.layers, self._count = [*encoder.layers], encoder._count
        self.missing.update(encoder.missing)

    def _add_unused_softmaxes(self) -> None:
        for softmax, is_multiplied in self.missing.sums.softmaxes.items():
            if not is_multiplied:
                self.missing.add(softmax.module, NotCaptured(UNUSED))

    def sequences(self, count: int) -> slice:
        """Returns the sequences of the example; windows and pictures are several sequences to an example.

        Raises ValueError if there is no such example.
        """
        if count == 1:
            return slice(0, 1)
        examples = count if count in self.example_counts else next(iter(self.example_counts), count)
        if count % examples:
            raise NotCaptured(f"its {count} sequences cannot be told apart by example. Give it one example at a time")
        check_example(self.example, examples)
        if not self.is_chosen and examples > 1:
            if not self.observes:
                raise ValueError(
                    f"This batch holds {examples} examples, and a trace is of one. Say which with example=0 to "
                    f"{examples - 1}, or capture them one by one."
                )
            self.notes.append(f"Of the {examples} examples, the first is shown. Give capturing another one as example.")
            self.is_chosen = True
        groups = count // examples
        return slice(self.example * groups, (self.example + 1) * groups)

    def _inputs(self, call: Call, sequences: slice) -> Inputs:
        self.names.match_cache(call.module, call.key)
        query, key, value = (_merged_sequences(tensor[sequences]) for tensor in (call.query, call.key, call.value))
        lengths, sides = (query.shape[1], key.shape[1]), self._sides(call, sequences)
        return self._with_axes(Inputs, (query, key, value), lengths, call.module, sides, call.added_keys)

    def _sides(self, call: Call, sequences: slice) -> Sides:
        with self.patches.resumed():
            return self.patches.sides(call.query[sequences], call.key[sequences])

    def _mechanism(self, call: Call, sequences: slice) -> tuple[Inputs, Mechanism, str]:
        """Returns the inputs and the mechanism of a call, and sentences about keys that its mask fails to forbid."""
        inputs = self._inputs(call, sequences)
        return inputs, *self._builder.mechanism(call, sequences, inputs)

    def _with_axes(
        self,
        kind: Callable[..., Axes],
        tensors: tuple[Tensor, ...],
        lengths: tuple[int, int],
        module: nn.Module,
        sides: Sides,
        added_keys: tuple[str, ...],
    ) -> Axes:
        """Returns inputs or weights with the tokens of these numbers of queries and keys."""
        queries, keys = self.names.axes(module, lengths[0], lengths[1] - len(added_keys))
        axes = queries, keys.with_added(added_keys)
        queries, keys = map(self.patches.with_patches, axes, sides)
        if numbers := kind_of_unbounded(tensors):
            raise UnboundedNumbers(f"it computes with {numbers}")
        try:
            return kind(
                *tensors,
                *(queries.tokens, keys.tokens),
                *(queries.special, keys.special),
                *(queries.ids, keys.ids),
                *(queries.grids, keys.grids),
            )
        except ValueError as error:
            raise NotCaptured(str(error).rstrip(".")) from error

    def _add_weights(self, module: nn.Module, weights: Tensor, sides: Sides, added_keys: tuple[str, ...] = ()) -> None:
        """Adds a layer with the weights (sequences, heads, queries, keys) that the model has computed, of sequences
        that do not attend to each other. They are NaN on padding, as on all keys that a mask forbids."""
        groups, heads, queries, keys = weights.shape
        self.budget.reserve(4 * groups**2 * heads * queries * keys, "its weights")
        whole = torch.zeros(heads, groups, queries, groups, keys)
        for group, one in enumerate(weights):
            whole[:, group, :, group] = one
        whole = whole.flatten(3).flatten(1, 2)
        axes = self._with_axes(WeightsOnly, (whole,), (whole.shape[1], whole.shape[2]), module, sides, added_keys)
        kind = self._kind(module, axes, len(added_keys), _has_causal_weights(whole))
        whole[..., ~self.names.read_keys(module, whole.shape[2])] = torch.nan
        self._keep(module, Layer(self.names.layer_id(module), kind, axes, FixedWeights(), Fidelity.WEIGHTS_ONLY))

    def _add(self, call: Call, inputs: Inputs, mechanism: Mechanism, comparison: str, leak: str) -> None:
        """Adds a layer, verified if it was compared with the attention that the model has without a capture."""
        added = len(call.added_keys)
        kind = self._kind(call.module, inputs, added, _is_causal(mechanism.mask, inputs.queries, inputs.keys, added))
        fidelity = Fidelity.VERIFIED
        if self.replaced:
            fidelity, names = Fidelity.UNVERIFIED, " and ".join(sorted(map(quoted, self.replaced)))
            comparison += f" This is its eager attention: it was not compared with {names}, which it has otherwise."
        layer = Layer(self.names.layer_id(call.module), kind, inputs, mechanism, fidelity, "", comparison, leak)
        self._keep(call.module, layer)

    def _keep(self, module: nn.Module, layer: Layer) -> None:
        """Adds a layer if it is selected, mapped from a file where there is a writer."""
        if self.chunked is not None and not self.chunked.is_complete:
            raise NotCaptured("its attention is not one that can be captured in chunks. Capture it whole")
        self._count += 1
        if self.selected is not None and self._count - 1 not in self.selected:
            return
        if self.writer is not None:
            try:
                layer = self.writer.add(layer)
            except NotSaved as reason:
                raise NotCaptured(str(reason)) from reason
        self.layers.append((layer, self.names.modules[module]))

    def _kind(self, module: nn.Module, inputs: MapAxes, added: int, causal: bool) -> Kind:
        queries, keys = inputs.queries, inputs.keys - added
        continues = self.names.continues_cache(module, queries, keys)
        if self.names.is_cross(module) or (queries != keys and not continues):
            return Kind.CROSS
        return Kind.CAUSAL if continues or (causal and inputs.queries > 1) else Kind.SELF


def check_example(example: int, count: int) -> None:
    """Raises ValueError if a batch of `count` examples has no such example."""
    if not 0 <= example < count:
        raise ValueError(f"There is no example {example}: the batch holds {count}, counted from 0.")


def _is_causal(mask: Mask, queries: int, keys: int, added: int) -> bool:
    """Returns whether no query may attend to a later key, sampled at two queries; added keys do not count."""
    q, k = torch.tensor([[0], [queries // 2]]), torch.arange(keys - added)
    allowed = mask.bind(queries, keys, 1)(torch.tensor(0), torch.tensor(0), q, k).expand(2, keys - added)
    return not bool((allowed & (k > q)).any())


def _has_causal_weights(weights: Tensor) -> bool:
    """Returns whether no query has weight on a later key, except for rows of equal weights, which are often padding."""
    uneven = weights.amax(-1) > weights.amin(-1)
    return not bool(weights.triu(1).any(-1)[uneven].any())


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _merged_sequences(tensor: Tensor) -> Tensor:
    """Returns sequences (sequences, heads, tokens, width) concatenated along tokens, in a new tensor."""
    whole = tensor.transpose(0, 1).flatten(1, 2).float().cpu()
    return whole.clone(memory_format=torch.contiguous_format)


current_recording: ContextVar[Recording | None] = ContextVar("attnviz_record", default=None)
