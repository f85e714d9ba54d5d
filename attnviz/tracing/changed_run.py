"""A forward pass in which some attention is changed: the rest runs as the model computes it, and nothing is kept."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import multi_head_attention_forward

from attnviz.inputs import Inputs
from attnviz.mechanism import Mechanism, blocks
from attnviz.tracing.call import Call
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.head_axes import head_counts
from attnviz.tracing.layer_naming import LayerNames, named_modules
from attnviz.tracing.memory_budget import MemoryBudget, NotCaptured
from attnviz.tracing.multi_head_attention import MultiHeadCall, sequence_count
from attnviz.tracing.optional_transformers import is_encoder_decoder, transformers_models
from attnviz.tracing.patch_tracking import PatchTracking
from attnviz.tracing.recording import CallOfSequence, Recording
from attnviz.tracing.refusal import no_attention
from attnviz.tracing.run_changes import LayerHeads, Run
from attnviz.tracing.single_capture import prepared
from attnviz.tracing.torch_interception import recorded
from attnviz.tracing.verification import SampledRows


@dataclass(frozen=True)
class LayerChange:
    """What is changed in a layer: its mechanism, or what its heads write."""

    mechanism: Callable[[Mechanism], Mechanism] | None = None  # makes another one of the model's own
    heads: Callable[[LayerHeads], None] | None = None  # changes the output of heads in place
    # Changes weights (sequences, heads, queries, keys) in place, where a layer exposes nothing else.
    weights: Callable[[Tensor], None] | None = None


def layer_change(changes: Sequence[Run], layer: int, rows: Callable[[], int], examples: int = 1) -> LayerChange | None:
    """Returns what is changed in a layer, for each row of a batch, of one example or several, in its own way; None if
    nothing is."""
    acting = [(row, each) for row, run in enumerate(changes) for each in run if layer in each.layers]
    if not acting:
        return None

    def change_heads(run: LayerHeads) -> None:
        run = replace(run, examples=run.examples // examples)
        for row, each in acting:
            assert each.heads is not None
            each.heads(layer, run, row)

    def change_weights(weights: Tensor) -> None:
        by_row = weights.unflatten(0, (rows(), -1))
        for row, each in acting:
            assert each.weights is not None
            each.weights(layer, by_row[row])

    has_weights = all(each.weights for _row, each in acting)
    return LayerChange(heads=change_heads, weights=change_weights if has_weights else None)


# Takes the index of a layer among those that have run, and its number of heads.
Change: TypeAlias = Callable[[int, int], LayerChange | None]
Sample: TypeAlias = Callable[[Call, slice, Tensor], SampledRows]
Within: TypeAlias = Callable[["ChangedRun"], AbstractContextManager[Any]]
NO_QUERIES = "the model does not expose its queries and keys"


@dataclass
class ChangedRun(Recording):
    """A forward pass with changed attention. Layers are counted as in a capture."""

    change: Change = field(kw_only=True)
    heads: list[int] = field(default_factory=list)  # of the layers that have run
    current: LayerChange | None = None  # of the layer that runs
    has_gradients: bool = False  # numbers are in the graph of gradients

    def __post_init__(self) -> None:
        super().__post_init__()
        self.patches = PatchTracking(())  # nobody reads the names of the tokens

    @contextmanager
    def recording_layer(self, module: nn.Module) -> Iterator[None]:
        """Prevents nested recording within the context, with gradients where they are wanted."""
        with super().recording_layer(module), torch.set_grad_enabled(self.has_gradients):
            yield

    def follow(self, *_: Any) -> None:
        """Follows nothing: nobody reads what is missing."""

    def observe(self, call: Call, result: tuple[Any, ...], implementation: str = "") -> tuple[Any, ...]:
        """Returns the result of a call of the attention interface, or a changed one."""
        changed = self._changed(call.module, result[0], lambda sequence: call, SampledRows.from_call)
        return result if changed is None else (changed, self._weights(result[1]))

    def capture_computed(
        self, call: Call, output: Tensor, own_weights: Callable[[], Tensor] | None = None
    ) -> Tensor | None:
        """Returns the changed output (sequences, queries, heads, width) of a function of torch, or None."""
        return self._changed(call.module, output, lambda sequence: call, SampledRows.from_output)

    def capture_flex_attention(
        self, module: nn.Module, call: CallOfSequence, output: Tensor, own_weights: Callable[[], Tensor]
    ) -> Tensor | None:
        """Returns the changed output (sequences, queries, heads, width) of FlexAttention, or None."""
        return self._changed(module, output, call, SampledRows.from_output)

    def capture_weights(self, module: nn.Module, weights: Tensor, own_shape: torch.Size | None = None) -> Tensor | None:
        """Returns changed weights (sequences, heads, queries, keys), or None."""
        with self.recording_layer(module):
            self.sequences(len(weights))
            change = self._next_change(weights.shape[1])
            if change is None:
                return None
            if change.weights is None:
                raise ValueError(self._locked(module, NO_QUERIES))
            weights = weights.clone()
            change.weights(weights)
            return weights
        return None

    def multi_head_attention(self, module: nn.Module, arguments: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        output, weights = multi_head_attention_forward(**arguments)
        with self.recording_layer(module):
            count = sequence_count(arguments)
            every, change = slice(0, count), self._next_change(arguments["num_heads"])
            if change is None:
                return output, weights
            own = MultiHeadCall.from_arguments(module, arguments, every)
            call, rows = own.call(), len(own.query)

            def sample(call: Call, sequences: slice, output: Tensor) -> SampledRows:
                of_example = MultiHeadCall.from_arguments(module, arguments, sequences)
                return SampledRows.from_multi_head(of_example.call(), of_example)

            heads = torch.cat([own.rows(sequence, 0, rows)[0] for sequence in range(count)])
            changed = self._apply(change, module, heads, lambda sequence: call, sample)
            projected = own.projected(changed)
            output = projected if output.ndim == 3 else projected[:, 0]
        return output, self._weights(weights)

    def _next_change(self, heads: int) -> LayerChange | None:
        """Counts a layer, and returns its change."""
        self.heads.append(heads)
        self.current = self.change(len(self.heads) - 1, heads)
        return self.current

    def _weights(self, weights: Tensor | None) -> Tensor | None:
        """Returns the weights that a changed layer returns: NaN if its mechanism is another than that which gave them,
        because transformers leaves out layers that return none, and numbers the rest anew."""
        if weights is None or self.current is None or self.current.mechanism is None:
            return weights
        return torch.full_like(weights, torch.nan)

    def _examples(self, count: int) -> Iterator[slice]:
        """Returns the sequences of each example."""
        groups = self.sequences(count).stop
        return (slice(first, first + groups) for first in range(0, count, groups))

    def _changed(self, module: nn.Module, output: Tensor, call_of: CallOfSequence, sample: Sample) -> Tensor | None:
        """Returns the changed output (sequences, queries, heads, width) of the next layer, or None."""
        with self.recording_layer(module):
            self.sequences(len(output))
            change = self._next_change(output.shape[2])
            return None if change is None else self._apply(change, module, output, call_of, sample)
        return None

    def _apply(
        self, change: LayerChange, module: nn.Module, output: Tensor, call_of: CallOfSequence, sample: Sample
    ) -> Tensor:
        """Returns the changed output (sequences, queries, heads, width) of a layer."""
        examples = list(self._examples(len(output)))

        def known_call(sequence: int = 0) -> Call:
            call = call_of(sequence)
            if call is None:
                raise ValueError(self._locked(module, NO_QUERIES))
            return call

        def attention(call: Call, sequences: slice) -> tuple[Tensor, Tensor]:
            if call.eager:
                return call.rows(0, call.lengths[0], sequences)
            self._checked(known_call(sequences.start), sequences, sample(call, sequences, output))
            return self._by_mechanism(call, sequences)

        changed = output.clone(memory_format=torch.contiguous_format)
        if change.heads is not None:
            change.heads(LayerHeads(changed, known_call, attention, len(examples), self.names.layer_id(module)))
            return changed
        for sequences in examples if change.mechanism else ():
            call = known_call(sequences.start)
            attended = self._attended(call, sequences, change, sample(call, sequences, output))
            if attended is not None:
                changed[sequences] = attended.to(changed)
        return changed

    def _attended(self, call: Call, sequences: slice, change: LayerChange, sample: SampledRows) -> Tensor | None:
        """Returns the output (sequences, queries, heads, width) of another mechanism; None if it is the model's own.

        Raises ValueError if the model's own is not known.
        """
        assert change.mechanism is not None
        inputs, mechanism = self._checked(call, sequences, sample)
        after = change.mechanism(mechanism)
        if after == mechanism:
            return None
        groups = sequences.stop - sequences.start
        return attended(after, inputs).transpose(0, 1).unflatten(0, (groups, -1))

    def _checked(self, call: Call, sequences: slice, sample: SampledRows) -> tuple[Inputs, Mechanism]:
        """Returns the inputs and the mechanism of an example. Raises ValueError if they do not give its output."""
        try:
            inputs, mechanism, _ = self._mechanism(call, sequences)
        except NotCaptured as reason:
            raise ValueError(self._locked(call.module, str(reason))) from reason
        if not sample.comparison(mechanism, inputs):
            raise ValueError(self._locked(call.module, "its output is not what its queries, keys and values give here"))
        return inputs, mechanism

    def _by_mechanism(self, call: Call, sequences: slice) -> tuple[Tensor, Tensor]:
        """Returns the output (sequences, queries, heads, width) and weights (sequences, heads, queries, keys)."""
        inputs, mechanism, _ = self._mechanism(call, sequences)
        run, groups = mechanism(inputs), range(sequences.stop - sequences.start)
        weights = run.weights.unflatten(2, (len(groups), -1)).unflatten(1, (len(groups), -1))
        output = run.output.transpose(0, 1).unflatten(0, (len(groups), -1))
        return output.to(call.query), torch.stack([weights[:, group, :, group] for group in groups]).to(call.query)

    def _locked(self, module: nn.Module, reason: str) -> str:
        return (
            f"The mask, the score and the normalizer of {self.names.layer_id(module)} cannot be changed: {reason}. "
            "Its heads can be ablated."
        )


def run_changed(
    model: nn.Module, arguments: ForwardArguments, change: Change, within: Within | None = None, gradients: bool = False
) -> tuple[Any, list[int]]:
    """Returns what a model returns with changed attention, and the number of heads of each layer that has run; with its
    graph of gradients, if that is wanted. `within` makes a context of the run in which the model runs.

    Raises ValueError if no attention is seen, or if the mechanism of a layer is to be changed and is not known.
    """
    transformers = transformers_models()
    names = LayerNames(named_modules(model), is_encoder_decoder(model))
    recording = ChangedRun(
        names, arguments.example_counts(), 0, MemoryBudget(), observes=True, change=change, has_gradients=gradients
    )
    attention = transformers.observed_attention if transformers else nullcontext()
    inside = within(recording) if within else nullcontext()
    with prepared(model), attention, recorded(recording, head_counts(model)), torch.set_grad_enabled(gradients), inside:
        output = model(*arguments.args, **arguments.kwargs)
    if not recording.heads:
        raise ValueError(no_attention(model, recording))
    return output, recording.heads


def attended(mechanism: Mechanism, inputs: Inputs) -> Float[Tensor, "heads queries d_v"]:
    """Returns the output of a mechanism, computed head by head in blocks of rows to save memory."""
    return torch.stack(
        [
            torch.cat([mechanism(inputs, heads=head, rows=slice(*block)).output[0] for block in blocks(inputs.queries)])
            for head in range(inputs.heads)
        ]
    )
