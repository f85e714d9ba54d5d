"""The patches of images, followed from the convolution that makes them to the attention that they take part in."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import zip_longest
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from attnviz.inputs import PatchGrid
from attnviz.tracing.layer_naming import AxisTokens

# Functions by their effect on the origins of a tensor's numbers; after any other function these are not known.
REARRANGING = {
    *("flatten", "unflatten", "reshape", "view", "squeeze", "unsqueeze", "expand", "expand_as", "repeat", "tile"),
    *("transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "T", "mT", "roll", "flip"),
    *("__getitem__", "narrow", "select", "index_select", "gather", "take_along_dim"),
    *("chunk", "split", "tensor_split", "unbind"),
}
JOINING = {"cat", "concat", "concatenate", "stack"}
ELEMENTWISE = {
    *("add", "add_", "sub", "sub_", "__rsub__", "mul", "mul_", "div", "div_", "true_divide", "neg", "pow", "addcmul"),
    *("gelu", "relu", "relu_", "silu", "sigmoid", "tanh", "softmax", "clamp", "nan_to_num", "batch_norm", "group_norm"),
    *("dropout", "dropout_", "masked_fill", "masked_fill_"),
}
CONVERTING = {
    *("to", "type", "type_as", "float", "half", "bfloat16", "double", "cpu", "cuda"),
    *("contiguous", "clone", "detach", "requires_grad_"),
}
MIXING_FEATURES = {"linear", "layer_norm", "rms_norm"}
PRODUCTS = {"matmul", "bmm"}
FOLLOWED = {*REARRANGING, *JOINING, *ELEMENTWISE, *CONVERTING, *MIXING_FEATURES, *PRODUCTS} | {
    *("conv2d", "__setitem__", "masked_scatter"),
}
# A parameter that is a token of the model's own, or several, such as cls_token, class_embedding and register_tokens.
OWN_TOKEN = re.compile(r"(\w*?)_?(?:tokens?|(?<=class_)embedding)(?:_\d+)?$")
FACTOR = 1 << 32  # an origin is this times the number of its grid or parameter, plus that of its patch or token from 1

Known: TypeAlias = WeakTensorKeyDictionary  # the origins of tensors
Sides: TypeAlias = tuple[Tensor | None, Tensor | None]  # the origins of the tokens of queries and of keys


class PatchTracking(TorchFunctionMode):
    """Follows through the functions of torch, while it is active, to which patch of an image, or to which token of the
    model's own, each number of a tensor belongs: its origin.

    A patch is a place in the output of a two-dimensional convolution. Origins have the shape of their tensor; they are
    positive for patches, negative for the model's own tokens, and else 0. A product of queries and keys has some along
    its rows and some along its columns.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__()
        modules = [*modules]
        self._grids: list[tuple[int, int]] = []  # rows and columns
        self._names: list[str] = []  # of the model's own tokens, by parameter
        self._rows, self._columns = Known(), Known()
        self.is_needed = any(isinstance(module, nn.Conv2d) for module in modules)
        for module in modules if self.is_needed else ():
            for name, parameter in module.named_parameters(recurse=False):
                if match := OWN_TOKEN.match(name):
                    self._rows[parameter] = _numbered_tokens(parameter, len(self._names))
                    self._names.append("CLS" if match[1] in ("cls", "class") else match[1].upper())

    def __torch_function__(self, function: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        if name == "__get__":  # of an attribute
            name = getattr(getattr(function, "__self__", None), "__name__", "")
        if name in FOLLOWED:
            operands = [*_tensors(args[0] if name in JOINING and args else (*args, *kwargs.values()))]
            if name == "conv2d":
                _keep(self._rows, result, self._convolved(operands[0], result))
            elif name in PRODUCTS:
                left, right = map(self._rows.get, operands[:2])
                _keep(self._rows, result, _constant(left, -1))
                _keep(self._columns, result, _constant(right, -2))
            elif name == "__setitem__":
                self._put(function, args[0], *args)
            elif name == "masked_scatter":
                self._put(function, result, *operands)
            else:
                for known in filter(len, (self._rows, self._columns)):
                    self._follow(known, name, function, operands, args, kwargs, result)
        elif args and result is args[0]:  # it was changed in place
            _keep(self._rows, result, None)
            _keep(self._columns, result, None)
        return result

    def resumed(self) -> AbstractContextManager:
        """Returns a context in which functions are followed, although they are not while attention is recorded."""
        return torch._C._EnableTorchFunction() if self.is_needed else nullcontext()

    def sides(self, query: Tensor, key: Tensor) -> Sides:
        """Returns the origins of the tokens of queries and keys, (1, heads, tokens, width)."""
        return _along(self._rows.get(query), -2), _along(self._rows.get(key), -2)

    def sides_of_weights(self, weights: Tensor) -> Sides:
        """Returns the origins of the tokens of weights, (1, heads, queries, keys)."""
        return _along(self._rows.get(weights), -2), _along(self._columns.get(weights), -1)

    def with_patches(self, axis: AxisTokens, origins: Tensor | None) -> AxisTokens:
        """Returns the tokens of an axis with the grid of its patches, if they are those of one whole image.

        Patches and the model's own tokens are named where there are numbers, and patches where all have one name, that
        of a placeholder in a text.
        """
        if origins is None or len(origins) != len(axis.tokens):
            return axis
        grid = self._grid(origins)
        if grid is None:
            return axis
        tokens, special = axis.tokens, axis.special
        if all(tokens[position] == str(position) for position in grid.positions):
            own = self._own_tokens(origins)
            tokens = grid.named([own.get(i, token) for i, token in enumerate(tokens)])
            special = tuple(sorted({*special, *own}))
        elif len({tokens[position] for position in grid.positions}) == 1:
            tokens = grid.named(tokens)
        return AxisTokens(tokens, special, axis.ids, grid)

    def _grid(self, origins: Tensor) -> PatchGrid | None:
        patches = origins[origins > 0]
        if not len(patches):
            return None
        image = int(patches[0] // FACTOR)
        rows, columns = self._grids[image]
        ordered, order = patches.sort()
        if not torch.equal(ordered, _numbers(rows * columns, image, origins.device)):
            return None
        return PatchGrid(rows, columns, tuple((origins > 0).nonzero()[order, 0].tolist()))

    def _own_tokens(self, origins: Tensor) -> dict[int, str]:
        """Returns the names of the model's own tokens by their positions."""
        own = {i: divmod(-number - 1, FACTOR) for i, number in enumerate(origins.tolist()) if number < 0}
        counts = Counter(parameter for parameter, _ in own.values())
        return {
            i: f"[{self._names[parameter]}{f' {token}' if counts[parameter] > 1 else ''}]"
            for i, (parameter, token) in own.items()
        }

    def _convolved(self, image: Tensor, result: Tensor) -> Tensor | None:
        """Returns the origins of the output of a convolution: a new grid of patches, or that of its input if that is of
        the same size."""
        before = self._rows.get(image)
        if image.shape[-2:].numel() == 1 or (before is not None and (before := _constant(before, -3)) is None):
            return None
        if before is not None and image.shape[-2:] == result.shape[-2:]:
            return before
        if before is not None and not self._is_whole(before.flatten(-2)):
            return None
        rows, columns = result.shape[-2:]
        self._grids.append((rows, columns))
        return _numbers(rows * columns, len(self._grids) - 1, result.device).unflatten(0, (rows, columns))

    def _is_whole(self, origins: Tensor) -> bool:
        """Returns whether each row of origins is that of a whole image, patch by patch in reading order."""
        first = int(origins.flatten()[0])
        rows, columns = self._grids[first // FACTOR] if first > 0 else (0, 0)
        return origins.shape[-1] == rows * columns and bool((origins.diff() == 1).all())

    def _put(self, function: Callable, result: Tensor, target: Tensor, place: Any, values: Any) -> None:
        """Keeps the origins of a tensor in which a function has put values into some places of a target."""
        if target in self._rows or (isinstance(values, Tensor) and values in self._rows):
            origins = _origins(self._rows, target).clone(memory_format=torch.contiguous_format)
            put = _origins(self._rows, values) if isinstance(values, Tensor) else 0
            returned = function(origins, place, put)
            _keep(self._rows, result, origins if returned is None else returned)

    @staticmethod
    def _follow(
        known: Known,
        name: str,
        function: Callable,
        operands: list[Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> None:
        """Keeps the origins of the results of a function of tensors, some of which have origins."""
        before = [known.get(operand) for operand in operands]
        if all(one is None for one in before):
            return
        origins: Any = None
        if name in JOINING:
            dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
            origins = _joined(function, [_origins(known, operand) for operand in operands], dim)
        elif name in ELEMENTWISE:
            origins = _merged([one for one in before if one is not None])
        elif before[0] is not None and args and args[0] is operands[0]:
            if name in CONVERTING:
                origins = before[0]
            elif name in MIXING_FEATURES:
                origins = _constant(before[0], -1)
            elif not isinstance(args[-1], torch.dtype):  # as view may have it, which is reshape where strides differ
                origins = (Tensor.reshape if name == "view" else function)(before[0], *args[1:], **kwargs)
        for one, its in zip_longest(_tensors(result), _tensors(origins)):
            _keep(known, one, its)


def _numbered_tokens(parameter: Tensor, number: int) -> Tensor:
    """Returns the origins of a parameter that is one token, (width), or several, (…, tokens, width)."""
    tokens = torch.arange(parameter.shape[-2] if parameter.ndim > 1 else 1, device=parameter.device)
    return (-1 - number * FACTOR - tokens[:, None]).expand(1, *parameter.shape)[0]


def _numbers(count: int, image: int, device: torch.device) -> Tensor:
    """Returns the origins of the patches of an image."""
    return torch.arange(1, count + 1, device=device) + image * FACTOR


def _tensors(values: Any) -> Iterator[Tensor]:
    return (one for one in (values if isinstance(values, list | tuple) else [values]) if isinstance(one, Tensor))


def _keep(known: Known, tensor: Tensor, origins: Tensor | None) -> None:
    """Keeps the origins of a tensor; forgets what it had if they are None, or do not fit its shape."""
    if origins is not None and origins.shape != tensor.shape:
        sizes = zip(reversed(origins.shape), reversed(tensor.shape), strict=False)
        fits = origins.ndim <= tensor.ndim and all(its in (1, size) for its, size in sizes)
        origins = origins.expand(tensor.shape) if fits else None
    if origins is not None:
        known[tensor] = origins.to(tensor.device)
    else:
        known.pop(tensor, None)


def _origins(known: Known, tensor: Tensor) -> Tensor:
    """Returns the origins of a tensor, zeros if it has none."""
    origins: Tensor | None = known.get(tensor)
    zero = torch.zeros((), dtype=torch.int64, device=tensor.device)
    return zero.expand(tensor.shape) if origins is None else origins


def _narrow(origins: Tensor) -> Tensor:
    """Returns origins that do not differ by feature, as most do, with one feature."""
    return origins.narrow(-1, 0, 1) if origins.ndim and origins.shape[-1] and origins.stride(-1) == 0 else origins


def _constant(origins: Tensor | None, dim: int) -> Tensor | None:
    """Returns origins with a length of 1 along a dimension, None if they differ along it."""
    if origins is None or origins.ndim < -dim:
        return None
    first = origins.narrow(dim, 0, 1)
    return first if origins.stride(dim) == 0 or bool((origins == first).all()) else None


def _joined(function: Callable, parts: list[Tensor], dim: int) -> Tensor:
    """Returns the origins of tensors that are concatenated or stacked along a dimension."""
    narrow = [_narrow(part) for part in parts]
    has_features = dim not in (-1, parts[0].ndim - (function.__name__ != "stack"))
    joined: Tensor = function(narrow if has_features and all(one.shape[-1:] == (1,) for one in narrow) else parts, dim)
    return joined


def _merged(parts: list[Tensor]) -> Tensor | None:
    """Returns the origins of what is computed from several tensors, those of patches before those of other tokens; None
    if it belongs to different patches."""
    merged, *others = map(_narrow, parts)
    for other in others:
        if merged.shape == other.shape and torch.equal(merged, other):
            continue
        if bool(((merged > 0) & (other > 0) & (merged != other)).any()):
            return None
        merged = torch.where((merged > 0) | ((other <= 0) & (merged < 0)), merged, other)
    return merged


def _along(origins: Tensor | None, dim: int) -> Tensor | None:
    """Returns the origins along one dimension of (1, heads, …, …); None if they differ along the others."""
    if origins is None or origins.ndim != 4 or len(origins) > 1:
        return None
    lines = origins[0].movedim(dim, -1).flatten(0, 1)
    return lines[0].cpu() if bool((lines == lines[:1]).all()) else None
