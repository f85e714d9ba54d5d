"""The layers of forward passes that continue one cache: each pass adds the row of its token to the layers before.

The first pass is recorded in full. Of each later one, only the new queries, keys, values and outputs are, and the
weights of the new row are compared with the model's own, of all layers with the same mechanism at once.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from attnviz.base.formatting import significant
from attnviz.base.language import value_error
from attnviz.biases import Bias, Distances, SoftCap
from attnviz.inputs import Inputs, is_bounded
from attnviz.layer import Fidelity, Kind, Layer, LayerId
from attnviz.masks import Mask, Padding
from attnviz.masks.mask import Combined
from attnviz.mechanism import Attention, Mechanism
from attnviz.trace import Trace
from attnviz.trace.opaque_parts import CellTable, ModelMask
from attnviz.tracing.call import MASKED, Call
from attnviz.tracing.layer_naming import AxisTokens, with_unique_ids
from attnviz.tracing.mask_recognition import padding_mask, recognize_mask
from attnviz.tracing.memory_budget import MemoryBudget, NotCaptured
from attnviz.tracing.recording import Recording, current_recording
from attnviz.tracing.run_changes import LayerHeads, Run
from attnviz.tracing.verification import number_type_of, output_agreement

VECTORS = ("query", "key", "value")
FREE_PLACES = 64  # tokens, at first; tensors grow twice as large where they are used up


class GrownInputs(Inputs):
    """Inputs that are a part of larger tensors, whose numbers were checked when they came."""

    def _check_numbers(self, name: str, array: Tensor) -> None:
        pass


@dataclass(eq=False)
class ChangedHeads:
    """What heads write instead in a pass, with layers counted in the order of the first pass."""

    run: Run = ()
    counts: list[int] = field(default_factory=list)  # the heads of each layer
    _layers: dict[tuple[nn.Module, int], int] = field(default_factory=dict)  # by modules and their runs in a pass
    _runs: Counter[nn.Module] = field(default_factory=Counter)

    def begin_pass(self, run: Run) -> None:
        """Counts the runs of modules anew, of a pass with other changes."""
        self.run = run
        self._runs.clear()

    def output(self, module: nn.Module, output: Tensor) -> Tensor:
        """Returns the changed output (sequences, queries, heads, width) of the next call of attention in a pass. Raises
        ValueError if what heads read is to be changed."""
        layer = self._layers.setdefault((module, self._runs[module]), len(self._layers))
        self._runs[module] += 1
        if layer == len(self.counts):
            self.counts.append(output.shape[2])
        if acting := [each for each in self.run if layer in each.layers]:
            output = output.clone(memory_format=torch.contiguous_format)
            for each in acting:
                assert each.heads is not None
                each.heads(layer, LayerHeads(output, _unknown_call, lambda *_: _unknown_call(), 1, LayerId()), 0)
        return output


def _unknown_call() -> NoReturn:
    raise value_error(
        "What a head reads is not changed while a text is written. Change what it writes, or call attnviz.run for each "
        "token."
    )


@dataclass
class FirstPass(Recording):
    """The recording of a forward pass that fills a cache, with the calls of attention that others continue."""

    changed: ChangedHeads = field(default_factory=ChangedHeads)
    calls: dict[int, tuple[nn.Module, torch.dtype]] = field(default_factory=dict)  # by the index in `layers`

    def observe(self, call: Call, result: tuple[Any, ...], implementation: str = "") -> tuple[Any, ...]:
        before = len(self.layers)
        result = super().observe(call, result, implementation)
        if len(self.layers) > before and len(call.query) == 1 and not call.added_keys:
            self.calls[before] = call.module, number_type_of(call, result[0])
        return self.changed.output(call.module, result[0]), *result[1:]


@dataclass
class LaterPass(Recording):
    """The recording of the calls of attention of one token, which are read after the forward pass."""

    changed: ChangedHeads = field(default_factory=ChangedHeads)
    calls: list[tuple[Call, Tensor]] = field(default_factory=list)  # with their outputs (1, 1, heads, width)

    def observe(self, call: Call, result: tuple[Any, ...], implementation: str = "") -> tuple[Any, ...]:
        self.calls.append((call, result[0]))
        return self.changed.output(call.module, result[0]), *result[1:]

    def add_cached_keys(self, *_: Any) -> None:
        """Does nothing: the keys are those of the calls."""


@dataclass(eq=False)
class LayerStack:
    """Layers with one mechanism and equal shapes, whose vectors are stacked: (layers, heads, tokens, width)."""

    members: list[int]  # the indices of the layers
    mechanism: Mechanism
    is_cross: bool
    number_type: torch.dtype  # in which the model computes
    vectors: dict[str, Tensor]  # with free places at the end
    queries: int
    keys: int
    first_queries: int  # those of the first pass
    evicted: int = 0  # keys that the cache of the model does not hold any more
    tolerance: float = 0.0  # the largest difference that was allowed, as a share of the largest number

    @classmethod
    def from_layers(cls, layers: dict[int, Layer], number_type: torch.dtype, new_tokens: int) -> "LayerStack":
        """Stacks layers, with free places for the next of `new_tokens` further tokens, and removes them from `layers`
        one by one."""
        new_tokens = min(new_tokens, FREE_PLACES)
        members = [*layers]
        first = layers[members[0]]
        inputs, is_cross = first.inputs.vectors, first.kind is Kind.CROSS
        places = {"query": inputs.queries + new_tokens} | dict.fromkeys(
            VECTORS[1:], inputs.keys + new_tokens * (not is_cross)
        )
        vectors = {
            name: torch.empty(len(members), len(one), places[name], one.shape[2])
            for name, one in inputs.tensors.items()
        }
        for row, member in enumerate(members):
            for name, one in layers.pop(member).inputs.tensors.items():
                vectors[name][row, :, : one.shape[1]] = one
        queries, keys = inputs.queries, inputs.keys
        return cls(members, first.known_mechanism, is_cross, number_type, vectors, queries, keys, queries)

    def split(self, members: Sequence[int]) -> "LayerStack":
        """Returns a stack of some of the layers."""
        rows = [self.members.index(member) for member in members]
        return replace(self, members=[*members], vectors={name: one[rows] for name, one in self.vectors.items()})

    def append(self, calls: Sequence[tuple[Call, Tensor]], row: "AddedRow", budget: MemoryBudget) -> dict[int, str]:
        """Adds the row of one token. Returns the layers that cannot be shown with it, and why. Raises NotCaptured if
        that is so for all, since no mechanism is known for it."""
        reasons: dict[int, str] = {}
        for name in ("query",) if self.is_cross else VECTORS:
            added = _stacked([getattr(call, name)[0, :, -1] for call, _ in calls])
            for one, member in () if is_bounded(added) else zip(added, self.members, strict=True):
                if not is_bounded(one):
                    reasons[member] = "it computes with numbers that are not finite, or too large"
                    one.zero_()
            self.vectors[name] = _with_places(self.vectors[name], self.queries + 1)
            self.vectors[name][:, :, self.queries] = added
        self._fit_biases(row.bias)
        self._fit_mask(row.allowed, budget)
        self.queries += 1
        self.keys = self.keys if self.is_cross else self.keys + 1
        self.evicted = self.keys - calls[0][0].lengths[1]
        outputs = _stacked([output[0, -1] for _, output in calls])[:, :, None]
        attention = self._last_row(row.allowed)
        value = self.vectors["value"][:, :, : self.keys]
        same, tolerance = output_agreement(attention, value, outputs, self.number_type)
        self.tolerance = max(self.tolerance, float(tolerance.max()))
        for member, is_same in zip(self.members, same.flatten(1).all(1).tolist(), strict=True):
            if not is_same:
                reasons.setdefault(member, "its output is not what its queries, keys and values give here")
        return reasons

    def _last_row(self, allowed: Tensor) -> Attention:
        """Returns the attention (layers, heads, 1, …) of the last query of all layers."""
        heads, last = self.vectors["query"].shape[1], self.queries - 1
        positions = torch.zeros(1, dtype=torch.long), torch.arange(heads)[:, None, None], torch.tensor([[last]])
        bound = self.mechanism.bind(self.queries, self.keys, heads)
        query = self.vectors["query"][:, :, last : last + 1]
        key, value = (self.vectors[name][:, :, : self.keys] for name in ("key", "value"))
        return bound.stages(query, key, value, allowed, (*positions, torch.arange(self.keys)))

    def _fit_mask(self, allowed: Tensor, budget: MemoryBudget) -> None:
        """Makes the mask one that also allows the next query these keys (keys,), and no query before the new key."""
        queries, keys, grows = self.queries, self.keys, not self.is_cross
        mask = resized(self.mechanism.mask, keys + grows)
        zero, k = torch.tensor(0), torch.arange(keys + grows)
        bound = mask.bind(queries + 1, keys + grows, 1)
        row = bound(zero, zero, torch.tensor([[queries]]), k).expand(1, len(k))[0]
        column = bound(zero, zero, torch.arange(queries)[:, None], k[-1:]) if grows else torch.tensor(False)
        if not torch.equal(row, allowed) or bool(column.any()):
            cells = torch.zeros(queries + 1, keys + grows, dtype=torch.bool)
            cells[:queries, :keys] = self.mechanism.mask.matrix(queries, keys)
            cells[queries] = allowed
            known = recognize_mask(lambda first, last: cells[first:last], *cells.shape)
            if known is None:
                budget.reserve(cells.nbytes, "the model's mask")
            mask = known or ModelMask(CellTable(cells[None, None], *cells.shape))
        self.mechanism = replace(self.mechanism, mask=mask)

    def _fit_biases(self, bias: Tensor | None) -> None:
        """Makes a bias of distances one that also has the numbers (heads, keys) of the next query."""
        tables = [one for one in self.mechanism.biases if isinstance(one, Distances)]
        new = [] if bias is None else [bias]
        if len(tables) != len(new) or not all(map(_continues, tables, new)):
            raise NotCaptured("what it adds to its scores depends on more than distances")
        if bias is not None:
            [old] = tables
            # A query that comes before a key does not attend to it: the number for that distance is never used.
            table = torch.cat([bias[:, :1], old.table, old.table[:, -1:]], 1)
            longer = Distances(table, old.queries + 1)
            biases = tuple(longer if one is old else one for one in self.mechanism.biases)
            self.mechanism = replace(self.mechanism, biases=biases)

    def layer(self, id: LayerId, comparison: str, row: int, queries: int, axes: tuple[AxisTokens, AxisTokens]) -> Layer:
        """Returns a layer up to a number of queries; `comparison` is that of the first pass."""
        keys = self.keys if self.is_cross else self.keys - self.queries + queries
        lengths = {"query": queries, "key": keys, "value": keys}
        query, key, value = (self.vectors[name][row, :, : lengths[name]] for name in VECTORS)
        side, other = (axis.with_length(count) for axis, count in zip(axes, (queries, keys), strict=True))
        tokens, special, ids = ((getattr(side, part), getattr(other, part)) for part in ("tokens", "special", "ids"))
        inputs = GrownInputs(query, key, value, *tokens, *special, *ids, side.grids, other.grids)
        biases = tuple(bias_of_first(bias, queries) for bias in self.mechanism.biases)
        mechanism = replace(self.mechanism, mask=resized(self.mechanism.mask, keys), biases=biases)
        new = queries - self.first_queries
        if new > 0:
            comparison += (
                f" The outputs of {new} later quer{'ies' if new > 1 else 'y'} differ by at most "
                f"{significant(100 * self.tolerance, 2)}% of the largest."
            )
        kind = Kind.CROSS if self.is_cross else Kind.CAUSAL
        return Layer(id, kind, inputs, mechanism, Fidelity.VERIFIED, "", comparison)


class AddedRow(NamedTuple):
    """What the scores of a new query are combined with."""

    allowed: Tensor  # which of all keys so far (keys,) it may attend to
    bias: Tensor | None  # (heads, keys), or None if nothing is added


class GrowingLayers:
    """The layers of a first pass, and of those that continue its cache."""

    def __init__(self, first: FirstPass, new_tokens: int) -> None:
        """Takes the layers out of the recording of a first pass, with free places for further tokens."""
        self.missing: dict[int, str] = {}  # sentences, by the layer
        self._budget = first.budget
        self._recording = LaterPass(
            first.names, first.example_counts, 0, first.budget, observes=True, changed=first.changed
        )
        self._places: dict[tuple[nn.Module, int], int] = {}  # the layers, by their modules and the runs of these
        layers = dict(enumerate(with_unique_ids(first.layers)))
        first.layers.clear()
        self._known = {index: (layer.id, layer.comparison) for index, layer in layers.items()}
        runs: Counter[nn.Module] = Counter()
        groups: dict[Any, list[int]] = {}
        for index, (module, number_type) in first.calls.items():
            layer = layers[index]
            if not first.names.is_of_decoder(layer.id.stack):
                continue
            self._places[module, runs[module]] = index
            runs[module] += 1
            shapes = tuple(tensor.shape for tensor in layer.inputs.tensors.values())
            key = layer.mechanism, shapes, layer.kind is Kind.CROSS, number_type
            groups.setdefault(key, []).append(index)
        self._stacks = [
            LayerStack.from_layers({index: layers.pop(index) for index in members}, number_type, new_tokens)
            for (*_, number_type), members in groups.items()
        ]
        self._static = layers  # those of an encoder

    @staticmethod
    def can_follow(first: FirstPass) -> bool:
        """Returns whether all layers of a first pass that grow have queries and keys to which others can be added."""
        simple = (
            (index in first.calls and _is_simple(layer)) or not first.names.is_of_decoder(layer.id.stack)
            for index, (layer, _) in enumerate(first.layers)
        )
        return bool(first.layers) and not first.missing.sentences(first.layers) and all(simple)

    @contextmanager
    def next_pass(self, run: Run) -> Iterator[None]:
        """Records a forward pass of one token, with changes, within the context, and adds its row to the layers."""
        recording = self._recording
        recording.calls.clear()
        recording.changed.begin_pass(run)
        token = current_recording.set(recording)
        try:
            yield
        finally:
            current_recording.reset(token)
        with torch.autocast("cpu", enabled=False):  # the model's autocast is its own
            self._append(recording.calls)
        recording.calls.clear()

    def trace(self, queries: int, target: AxisTokens, source: AxisTokens) -> Trace:
        """Returns the layers up to a number of queries, with the tokens of these, and of the encoder's text."""
        layers = dict(self._static)
        for stack in self._stacks:
            axes = target, source if stack.is_cross else target
            for row, index in enumerate(stack.members):
                layers[index] = stack.layer(*self._known[index], row, queries, axes)
        shown = tuple(layer for index, layer in sorted(layers.items()) if index not in self.missing)
        return Trace(shown, tuple(self.missing.values()))

    @property
    def evicted(self) -> dict[str, int]:
        """How many keys, the oldest, each layer attends to no more since the cache of the model has dropped them."""
        return {
            str(self._known[index][0]): stack.evicted
            for stack in self._stacks
            for index in stack.members
            if stack.evicted and index not in self.missing
        }

    def _append(self, calls: Sequence[tuple[Call, Tensor]]) -> None:
        runs: Counter[nn.Module] = Counter()
        by_layer: dict[int, tuple[Call, Tensor]] = {}
        for call, output in calls:
            index = self._places.get((call.module, runs[call.module]))
            runs[call.module] += 1
            if index is not None:
                by_layer[index] = call, output
        masks: dict[tuple[int, int, int], Tensor | None] = {}  # which layers share, by their tensors
        stacks = []
        for stack in self._stacks:
            rows: dict[tuple[bytes, int], tuple[AddedRow, list[int]]] = {}
            for index in stack.members:
                if index not in by_layer:
                    self._drop(index, "it did not run for every token")
                    continue
                call = by_layer[index][0]
                if call.lengths[0] != 1 or len(call.query) != 1:
                    self._drop(index, "it ran for other tokens than the new one")
                    continue
                keys = stack.keys + (not stack.is_cross)
                shared = id(call.mask), call.lengths[1], keys
                if shared not in masks:
                    masks[shared] = keys_of_last_query(call, keys)
                allowed, bias = masks[shared], call.options.get("position_bias")
                if allowed is None:
                    self._drop(index, "its mask adds numbers to its scores, or is that of other keys")
                    continue
                row = AddedRow(allowed, None if bias is None or not bool(bias.any()) else bias[0, :, -1].float().cpu())
                rows.setdefault((allowed.numpy().tobytes(), id(bias)), (row, []))[1].append(index)
            for row, members in rows.values():
                part = stack if members == stack.members else stack.split(members)
                try:
                    reasons = part.append([by_layer[index] for index in members], row, self._budget)
                    stacks.append(part)
                except NotCaptured as reason:
                    reasons = dict.fromkeys(members, str(reason))
                for index, why in reasons.items():
                    self._drop(index, why)
        self._stacks = stacks

    def _drop(self, index: int, reason: str) -> None:
        self.missing.setdefault(index, f"{self._known[index][0]} is not shown: {reason}.")


def resized(mask: Mask, keys: int) -> Mask:
    """Returns a mask for another number of keys: those beyond its padding are real."""
    if isinstance(mask, Padding) and isinstance(mask.keys, tuple) and len(mask.keys) != keys:
        real = (*mask.keys, *[True] * keys)[:keys]
        return padding_mask(torch.tensor(real)) or Padding(real)
    if isinstance(mask, Combined):
        left, right = resized(mask.left, keys), resized(mask.right, keys)
        return mask if left is mask.left and right is mask.right else replace(mask, left=left, right=right)
    return mask


def bias_of_first(bias: Bias, queries: int) -> Bias:
    """Returns a bias for the first of equally many queries and keys.

    Example:
        >>> whole = Distances(torch.tensor([[-2.0, -1.0, 0.0, 1.0, 2.0]]), queries=3)
        >>> bias_of_first(whole, 2).table
        tensor([[-1.,  0.,  1.]])
    """
    if not isinstance(bias, Distances) or bias.queries == queries:
        return bias
    cut = bias.queries - queries
    return Distances(bias.table[:, cut : bias.table.shape[1] - cut], queries)


def _continues(table: Distances, bias: Tensor) -> bool:
    """Returns whether the numbers (heads, keys) of the next query are those of the same distances in a table."""
    return torch.equal(table.table[:, : table.queries], bias[:, 1:])


def _is_simple(layer: Layer) -> bool:
    """Returns whether it is known how a mechanism goes on for further tokens: no bias is a table of this example."""
    is_verified = layer.fidelity is Fidelity.VERIFIED
    return is_verified and all(isinstance(bias, SoftCap | Distances) for bias in layer.known_mechanism.biases)


def keys_of_last_query(call: Call, keys: int) -> Tensor | None:
    """Returns which of all keys so far (keys,) the last query may attend to; keys that a cache has dropped are the
    oldest. None if the mask does more, or there are more keys."""
    count = call.lengths[1]
    if count > keys:
        return None
    row = torch.ones(count, dtype=torch.bool)
    if call.mask is not None:
        cells = call.mask.reshape(-1, call.mask.shape[-1])[-1, -count:].cpu()
        row = cells if cells.dtype == torch.bool else cells > MASKED
        if cells.dtype != torch.bool and bool(cells[row].any()):
            return None
    return torch.cat([torch.zeros(keys - count, dtype=torch.bool), row])


def _stacked(rows: Sequence[Tensor]) -> Tensor:
    return torch.stack([*rows]).detach().float().cpu()


def _with_places(stack: Tensor, tokens: int) -> Tensor:
    """Returns vectors (layers, heads, tokens, width) with places for `tokens`, in a larger tensor if need be."""
    if tokens <= stack.shape[2]:
        return stack
    larger = stack.new_empty(*stack.shape[:2], 2 * tokens, stack.shape[3])
    larger[:, :, : stack.shape[2]] = stack
    return larger
