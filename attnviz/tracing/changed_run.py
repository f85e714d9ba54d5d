"""A forward pass in which some attention is changed: the rest runs as the model computes it, and nothing is kept."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
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
from attnviz.tracing.single_capture import prepared
from attnviz.tracing.torch_interception import recorded
from attnviz.tracing.verification import SampledRows


@dataclass(frozen=True)
class LayerChange:
    """What is changed in a layer: its mechanism, or else only some heads, whose output is zero."""

    ablated: tuple[int, ...] = ()
    mechanism: Callable[[Mechanism], Mechanism] | None = None  # makes another one of the model's own


# Takes the index of a layer among those that have run, and its number of heads.
Change: TypeAlias = Callable[[int, int], LayerChange | None]
Sample: TypeAlias = Callable[[Call, slice, Tensor], SampledRows]
NO_QUERIES = "the model does not expose its queries and keys"


@dataclass
class ChangedRun(Recording):
    """A forward pass with changed attention. Layers are counted as in a capture."""

    change: Change = field(kw_only=True)
    heads: list[int] = field(default_factory=list)  # of the layers that have run
    current: LayerChange | None = None  # of the layer that runs

    def __post_init__(self) -> None:
        super().__post_init__()
        self.patches = PatchTracking(())  # nobody reads the names of the tokens

    def follow(self, *_: Any) -> None:
        """Follows nothing: nobody reads what is missing."""

    def observe(self, call: Call, result: tuple[Any, ...], implementation: str = "") -> tuple[Any, ...]:
        """Returns the result of a call of the attention interface, or a changed one."""
        sample = SampledRows.from_call if call.own_function() else SampledRows.from_output
        changed = self._changed(call.module, result[0], lambda sequence: call, sample)
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

    def capture_weights(self, module: nn.Module, weights: Tensor) -> Tensor | None:
        """Returns weights (sequences, heads, queries, keys) without those of ablated heads, or None."""
        with self.recording_layer(module):
            self.sequences(len(weights))
            change = self._next_change(weights.shape[1])
            if change is None:
                return None
            if change.mechanism is not None:
                raise ValueError(self._locked(module, NO_QUERIES))
            weights = weights.clone()
            weights[:, list(change.ablated)] = 0
            return weights
        return None

    def multi_head_attention(self, module: nn.Module, arguments: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
        change, heads = None, arguments["num_heads"]
        with self.recording_layer(module):
            examples = list(self._examples(sequence_count(arguments)))
            change = self._next_change(heads)
        if change is not None and change.mechanism is None:
            # A head without output is one that the output's projection does not read.
            weight = arguments["out_proj_weight"].clone()
            weight.unflatten(1, (heads, -1))[:, list(change.ablated)] = 0
            arguments = arguments | {"out_proj_weight": weight}
        output, weights = multi_head_attention_forward(**arguments)
        if change is None or change.mechanism is None:
            return output, weights
        with self.recording_layer(module):
            output = output.clone()
            whole = output if output.ndim == 3 else output[:, None]
            for sequences in examples:
                own = MultiHeadCall.from_arguments(module, arguments, sequences)
                call = own.call()
                inside = slice(0, len(call.query))
                attended = self._attended(call, inside, change, SampledRows.from_multi_head(call, own))
                if attended is not None:
                    whole[:, sequences] = own.projected(attended)
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
            examples = list(self._examples(len(output)))
            change = self._next_change(output.shape[2])
            if change is None:
                return None
            changed = output.clone()
            if change.mechanism is None:
                changed[:, :, list(change.ablated)] = 0
                return changed
            for sequences in examples:
                call = call_of(sequences.start)
                if call is None:
                    raise ValueError(self._locked(module, NO_QUERIES))
                attended = self._attended(call, sequences, change, sample(call, sequences, output))
                if attended is not None:
                    changed[sequences] = attended.to(changed)
            return changed
        return None

    def _attended(self, call: Call, sequences: slice, change: LayerChange, sample: SampledRows) -> Tensor | None:
        """Returns the output (sequences, queries, heads, width) of another mechanism; None if it is the model's own.

        Raises ValueError if the model's own is not known.
        """
        assert change.mechanism is not None
        try:
            inputs, mechanism, _ = self._mechanism(call, sequences)
        except NotCaptured as reason:
            raise ValueError(self._locked(call.module, str(reason))) from reason
        if not sample.comparison(mechanism, inputs):
            raise ValueError(self._locked(call.module, "its output is not what its queries, keys and values give here"))
        after = change.mechanism(mechanism)
        if after == mechanism:
            return None
        groups = sequences.stop - sequences.start
        return attended(after, inputs).transpose(0, 1).unflatten(0, (groups, -1))

    def _locked(self, module: nn.Module, reason: str) -> str:
        return (
            f"The mask, the score and the normalizer of {self.names.layer_id(module)} cannot be changed: {reason}. "
            "Its heads can be ablated."
        )


@torch.no_grad()
def run_changed(model: nn.Module, arguments: ForwardArguments, change: Change) -> tuple[Any, list[int]]:
    """Returns what a model returns with changed attention, and the number of heads of each layer that has run.

    Raises ValueError if no attention is seen, or if the mechanism of a layer is to be changed and is not known.
    """
    transformers = transformers_models()
    names = LayerNames(named_modules(model), is_encoder_decoder(model))
    recording = ChangedRun(names, arguments.example_counts(), 0, MemoryBudget(), observes=True, change=change)
    attention = transformers.observed_attention if transformers else nullcontext()
    with prepared(model), attention, recorded(recording, head_counts(model)):
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
