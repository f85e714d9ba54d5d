"""The arguments of a model's attention as a Mechanism."""

import math
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attnviz.biases import Bias, Distances, SoftCap
from attnviz.inputs import Inputs
from attnviz.masks import Causal, Full, Mask, parse
from attnviz.mechanism import Mechanism, blocks
from attnviz.normalizers import Normalizer, Sink, Softmax
from attnviz.scores import ScaledDot
from attnviz.trace.opaque_parts import CellTable, ModelBias, ModelMask
from attnviz.tracing.added_mask import AddedMask
from attnviz.tracing.call import Call
from attnviz.tracing.lazy_mask import LazyMask
from attnviz.tracing.mask_recognition import AllowedRows, agrees, padding_mask, recognize_mask
from attnviz.tracing.memory_budget import MemoryBudget


class _Masking(NamedTuple):
    """The effect of a model's mask on scores."""

    mask: Mask
    biases: tuple[Bias, ...] = ()
    added: AddedMask | None = None  # where it is a tensor


class MechanismBuilder:
    """Builds mechanisms for the calls of one forward pass, which often share a mask or a bias."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self._cache: MutableMapping[Tensor, dict[int, Any]] = WeakTensorKeyDictionary()

    def mechanism(self, call: Call, sequences: slice, inputs: Inputs) -> tuple[Mechanism, str]:
        """Returns the mechanism of these sequences, concatenated, and sentences about keys that have weight although
        the model's mask meant to forbid them. Raises NotCaptured if there is none."""
        scaling, softcap, bias = (call.options.get(name) for name in ("scaling", "softcap", "position_bias"))
        masking = self._cached(call.mask, call, sequences, self._masking)
        if call.rule is not None:
            masking = _Masking(_of_sequences(call.rule, call, sequences.stop - sequences.start))
        biases = call.biases + ((SoftCap(float(softcap)),) if softcap else ())
        biases += () if bias is None else self._cached(bias, call, sequences, self._bias)
        mechanism = Mechanism(
            score=ScaledDot(_unusual_scale(scaling, call.query.shape[-1])),
            biases=biases + masking.biases,
            mask=masking.mask,
            normalizer=_normalizer(call),
        )
        if masking.added is None:
            return mechanism, ""
        scale = call.query.shape[-1] ** -0.5 if scaling is None else scaling
        largest = 0.0 if bias is None else float(bias.where(bias.isfinite(), 0).abs().max())
        rows = masking.added.doubtful_rows(inputs, scale, largest)
        return self._softened(mechanism, biases, masking.added, call, inputs, rows) if rows else (mechanism, "")

    def _softened(
        self, hard: Mechanism, biases: tuple[Bias, ...], mask: AddedMask, call: Call, inputs: Inputs, rows: list[int]
    ) -> tuple[Mechanism, str]:
        """Returns a mechanism in which the mask is a bias in those of these rows where it does not forbid what it is
        meant to, and sentences about that."""
        groups = inputs.queries // mask.queries

        def with_soft(rows: list[int]) -> Mechanism:
            soft = self._read_cells(mask.softened(rows, groups), call, groups)
            return replace(hard, mask=soft.mask, biases=biases + soft.biases)

        soft = with_soft(rows)
        leaking, leak = mask.leaks(soft, inputs, rows)
        return soft if leaking == rows else with_soft(leaking) if leaking else hard, leak

    def _cached(self, tensor: Tensor | None, call: Call, sequences: slice, read: Any) -> Any:
        if tensor is None:
            return read(tensor, call, sequences)
        known = self._cache.setdefault(tensor.original if isinstance(tensor, LazyMask) else tensor, {})
        if sequences.start not in known:
            known[sequences.start] = read(tensor, call, sequences)
        return known[sequences.start]

    def _masking(self, tensor: Tensor | None, call: Call, sequences: slice) -> _Masking:
        queries, groups = call.lengths[0], sequences.stop - sequences.start
        if tensor is None:
            return _Masking(Full() if groups == 1 else _same_sequence(call))
        if isinstance(tensor, LazyMask):  # it forbids by the least number of its type
            if groups == 1:
                return _Masking(_read_lazy_mask(tensor, sequences.start, self.budget))
            tensor = tensor.rows(0, queries)
        return self._read_cells(AddedMask(_sequence_cells(tensor, call, sequences), queries), call, groups)

    def _read_cells(self, added: AddedMask, call: Call, groups: int) -> _Masking:
        (queries, keys), allowed = call.lengths, added.allowed
        biases = self._bias(added.cells.where(allowed, 0), call, slice(0, groups)) if added.is_added else ()
        same = allowed[:1, :1]
        mask = None
        if torch.equal(same.expand_as(allowed), allowed):
            rows = same[0, 0].expand(queries, keys)
            mask = recognize_mask(lambda first, last: rows[first:last], queries, keys)
        if mask is None or (groups > 1 and mask != Full()):
            self.budget.reserve(allowed.nbytes, "the model's mask")
            mask = ModelMask(CellTable(allowed.clone(), queries, keys))
        if groups > 1:
            mask = _same_sequence(call) if mask == Full() else _same_sequence(call) & mask
        return _Masking(mask, biases, added)

    def _bias(self, tensor: Tensor, call: Call, sequences: slice) -> tuple[Bias, ...]:
        cells = _sequence_cells(tensor, call, sequences).float()
        if not bool(cells.any()):
            return ()
        if len(cells) == 1 and (distances := _distance_table(cells[0].expand(-1, *call.lengths))) is not None:
            heads = call.query.shape[1]
            return (Distances(distances.expand(heads, -1).clone(), call.lengths[0]),)
        self.budget.reserve(cells.nbytes, "what the model adds to its scores")
        return (ModelBias(CellTable(cells.clone(), *call.lengths)),)


def _unusual_scale(scale: float | None, width: int) -> float | None:
    """Returns what scores are scaled by, or None if it is 1/√width, however that is rounded."""
    return None if scale is None or math.isclose(scale, width**-0.5, rel_tol=1e-12) else float(scale)


def _same_sequence(call: Call) -> Mask:
    """Returns the mask of several sequences, concatenated, which do not attend to each other."""
    queries, keys = call.lengths
    return parse(f"q // {queries} == k // {keys}")


def _of_sequences(rule: Mask, call: Call, groups: int) -> Mask:
    """Returns the rule of one sequence for several, concatenated, which do not attend to each other."""
    (queries, keys), same_sequence = call.lengths, _same_sequence(call)
    if groups == 1:
        return rule
    if rule == Full() or (rule == Causal() and queries == keys):
        return same_sequence if rule == Full() else same_sequence & rule
    bound = rule.bind(queries, keys, call.query.shape[1])
    return same_sequence & ModelMask(lambda b, h, q, k: bound(b, h, q % queries, k % keys))


def _read_lazy_mask(mask: LazyMask, example: int, budget: MemoryBudget) -> Mask:
    """Returns the mask of the catalogue that equals a lazy mask, or the model's rule itself."""
    queries, keys = mask.shape[2:]
    if known := mask.rule():
        real = mask.real_keys(example)
        padding = None if real is None else padding_mask(real)
        return known if padding is None else padding if known == Full() else known & padding

    def allowed(first: int, last: int) -> Tensor:
        return mask.allowed(example, first, last)

    return recognize_mask(allowed, queries, keys) or _rule_mask(mask, example, allowed, budget)


def _rule_mask(mask: LazyMask, example: int, allowed: AllowedRows, budget: MemoryBudget) -> Mask:
    """Returns the model's rule as a mask, if it can be computed at any positions; else a table of its values."""
    function, real = mask.arguments["mask_function"], mask.real_keys(example)
    queries, keys = mask.shape[2:]
    rule: Mask = ModelMask(lambda b, h, q, k: function(*(x.to(mask.device) for x in (b + example, h, q, k))).cpu())
    if real is not None and (padding := padding_mask(real)):
        rule = rule & padding
    if not mask.arguments.get("use_vmap") and all(
        agrees(rule, allowed, q, q + 1, keys) for q in {0, queries // 2, queries - 1}
    ):
        return rule
    budget.reserve(queries * keys, "the model's mask")
    cells = torch.cat([allowed(*part) for part in blocks(queries)])
    return ModelMask(CellTable(cells[None, None], queries, keys))


def _sequence_cells(tensor: Tensor, call: Call, sequences: slice) -> Tensor:
    """Returns the part of a mask or bias for these sequences: (groups or 1, heads or 1, queries or 1, keys)."""
    tensor = tensor.reshape((1,) * (4 - tensor.ndim) + tensor.shape)[..., : call.lengths[1]]
    return (tensor if len(tensor) == 1 else tensor[sequences]).cpu()


def _distance_table(cells: Tensor) -> Tensor | None:
    """Returns the numbers (heads, queries + keys − 1) of a bias that depends on k − q alone, or None."""
    _, queries, keys = cells.shape
    numbers = torch.cat([cells[:, :, 0].flip(1), cells[:, 0, 1:]], dim=1)
    rows = numbers.unfold(1, keys, 1)  # the last query's comes first
    same = (
        torch.equal(cells[:, first:last], rows[:, queries - last : queries - first].flip(1))
        for first, last in blocks(queries)
    )
    return numbers if all(same) else None


def _normalizer(call: Call) -> Normalizer:
    sinks = call.options.get("s_aux") if call.options.get("s_aux") is not None else call.options.get("sinks")
    if sinks is None or sinks.numel() != call.query.shape[1]:  # sinks that differ by query are found by the check
        return Softmax()
    return Sink(sinks.detach().float().flatten().cpu().clone())
