"""Recognition of attention by what is computed: values are summed with weights that are normalized over tokens.

Functions of torch are followed while a model runs. A softmax, or a division by a sum of the same numbers, marks its
result, and the mark goes on to what is made of it by changes of shape, dropout, masks and the like. A product with
values that is summed over the normalized axis is attention, unless that axis is one of features, experts or classes.
So is a product with what a nonlinear function makes of scores, which are products of tokens with tokens.

Weights that are recorded are those that values are multiplied with: what has become of a softmax, number by number.
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

from attnviz.tracing.contractions import Contraction, Names, einsum_axes, linear_axes, matmul_axes
from attnviz.tracing.tensor_marks import (
    CONSTANT,
    UNKNOWN,
    Facts,
    Label,
    Mark,
    Marks,
    RecordedSoftmax,
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

    `modules` has, for each of them, the number of keys and the module that computed the weights. `record` is called
    with a recorded softmax and the weights (sequences, heads, queries, keys) that have become of it, or None.
    """

    def __init__(
        self,
        buffers: Iterable[Tensor],
        record: Callable[[RecordedSoftmax, Tensor | None], None] = lambda softmax, weights: None,
    ) -> None:
        self.softmaxes: dict[RecordedSoftmax, bool] = {}  # those that are recorded, and whether they were multiplied
        self._record = record
        self.modules: dict[nn.Module, tuple[int, nn.Module]] = {}
        self._marks = Marks(buffers)
        self._running: Sequence[RunningModule] = ()

    def follow(self, function: Any, args: Args, kwargs: Kwargs, result: Any, running: Sequence[RunningModule]) -> None:
        """Follows a function that the last of the running modules has called."""
        name = _name(function)
        rule = RULES.get(name)
        if rule is None and not self.softmaxes:
            if type(function).__module__ == "torch._ops" and ATTENTION_OPERATOR.search(name):
                self._running = running
                self._find(0)
            return
        self._running = running
        if kwargs:
            named = tuple(kwargs[one] for one in OPERANDS if one in kwargs)
            args, kwargs = (*named, *args), {key: one for key, one in kwargs.items() if key not in OPERANDS}
        tensors = (one for one in args if isinstance(one, Tensor)) if self.softmaxes else ()
        recorded = [(one, self._marks[one]) for one in tensors if self._marks[one].recorded]
        try:
            with torch._C.DisableTorchFunction():  # other modes follow the model alone
                if rule is not None:
                    rule(self, function, args, kwargs, result)
                if recorded and name not in MOVED and isinstance(result, Tensor):
                    self._follow_recorded(name, recorded, result)
        except FORGOTTEN:  # the forward pass goes on, and nothing is known of what this call has made
            self._marks.forget(result)

    def set_recorded(self, weights: Tensor, softmax: RecordedSoftmax | None) -> None:
        """Says that these weights are recorded, or that they are known to be missing."""
        recorded = () if softmax is None else (softmax,)
        self.softmaxes |= dict.fromkeys(recorded, False)
        self._marks[weights] = replace(self._marks[weights], source=None, recorded=recorded)

    def _follow_recorded(self, name: str, known: Sequence[tuple[Tensor, Mark]], result: Tensor) -> None:
        """Goes on with recorded weights that a function has changed, number by number."""
        known = [(one, mark) for one, mark in known if one.shape == result.shape]
        is_other = all(one is not result for one, _ in known)
        if not known or not result.is_floating_point() or (is_other and self._marks[result].recorded):
            return
        tensor, mark = known[0]
        undropped = mark.undropped if name in UNCHANGED or not is_other else None
        if "dropout" in name and is_other:
            undropped = mark.undropped or Label(partial(_itself, tensor))
        recorded = dict.fromkeys(chain.from_iterable(mark.recorded for _, mark in known))
        self._marks[result] = replace(mark, recorded=tuple(recorded), undropped=undropped)

    def _multiply_recorded(self, weights: Tensor, mark: Mark) -> None:
        """Records weights that values are multiplied with."""
        numbers = mark.undropped.compute() if mark.undropped else weights
        places = mark.places.compute() if mark.places else None
        self._record(mark.recorded[0], mark.recorded[0].in_order(numbers, places))
        self.softmaxes |= dict.fromkeys(mark.recorded, True)

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
        scores, total = (self._marks[one] for one in args[:2])
        if scores.is_scores and scores.kin & total.kin:
            self._marks[result] = replace(scores, is_gate=True)

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
        if len(variable) == 2 and all(map(self._has_own_tokens, variable, variable[::-1], [contraction.result] * 2)):
            mark = replace(mark, is_scores=True, source=self._running[-1][0], kin=frozenset([object()]))
        for (operand, names), one in zip(contraction.operands, marks, strict=True):
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
                    moved = [own for own, other in zip(names, contraction.result, strict=False) if own != other]
                    if result.shape == operand.shape and len(moved) == 1:
                        mark = replace(mark, recorded=one.recorded, places=one.places)
        self._marks[result] = mark

    def _has_own_tokens(self, operand: tuple[Tensor, Names], other: tuple[Tensor, Names], result: Names) -> bool:
        """Returns whether a factor has an axis of tokens in the result that the other factor does not have."""
        tensor, names = operand
        return any(
            name in result
            and name not in other[1]
            and axis not in self._marks[tensor].feature_axes
            and tensor.shape[axis] > 1
            and self._is_token_count(tensor.shape[axis])
            for axis, name in enumerate(names)
        )

    def _multiply_and_sum(self, weights: Tensor, axis: int, values: Tensor, values_axis: int) -> None:
        mark, length = self._marks[weights], weights.shape[axis]
        if mark.recorded and (axis in mark.weight_axes or length == mark.recorded[0].shape[-1] == 1):
            self._multiply_recorded(weights, mark)
        if length == 1 or mark.is_log:
            return
        if mark.weights is not None:
            is_normalized = mark.source is not None and axis in mark.weight_axes
        else:
            is_tokens = self._is_token_count(length)
            is_gate = mark.is_gate and (is_tokens or not mark.is_scores)
            is_normalized = is_gate or (is_tokens and sums_to_one(weights, axis))
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
            is_known = mark.source is not None or mark.recorded
            if mark.weights is None or not is_known or mark.is_log or is_mask(values):
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
                if mark.recorded:
                    if weights.numel() < result.numel():
                        self._multiply_recorded(weights, mark)
                    break
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
            if of_one.is_scores and one.shape == result.shape:
                mark = replace(mark, is_scores=True, is_gate=of_one.is_gate, source=of_one.source)
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
        is_chosen = any(one.dtype == torch.bool and of_one.kin for one, of_one in zip(tensors, marks, strict=True))
        if mark.is_scores and (is_chosen or _name(function) in LIMITS):
            mark = replace(mark, is_gate=True)
        self._marks[result] = mark

    def activation(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Goes on with what a nonlinear function leaves: the axis of features, and that they are made of scores."""
        mark = self._marks[args[0]]
        if mark.features is not None or mark.kin:
            is_gate, source = mark.is_scores and _name(function) != "neg", mark.source if mark.is_scores else None
            self._marks[result] = Mark(
                features=mark.features, kin=mark.kin, is_scores=mark.is_scores, is_gate=is_gate, source=source
            )

    def _find_chosen(self, values: Mark, indices: Iterable[Any]) -> None:
        """Finds values of the keys that scores have chosen."""
        for index in indices:
            if isinstance(index, Tensor) and self._marks[index].is_scores and not values.is_constant:
                self._find(index.shape[-1], self._marks[index].source)

    def extreme(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Goes on with what the largest or smallest numbers along an axis are made of."""
        if isinstance(result, tuple):
            self.choice(function, args, kwargs, result[1])
        self._marks[result[0] if isinstance(result, tuple) else result] = Mark(kin=self._marks[args[0]].kin)

    def choice(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Goes on with what is chosen by scores: truth values, numbers of keys, and ones for these."""
        made = next((mark for mark in map(self._marks.__getitem__, args) if mark.is_scores), UNKNOWN)
        if made.is_scores:
            self._marks[result] = replace(made, features=None, is_gate=True)

    def reshape(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        mark = self._marks[args[0]]
        if _name(function) in ("__getitem__", "index"):
            self._find_chosen(mark, args[1] if isinstance(args[1], tuple | list) else args[1:])
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
        if isinstance(result, tuple):
            self.choice(function, args, kwargs, result[1])
        self._find_chosen(mark, args[1:])
        if mark is not UNKNOWN:
            weights, features = (
                next((Label.from_axis(chosen, axis) for axis in axes), None)
                for axes in (mark.weight_axes, mark.feature_axes)
            )
            self._marks[chosen] = replace(
                mark, weights=weights, features=features, recorded=(), is_gate=mark.is_gate or mark.is_scores
            )

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
        self._marks[result] = replace(first, weights=weights, features=features, family=None, recorded=())

    # What parameters and constants make

    def layer(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        self._marks[result] = Mark(features=Label.from_axis(result, FEATURE_AXES[_name(function)]))

    def constant(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        if not any(isinstance(one, Tensor) for one in args):
            self._marks[result] = CONSTANT

    def assign(self, function: Any, args: Args, kwargs: Kwargs, result: Any) -> None:
        if self._marks[args[0]].is_constant:
            self._marks[args[0]] = UNKNOWN


def _itself(tensor: Tensor) -> Tensor:
    return tensor


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
LIMITS = frozenset(["clamp", "clamp_min", "clamp_max", "clip", "maximum", "minimum"])
UNCHANGED = CASTS | {"float", "double", "half", "bfloat16", "clone", "contiguous", "detach"}
ADDED_PRODUCTS = frozenset(["addmm", "baddbmm", "addbmm", "addmv"])
PRODUCTS = frozenset(["matmul", "bmm", "mm", "mv", "dot", "einsum", "linear", *ADDED_PRODUCTS, "tensordot"])
MOVED = PRODUCTS | {"gather", "take_along_dim", "index_select"}  # whose numbers are others, also in an equal shape
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
        ("masked_fill where clone contiguous detach data nan_to_num", WeightedSums.elementwise),
        (" ".join(LIMITS), WeightedSums.elementwise),
        ("relu gelu silu elu tanh softplus leaky_relu square pow abs neg sqrt rsqrt log", WeightedSums.activation),
        ("relu6 threshold hardtanh hardsigmoid hardswish selu celu mish normalize sin cos", WeightedSums.activation),
        ("amax amin max min norm vector_norm linalg_vector_norm", WeightedSums.extreme),
        ("gt lt ge le eq sign heaviside argmax one_hot scatter", WeightedSums.choice),
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
