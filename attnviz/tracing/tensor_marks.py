"""Marks of the tensors of a forward pass, with all that is known of them, and labels of their axes."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias
from weakref import ref

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

LABELS = 251  # a prime, so that few slices of a label are constant
FEW = 64  # numbers of a tensor that are looked at before all of them

Facts: TypeAlias = frozenset[tuple[Any, ...]]


class Label:
    """A tensor that tells the places along one axis of another tensor apart, and is constant along all other axes.

    It is computed when it is needed: few are.
    """

    __slots__ = ("_axes", "compute")

    def __init__(self, compute: Callable[[], Tensor]) -> None:
        self.compute = compute
        self._axes: frozenset[int] | None = None

    @classmethod
    def from_axis(cls, tensor: Tensor, axis: int) -> "Label":
        return cls(partial(_counted, tensor.shape, axis % tensor.ndim, tensor.device))

    def changed(self, change: Callable[[Tensor], Tensor]) -> "Label":
        """Returns the label of what a change of shape makes of the tensor."""
        return Label(lambda: change(self.compute()))

    def expanded(self, shape: torch.Size) -> "Label":
        return self.changed(lambda one: one if one.shape == shape else one.expand(shape))

    def axes(self) -> frozenset[int]:
        """Returns the axes along which it is not constant."""
        if self._axes is None:
            label = self.compute()
            middle: list[Any] = [size // 2 for size in label.shape]
            lines = [label[(*middle[:i], slice(None), *middle[i + 1 :])] for i in range(label.ndim) if label.numel()]
            self._axes = frozenset(i for i, line in enumerate(lines) if bool((line != line[0]).any()))
        return self._axes


def _counted(shape: torch.Size, axis: int, device: torch.device) -> Tensor:
    places = (torch.arange(shape[axis], device=device) % LABELS).half()
    return places.reshape(places.shape + (1,) * (len(shape) - 1 - axis)).expand(shape)


@dataclass(eq=False)
class RecordedSoftmax:
    """Weights that are recorded when values are multiplied with them, or with what has become of them."""

    module: nn.Module
    shape: torch.Size  # (sequences, heads, queries, keys)
    own_shape: torch.Size  # as the model has it
    sides: Any  # of the layer, as patches tell them
    size: float | None = None  # of the weights that are recorded

    def places(self) -> Label:
        """Returns a label that tells all places apart."""
        return Label(lambda: torch.arange(self.own_shape.numel()).view(self.own_shape))

    def in_order(self, weights: Tensor, places: Tensor | None) -> Tensor | None:
        """Returns numbers at these places as (sequences, heads, queries, keys): of some heads, queries or keys, if the
        others are not there. None if they are no such numbers."""
        if places is None:
            return weights.reshape(self.shape)
        index, numbers = places.flatten(), weights.flatten()
        sizes = [*self.shape]
        if len(index) < self.shape.numel():  # a part along each axis
            parts = [one.unique(return_inverse=True) for one in torch.unravel_index(index, self.shape)]
            sizes = [len(kept) for kept, _ in parts]
            index = torch.zeros_like(index)
            for size, (_, place) in zip(sizes, parts, strict=True):
                index = index * size + place
        is_covered = torch.zeros(math.prod(sizes), dtype=torch.bool)
        is_covered[index] = True
        if len(index) != len(is_covered) or not bool(is_covered.all()) or sizes[0] != self.shape[0]:
            return None
        whole = torch.empty_like(numbers)
        whole[index.to(numbers.device)] = numbers
        return whole.view(sizes)


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """All that is known of a tensor."""

    weights: Label | None = None  # of the axis over which they are normalized
    source: nn.Module | None = None  # that computed them; None if they are recorded
    recorded: tuple["RecordedSoftmax", ...] = ()  # the softmaxes that they are made of, number by number
    places: Label | None = None  # in the first of these softmaxes, if theirs are others
    undropped: Label | None = None  # what they were before dropout
    is_log: bool = False  # logarithms of weights
    is_spread: bool = False  # weights that are multiplied with values and not summed yet
    is_gate: bool = False  # of a sigmoid, or of scores: weights that are normalized over no axis
    is_scores: bool = False  # products of tokens with tokens, or what a function makes of these, number by number
    is_constant: bool = False  # a parameter, a buffer or the like
    is_inverse: bool = False  # one divided by sums
    features: Label | None = None  # of an axis that parameters have made, or stacked branches
    family: object | None = None  # the same for what is the same up to its shape, masks and factors
    kin: frozenset[object] = frozenset()  # the softmaxes whose logits or weights are in it
    sums: Facts = frozenset()  # (family, length, whether of exponentials) of what is summed in it
    products: Facts = frozenset()  # (family, length, family of the other) of what is multiplied and summed in it

    @property
    def has_features_alone(self) -> bool:
        known = self.weights, self.is_gate, self.is_scores, self.is_inverse, self.family
        return not any((*known, self.kin, self.sums, self.products))

    @property
    def feature_axes(self) -> frozenset[int]:
        return self.features.axes() if self.features else frozenset()

    @property
    def weight_axes(self) -> frozenset[int]:
        return self.weights.axes() if self.weights else frozenset()

    def relabeled(self, change: Callable[[Tensor], Any]) -> "Mark":
        """Returns the mark of what a change of shape makes of the tensor."""
        places = self.places or (self.recorded[0].places() if self.recorded else None)
        weights, features, places, undropped = (
            one and one.changed(change) for one in (self.weights, self.features, places, self.undropped)
        )
        return replace(self, weights=weights, features=features, places=places, undropped=undropped)


CONSTANT, UNKNOWN = Mark(is_constant=True), Mark()


class Marks:
    """The marks of tensors, as long as these live."""

    def __init__(self, constants: Iterable[Tensor]) -> None:
        self._marks: dict[int, tuple[ref[Tensor], Mark]] = {}
        self._families: dict[tuple[Any, ...], tuple[StorageWeakRef, object]] = {}
        for tensor in constants:
            self[tensor] = CONSTANT

    def __getitem__(self, tensor: Any) -> Mark:
        reference, mark = self._marks.get(id(tensor), (None, UNKNOWN))
        if reference is not None and reference() is tensor:
            return mark
        return CONSTANT if isinstance(tensor, nn.Parameter) else UNKNOWN

    def __setitem__(self, tensor: Tensor, mark: Mark) -> None:
        key = id(tensor)
        self._marks[key] = ref(tensor, partial(self._forget, key)), mark

    def family(self, tensor: Tensor) -> object | None:
        """Returns the family of numbers that may be weights before they are normalized; None for constants and masks.

        A tensor shares it with its transpose.
        """
        mark = self[tensor]
        if mark.family is None and not mark.is_constant and tensor.is_floating_point() and not is_mask(tensor):
            storage = tensor.untyped_storage()
            key = storage._cdata, tensor.storage_offset(), tensor.numel()
            if key not in self._families or self._families[key][0].expired():
                self._families[key] = StorageWeakRef(storage), object()
            mark = self[tensor] = replace(mark, family=self._families[key][1])
        return mark.family

    def forget(self, result: Any) -> None:
        """Removes the marks of the tensors that a function has returned."""
        for tensor in result if isinstance(result, tuple | list) else [result]:
            self._marks.pop(id(tensor), None)

    def _forget(self, key: int, reference: "ref[Tensor]") -> None:
        if key in self._marks and self._marks[key][0] is reference:
            del self._marks[key]


def changed_part(
    function: Callable, others: tuple[Any, ...], kwargs: dict[str, Any], index: int, label: Tensor
) -> Tensor:
    """Returns a part of what a change of shape that gives several makes of a label."""
    parts: Sequence[Tensor] = function(label, *others, **kwargs)
    return parts[index]


def joined_label(
    function: Callable[..., Tensor], labels: Sequence[Label | None], shapes: Sequence[torch.Size], axis: int
) -> Label | None:
    """Returns the label of a tensor that is joined of several, some of which have one."""
    first = next((one for one in labels if one), None)
    return first and first.changed(
        lambda known: function(
            [
                one.compute() if one else known.new_zeros(()).expand(shape)
                for one, shape in zip(labels, shapes, strict=True)
            ],
            axis,
        )
    )


def is_mask(tensor: Tensor) -> bool:
    """Returns whether a tensor holds zeros and ones alone."""
    some = tensor[(0,) * (tensor.ndim - 1)][..., :FEW] if tensor.ndim and tensor.numel() else tensor
    return all(bool(((one == 0) | (one == 1)).all()) for one in (some, tensor))  # mostly some are enough for a no


def sums_to_one(tensor: Tensor, axis: int) -> bool:
    """Returns whether numbers are weights: not negative, with the sum 1 along an axis, and not those of plain means."""
    rows = tensor.movedim(axis, -1)
    tolerance = 16 * torch.finfo(tensor.dtype).eps * rows.shape[-1] ** 0.5
    some = rows[(0,) * (rows.ndim - 1)]
    for part in (some, rows):
        if bool((part < 0).any()) or bool(((part.float().sum(-1) - 1).abs() > tolerance).any()):
            return False
    return not bool(((rows == 0) | (rows == rows.amax(-1, keepdim=True))).all())
