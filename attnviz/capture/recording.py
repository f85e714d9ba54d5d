"""What one forward leaves: its layers, in the order in which they ran."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor, nn

from attnviz.capture.call import INDICES, Call
from attnviz.capture.fp16_values import lightened
from attnviz.capture.layer_naming import Names, with_unique_ids
from attnviz.capture.mechanism_builder import Parts
from attnviz.capture.memory_budget import Room, Unshown
from attnviz.capture.verification import Probe
from attnviz.inputs import Inputs
from attnviz.layer import Fidelity, Kind, Layer
from attnviz.masks import Mask
from attnviz.mechanism import Mechanism, blocks
from attnviz.normalizers import Identity
from attnviz.scores import Dot

FINISHED = (
    "These are weights as the model itself computed them, without the queries and keys that they come from: the "
    "score, the mask and the normalizer cannot be changed."
)

# Told the place of an attention among those that ran, what goes into it and how it attends: another mechanism with the
# output (heads, queries, width) that it gives, or None.
Exchange: TypeAlias = Callable[[int, Inputs, Mechanism], tuple[Mechanism, Tensor] | None]


@dataclass
class Record:
    names: Names
    examples: int  # in the batch
    example: int  # the one that is shown
    room: Room
    exchange: Exchange | None = None
    layers: list[tuple[Layer, str]] = field(default_factory=list)  # with the paths of their modules
    missing: dict[str, tuple[str, str]] = field(default_factory=dict)  # by its module's path, a layer's name, and why
    chose: bool = False  # the model chose keys in a form that its own attention alone understands
    busy: bool = False  # inside an attention that is being recorded

    def __post_init__(self) -> None:
        self._parts = Parts(self.room)
        self._identities: dict[int, Tensor] = {}

    @contextmanager
    def recording(self, module: nn.Module) -> Iterator[None]:
        """Nothing inside is recorded a second time, and what cannot be shown is said."""
        before, self.busy = self.busy, True
        try:
            yield
        except Unshown as reason:
            self.missing[self.names.modules[module]] = str(self.names.layer_id(module)), str(reason)
        finally:
            self.busy = before

    def interface(self, call: Call) -> Tensor:
        """Keeps what a call is computed from, and gives its output (sequences, queries, heads, width)."""
        self.chose |= any(call.more.get(name) is not None for name in INDICES)
        with self.recording(call.module):
            output = call.output()
            sequences = self._sequences(len(call.query))
            probe = Probe.of(call, sequences) if call.own() else None
            if probe and not probe.computed(output, sequences):
                output = torch.cat([call.rows(*part)[0] for part in blocks(call.lengths[0])], dim=1)
            inputs, mechanism = self._inputs(call, sequences), self._parts.mechanism(call, sequences)
            if probe is None or probe.explained(mechanism, inputs):
                mechanism, output = self._exchanged(inputs, mechanism, output, sequences)
                self._add(call.module, inputs, mechanism, Fidelity.VERIFIED if probe else Fidelity.UNVERIFIED)
            else:
                self._give_up(call, sequences)
        return output

    def computed(self, call: Call, output: Tensor) -> Tensor:
        """Keeps what an attention is computed from that torch itself has computed, and gives its output."""
        with self.recording(call.module):
            sequences = self._sequences(len(call.query))
            inputs, mechanism = self._inputs(call, sequences), self._parts.mechanism(call, sequences)
            if not Probe.of(call, sequences, output).explained(mechanism, inputs):
                raise Unshown("its output is not what its queries, keys and values give here")
            mechanism, output = self._exchanged(inputs, mechanism, output, sequences)
            self._add(call.module, inputs, mechanism, Fidelity.VERIFIED)
        return output

    def _exchanged(
        self, inputs: Inputs, mechanism: Mechanism, output: Tensor, sequences: slice
    ) -> tuple[Mechanism, Tensor]:
        """The mechanism and the output (sequences, queries, heads, width) after what is asked for instead."""
        other = self.exchange and self.exchange(len(self.layers), inputs, mechanism)
        if not other:
            return mechanism, output
        after, attended = other
        output = output.clone()
        output[sequences] = attended.transpose(0, 1).reshape(output[sequences].shape).to(output)
        return after, output

    def finished(self, module: nn.Module, weights: Tensor) -> None:
        """Keeps weights (sequences, heads, queries, keys) that the model itself has computed."""
        with self.recording(module):
            of_example = weights[self._sequences(len(weights))]
            kept = self._room_for(*of_example.shape)
            for group, one in enumerate(of_example):
                kept[group, :, :, group] = one
            self._keep(module, kept)

    def _give_up(self, call: Call, sequences: slice) -> None:
        """Keeps the weights of the model's own function, where no mechanism gives them."""
        (queries, keys), groups = call.lengths, range(sequences.stop - sequences.start)
        kept = self._room_for(len(groups), call.query.shape[1], queries, keys)
        for first, last in blocks(queries):
            for group, weights in zip(groups, call.rows(first, last, sequences)[1], strict=True):
                kept[group, :, first:last, group] = weights
        self._keep(call.module, kept)

    def _room_for(self, groups: int, heads: int, queries: int, keys: int) -> Tensor:
        """Weights of sequences that do not see each other: (groups, heads, queries, groups, keys)."""
        self.room.take(4 * groups**2 * heads * queries * keys, "its weights")
        return torch.zeros(groups, heads, queries, groups, keys)

    def captured(self) -> list[Layer]:
        """All layers, but none of a module of which a part cannot be shown: the rest of it would mislead."""
        return lightened(with_unique_ids([one for one in self.layers if one[1] not in self.missing]))

    def unshown(self) -> list[str]:
        """What is not shown and why, in a sentence each."""
        shown = {layer.name for layer, path in self.layers if path not in self.missing}
        return [
            f"{'A part of ' if name in shown else ''}{name} is not shown: {reason}."
            for name, reason in self.missing.values()
        ]

    def _sequences(self, count: int) -> slice:
        """Which of so many sequences are of the example: windows and pictures come several to an example."""
        if count == 1:
            return slice(0, 1)
        if count % self.examples:
            raise Unshown(f"its {count} sequences cannot be told apart by example. Give it one example at a time")
        groups = count // self.examples
        return slice(self.example * groups, (self.example + 1) * groups)

    def _inputs(self, call: Call, sequences: slice) -> Inputs:
        query, key, value = (_own(tensor[sequences]) for tensor in (call.query, call.key, call.value))
        return self._named(call.module, query, key, value)

    def _named(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor) -> Inputs:
        (of_queries, specials), (of_keys, special_keys) = self.names.sides(module, query.shape[1], key.shape[1])
        try:
            return Inputs(query, key, value, of_queries, of_keys, specials, special_keys)
        except ValueError as error:
            raise Unshown(str(error).rstrip(".")) from error

    def _keep(self, module: nn.Module, weights: Tensor) -> None:
        """Finished weights as queries of an identity matrix."""
        whole = weights.transpose(0, 1).flatten(3).flatten(1, 2)
        keys = whole.shape[-1]
        identity = self._identities.setdefault(keys, torch.eye(keys)[None])
        inputs = self._named(module, whole, identity, identity)
        self._add(module, inputs, Mechanism(score=Dot(), normalizer=Identity()), Fidelity.WEIGHTS_ONLY, FINISHED)

    def _add(
        self, module: nn.Module, inputs: Inputs, mechanism: Mechanism, fidelity: Fidelity, locked_reason: str = ""
    ) -> None:
        cross = self.names.cross(module) or inputs.queries != inputs.keys
        back = _weighs_back(inputs.query) if locked_reason else _looks_back(mechanism.mask, inputs.queries, inputs.keys)
        kind = Kind.CROSS if cross else Kind.CAUSAL if back and inputs.queries > 1 else Kind.SELF
        layer = Layer(self.names.layer_id(module), kind, inputs, mechanism, fidelity, locked_reason)
        self.layers.append((layer, self.names.modules[module]))


def _looks_back(mask: Mask, queries: int, keys: int) -> bool:
    """Whether no query sees a later key, read off the mask at the first query and at one in the middle."""
    some, k = torch.tensor([[0], [queries // 2]]), torch.arange(keys)
    seen = mask.bind(queries, keys, 1)(torch.tensor(0), torch.tensor(0), some, k).expand(2, keys)
    return not bool((seen & (k > some)).any())


def _weighs_back(weights: Tensor) -> bool:
    """Whether no query weighs a later key, but for rows of padding, which many models weigh evenly."""
    uneven = weights.amax(-1) > weights.amin(-1)
    return not bool(weights.triu(1).any(-1)[uneven].any())


def _own(tensor: Tensor) -> Tensor:
    """Sequences (sequences, heads, tokens, width) as one, in numbers of its own that keep nothing else alive."""
    whole = tensor.transpose(0, 1).flatten(1, 2).float().cpu()
    return whole.clone(memory_format=torch.contiguous_format)


current: ContextVar[Record | None] = ContextVar("attnviz_record", default=None)
