"""Recognition of attention by what is computed: values are summed with weights that are normalized over tokens.

Functions of torch are followed while a model runs. A softmax, or a division by a sum of the same numbers, marks its
result, and the mark goes on to what is made of it by changes of shape, dropout, masks and the like. A product with
values that is summed over the normalized axis is attention, unless that axis is one of features, experts or classes.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, permutations
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Size, Tensor, nn

from attnviz.tracing.contractions import Contraction, einsum_axes, linear_axes, matmul_axes
from attnviz.tracing.tensor_marks import (
    CONSTANT,
    UNKNOWN,
    Facts,
    Label,
    Mark,
    Marks,
    changed_part,
    is_mask,
    joined_label,
    sums_to_one,
)

Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]

OPERANDS = ("input", "self", "other", "mat1", "mat2", "vec", "batch1", "batch2", "tensors", "weight")
FORGOTTEN = (RuntimeError, TypeError, ValueError, LookupError, AttributeError)  # a label cannot go on as its tensor did
ATTENTION_OPERATOR = re.compile("attention|transformer_encoder_layer")


class RunningModule(NamedTuple):
    """A module that runs."""

    module: nn.Module
    shapes: tuple[Size, ...]  # of its inputs of floating-point numbers
    token_counts: frozenset[int]  # numbers of tokens that its inputs may have


class WeightedSums:
    """Finds the modules that sum values with normalized weights, by the functions of torch that they call.

    `modules` has, for each of them, the number of keys and the module that computed the weights.
    """

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        self.modules: dict[nn.Module, tuple[int, nn.Module]] = {}
        self._marks = Marks(buffers)
        self._running: Sequence[RunningModule] = ()

    def follow(self, function: Any, args: Args, kwargs: Kwargs, result: Any, running: Sequence[RunningModule]) -> None:
        """Follows a function that the last of the running modules has called."""
        name = _name(function)
        rule = RULES.get(name)
        if rule is None:
            if type(function).__module__ == "torch._ops" and ATTENTION_OPERATOR.search(name):
                self._running = running
                self._find(0)
            return
        self._running = running
        if kwargs:
            named = tuple(kwargs[one] for one in OPERANDS if one in kwargs)
            args, kwargs = (*named, *args), {key: one for key, one in kwargs.items() if key not in OPERANDS}
        try:
            with torch._C.DisableTorchFunction():  # other modes follow the model alone
                rule(self, function, args, kwargs, result)
        except FORGOTTEN:  # the forward pass goes on, and nothing is known of what this call has made
            self._marks.forget(result)

    def set_recorded(self, weights: Tensor) -> None:
        """Says that these weights are recorded, so that their products with values are not missing."""
        self._marks[weights] = replace(self._marks[weights], source=None)

    def _find(self, length: int, source: nn.Module | None = None) -> None:
        module = self._running[-1][0]
        self.modules.setdefault(module, (length, source or module))

    def _is_token_axis(self, mark: Mark, axis: int, values: Tensor, values_axis: int) -> bool:
        """Returns whether the axis that weights share with values is one of tokens, not of features or branches."""
        of_values = self._marks[values]
        made = (axis in mark.feature_axes, values_axis in of_values.feature_axes)
        if of_values.is_constant or all(made):
            return False
        return not any(made) or (not mark.is_gate and self._is_token_count(values.shape[values_axis]))

    def _is_token_count(self, length: int) -> bool:
        return any(length in one.token_counts for one in self._running)

    # Weights

    def softmax(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        name = _name(function)
        axis = kwargs.get("dim", next(iter(args[4 if name == "gumbel_softmax" else 1 :]), None))
        if not isinstance(axis, int) or not result.ndim:
            return
        mark = self._marks[args[0]]
        mark = self._marks[args[0]] = replace(mark, kin=mark.kin or frozenset([object()]))
        weights = Label.from_axis(result, axis)
        features = weights if mark.is_constant else mark.features
        source = self._running[-1][0]
        self._marks[result] = Mark(weights, source, is_log="log" in name, features=features, kin=mark.kin)

    def sigmoid(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        features, source = self._marks[args[0]].features, self._running[-1][0]
        self._marks[result] = Mark(source=source, is_gate=True, features=features)

    def exp(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        mark = self._marks[args[0]]
        if mark.is_log:
            self._marks[result] = replace(mark, is_log=False)
        else:
            self.activation(function, args, kwargs, result)

    def divide(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        self.elementwise(function, args, kwargs, result)
        self._normalize(args, result)

    def subtract(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        self.elementwise(function, args, kwargs, result)
        self._normalize(args, result, is_log=True)

    def invert(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        self._marks[result] = Mark(is_inverse=True, sums=self._marks[args[0]].sums)

    def _normalize(self, args: Args, result: Tensor, is_log: bool = False) -> None:
        """Marks the first of two tensors as weights if it is divided by its own sum, which is the second.

        With logarithms, it is subtracted. What is made of products with such weights may be divided, too.
        """
        if len(args) < 2 or not isinstance(args[0], Tensor) or not isinstance(args[1], Tensor):
            return
        tensor, total = args[:2]
        mark, sums = self._marks[tensor], self._marks[total].sums
        own = [length for family, length, logs in sums if family is mark.family and logs is is_log]
        sizes = (1,) * (tensor.ndim - total.ndim) + tuple(total.shape)
        axes = [axis for axis in range(tensor.ndim) if sizes[axis] == 1 < tensor.shape[axis] in own]
        if own and axes:
            weights, source = Label.from_axis(result, axes[-1]), self._running[-1][0]
            self._marks[result] = Mark(weights, source, is_log=is_log, features=mark.features, kin=mark.kin)
        elif not is_log:
            self._find_divided(mark.products, sums)

    def _find_divided(self, products: Facts, sums: Facts) -> None:
        """Finds products with numbers that are divided by the sum of these numbers: weights come out normalized.

        If both factors are in the sum, it is something else, such as a Dice coefficient.
        """
        summed = {one[:2] for one in sums}
        families = {family for family, _ in summed}
        for family, length, other in products:
            if (family, length) in summed and other not in families and length > 1:
                self._find(length)

    # Sums of values

    def sum(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        tensor, family = args[0], self._marks.family(args[0])
        mark, axes = self._marks[tensor], kwargs.get("dim", next(iter(args[1:]), None))
        axes = range(tensor.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
        summed = {axis % tensor.ndim for axis in axes if tensor.ndim}
        if mark.is_spread and (over := summed & mark.weight_axes):
            self._find(tensor.shape[min(over)], mark.source)
        length = math.prod(tensor.shape[axis] for axis in summed)
        sums = mark.sums | ({(family, length, "log" in _name(function))} if family else set())
        kept = [axis for axis in range(tensor.ndim) if axis not in summed]
        of_result = [*range(tensor.ndim)] if result.ndim == tensor.ndim else kept
        made = [axis for axis in mark.feature_axes if axis in kept]
        features = Label.from_axis(result, of_result.index(made[0])) if made else None
        self._marks[result] = Mark(features=features, kin=mark.kin, sums=sums, products=mark.products)

    def product(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        name = _name(function)
        args = args[1:] if name in ADDED_PRODUCTS else args
        contraction = einsum_axes(*args) if name == "einsum" else matmul_axes(*args[:2])
        if contraction is not None:
            self._contract(contraction, result)

    def linear(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        if self._marks[args[1]].is_constant and self._marks[args[0]].weights is None:  # as of nearly all linear layers
            self._marks[result] = Mark(features=Label.from_axis(result, -1))
        else:
            self._contract(linear_axes(*args[:2]), result)

    def _contract(self, contraction: Contraction, result: Tensor) -> None:
        marks = [self._marks[one] for one, _ in contraction.operands]
        variable = [part for part, mark in zip(contraction.operands, marks, strict=True) if not mark.is_constant]
        products = frozenset(chain.from_iterable(mark.products for mark in marks))
        if len(variable) > 1:
            for (weights, names), (values, of_values) in permutations(variable, 2):
                for name in contraction.summed:
                    if name in names and name in of_values:
                        self._multiply_and_sum(weights, names.index(name), values, of_values.index(name))
                        products |= {
                            (self._marks.family(weights), weights.shape[names.index(name)], self._marks.family(values))
                        }
        sums = frozenset(chain.from_iterable(mark.sums for mark in marks))
        if any(mark.is_inverse for mark in marks):
            self._find_divided(products, sums)
        mark = Mark(sums=sums, products=products)
        for (_, names), one in zip(contraction.operands, marks, strict=True):
            if one.is_constant:
                others = {name for _, own in contraction.operands if own is not names for name in own}
                made = [name for name in names if name in contraction.result and name not in others]
                if made:
                    mark = replace(mark, features=Label.from_axis(result, contraction.result.index(made[0])))
            elif one.weights and len(variable) == 1:  # heads are mixed
                kept = [names[axis] for axis in one.weight_axes if names[axis] in contraction.result]
                if kept:
                    mixed = Label.from_axis(result, contraction.result.index(kept[0]))
                    mark = replace(mark, weights=mixed, source=one.source)
        self._marks[result] = mark

    def _multiply_and_sum(self, weights: Tensor, axis: int, values: Tensor, values_axis: int) -> None:
        mark, length = self._marks[weights], weights.shape[axis]
        if length == 1 or mark.is_log:
            return
        if mark.weights is not None:
            is_normalized = mark.source is not None and axis in mark.weight_axes
        else:
            is_normalized = mark.is_gate or (self._is_token_count(length) and sums_to_one(weights, axis))
        if is_normalized and self._is_token_axis(mark, axis, values, values_axis):
            self._find(length, mark.source)

    def multiply(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        self.elementwise(function, args, kwargs, result)
        if len(args) < 2 or not isinstance(args[0], Tensor) or not isinstance(args[1], Tensor):
            return
        for weights, values in (args[:2], args[1::-1]):
            mark, of_values = self._marks[weights], self._marks[values]
            if of_values.is_inverse:
                self._normalize((weights, values), result)
            if mark.weights is None or mark.source is None or mark.is_log or is_mask(values):
                continue
            spread = mark.weights.expanded(result.shape)
            for axis in spread.axes():
                own, of_other = axis - result.ndim + weights.ndim, axis - result.ndim + values.ndim
                if (
                    of_other < 0
                    or values.shape[of_other] != result.shape[axis]
                    or not self._is_token_axis(mark, own, values, of_other)
                ):
                    continue
                if weights.numel() < result.numel() or not mark.kin & of_values.kin:  # else a number such as an entropy
                    self._marks[result] = replace(mark, weights=spread, features=None, is_spread=True)

    # What becomes of what is known

    def elementwise(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Goes on with all that is known, where other factors and terms are masks or constants."""
        result = result[0] if isinstance(result, tuple) else result
        tensors = [one for one in args[: 1 if _name(function) in CASTS else None] if isinstance(one, Tensor)]
        marks = [self._marks[one] for one in tensors]
        if all(mark is UNKNOWN for mark in marks):
            return
        if all(mark.is_constant for mark in marks):
            self._marks[result] = CONSTANT
            return
        features = next((mark.features for mark in marks if mark.features), None)
        if features and any(one.shape != result.shape for one in tensors):
            features = features.expanded(result.shape)
        if all(mark.has_features_alone for mark in marks):
            self._marks[result] = Mark(features=features)
            return
        mark = Mark(
            features=features,
            is_inverse=any(mark.is_inverse for mark in marks),
            kin=frozenset(chain.from_iterable(mark.kin for mark in marks)),
            sums=frozenset(chain.from_iterable(mark.sums for mark in marks)),
            products=frozenset(chain.from_iterable(mark.products for mark in marks)),
        )
        for one, of_one in zip(tensors, marks, strict=True):
            if of_one.family is None and of_one.weights is None and not of_one.is_gate:
                continue
            others = [(other, of_other) for other, of_other in zip(tensors, marks, strict=True) if other is not one]
            plain = all(of_other.is_constant or is_mask(other) for other, of_other in others)
            if plain or (
                of_one.weights is not None
                and (_name(function) in FACTORS or all(of_other.weights is not None for _, of_other in others))
            ):
                weights = of_one.weights and of_one.weights.expanded(result.shape)
                mark = replace(
                    mark,
                    weights=weights,
                    source=of_one.source,
                    is_log=of_one.is_log,
                    is_spread=of_one.is_spread,
                    is_gate=of_one.is_gate,
                    family=of_one.family if plain else None,
                )
                break
        self._marks[result] = mark

    def activation(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Goes on with what a nonlinear function leaves: the axis of features."""
        mark = self._marks[args[0]]
        if mark.features is not None or mark.kin:
            self._marks[result] = Mark(features=mark.features, kin=mark.kin)

    def reshape(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        mark = self._marks[args[0]]
        if mark is UNKNOWN:
            return
        name, others = _name(function), args[1:]
        if isinstance(result, Tensor):
            shape = result.shape
            if name in VIEWS:  # which may fail for a label, whose strides may differ
                self._marks[result] = mark.relabeled(lambda one: one.reshape(shape))
            elif name == "expand_as":
                self._marks[result] = mark.relabeled(lambda one: one.expand(shape))
            else:
                self._marks[result] = mark.relabeled(lambda one: function(one, *others, **kwargs))
            return
        for i, part in enumerate(result):
            self._marks[part] = mark.relabeled(partial(changed_part, function, others, kwargs, i))

    def select(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Goes on with what is chosen along an axis: each axis stays what it is."""
        mark, chosen = self._marks[args[0]], result[0] if isinstance(result, tuple) else result
        if mark is not UNKNOWN:
            weights, features = (
                next((Label.from_axis(chosen, axis) for axis in axes), None)
                for axes in (mark.weight_axes, mark.feature_axes)
            )
            self._marks[chosen] = replace(mark, weights=weights, features=features)

    def join(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        tensors, marks = args[0], [self._marks[one] for one in args[0]]
        axis = kwargs.get("dim", next(iter(args[1:]), 0))
        if all(mark.is_constant for mark in marks):
            self._marks[result] = CONSTANT
            return
        weights, features = (
            joined_label(function, [getattr(mark, name) for mark in marks], [one.shape for one in tensors], axis)
            for name in ("weights", "features")
        )
        if _name(function) == "stack":
            features = Label.from_axis(result, axis)
        first = next((mark for mark in marks if mark.weights), UNKNOWN)
        self._marks[result] = replace(first, weights=weights, features=features, family=None)

    # What parameters and constants make

    def layer(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        self._marks[result] = Mark(features=Label.from_axis(result, FEATURE_AXES[_name(function)]))

    def constant(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        if not any(isinstance(one, Tensor) for one in args):
            self._marks[result] = CONSTANT

    def assign(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        if self._marks[args[0]].is_constant:
            self._marks[args[0]] = UNKNOWN


@lru_cache(1024)
def _name(function: Any) -> str:
    """Returns the name of a function of torch, of a method or property of tensors, or of an operator."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        name = getattr(function.__self__, "__name__", "")
    return name.partition(".")[0].rstrip("_") if not name.startswith("__") else name


VIEWS = frozenset(["view", "_unsafe_view", "view_as", "reshape_as"])
CASTS = frozenset(["to", "type", "type_as", "_to_copy"])
FACTORS = frozenset(["mul", "multiply", "div", "divide", "true_divide"])
ADDED_PRODUCTS = frozenset(["addmm", "baddbmm", "addbmm", "addmv"])
FEATURE_AXES = {"embedding": -1} | {
    f"conv{kind}{axes}d": -1 - axes for kind in ("", "_transpose") for axes in (1, 2, 3)
}
RULES: dict[str, Callable[[WeightedSums, Any, Args, Kwargs, Any], None]] = {
    name: rule
    for names, rule in (
        ("softmax _softmax _safe_softmax special_softmax softmin gumbel_softmax", WeightedSums.softmax),
        ("log_softmax _log_softmax special_log_softmax", WeightedSums.softmax),
        ("sigmoid", WeightedSums.sigmoid),
        ("exp", WeightedSums.exp),
        ("div divide true_divide", WeightedSums.divide),
        ("__rdiv__ __rtruediv__ reciprocal", WeightedSums.invert),
        ("sub subtract", WeightedSums.subtract),
        ("sum nansum logsumexp special_logsumexp", WeightedSums.sum),
        ("matmul bmm mm mv dot einsum addmm baddbmm addbmm addmv", WeightedSums.product),
        ("linear", WeightedSums.linear),
        ("mul multiply", WeightedSums.multiply),
        (
            "add to _to_copy float double half bfloat16 type type_as dropout alpha_dropout native_dropout",
            WeightedSums.elementwise,
        ),
        ("masked_fill where clone contiguous detach data clamp clamp_min maximum nan_to_num", WeightedSums.elementwise),
        ("relu gelu silu elu tanh softplus leaky_relu square pow abs neg sqrt rsqrt log", WeightedSums.activation),
        ("layer_norm rms_norm group_norm batch_norm", WeightedSums.activation),
        (
            "reshape view _unsafe_view view_as reshape_as flatten unflatten ravel transpose permute",
            WeightedSums.reshape,
        ),
        ("swapaxes swapdims movedim moveaxis t T mT adjoint squeeze unsqueeze expand expand_as", WeightedSums.reshape),
        ("broadcast_to repeat repeat_interleave tile __getitem__ narrow select slice index", WeightedSums.reshape),
        ("index_select take_along_dim chunk split split_with_sizes tensor_split unbind", WeightedSums.reshape),
        ("unfold flip roll pad", WeightedSums.reshape),
        ("topk sort gather", WeightedSums.select),
        ("cat concat concatenate stack", WeightedSums.join),
        (" ".join(FEATURE_AXES), WeightedSums.layer),
        ("arange linspace eye tensor as_tensor", WeightedSums.constant),
        ("__setitem__ copy", WeightedSums.assign),
    )
    for name in names.split()
}
