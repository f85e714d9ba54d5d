"""The patches of images, followed from the pixels to the attention that they take part in."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from attnviz.inputs import PatchGrid
from attnviz.tracing.image_cells import FACTOR, ImageCells, input_images, pixel_cells
from attnviz.tracing.layer_naming import AxisTokens

# Functions by their effect on the origins of a tensor's numbers; after any other function these are not known.
REARRANGING = {
    *("flatten", "unflatten", "reshape", "view", "squeeze", "unsqueeze", "expand", "expand_as", "repeat", "tile"),
    *("transpose", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "T", "mT", "t", "roll", "flip"),
    *("__getitem__", "narrow", "select", "index_select", "gather", "take_along_dim"),
    *("chunk", "split", "tensor_split", "unbind", "pad"),
}
JOINING = {"cat", "concat", "concatenate", "stack"}
ELEMENTWISE = {
    *("add", "add_", "sub", "sub_", "__rsub__", "mul", "mul_", "div", "div_", "true_divide", "neg", "pow", "addcmul"),
    *("gelu", "relu", "relu_", "relu6", "leaky_relu", "elu", "hardswish", "mish", "silu", "sigmoid", "tanh"),
    *("softmax", "clamp", "nan_to_num", "batch_norm", "group_norm"),
    *("dropout", "dropout_", "masked_fill", "masked_fill_"),
}
CONVERTING = {
    *("to", "type", "type_as", "float", "half", "bfloat16", "double", "cpu", "cuda"),
    *("contiguous", "clone", "detach", "requires_grad_"),
}
MIXING_FEATURES = {"linear", "layer_norm", "rms_norm"}
PRODUCTS = {"matmul", "bmm"}
# Functions that make one cell of neighbors, with the names of their first arguments.
CONVOLUTIONS = dict.fromkeys(
    ("conv1d", "conv2d", "conv3d"), ("input", "weight", "bias", "stride", "padding", "dilation")
)
AXES = {"conv1d": 1, "conv3d": 3}  # of others two
WINDOWED = CONVOLUTIONS | {
    "avg_pool2d": ("input", "kernel_size", "stride", "padding"),
    "max_pool2d": ("input", "kernel_size", "stride", "padding", "dilation"),
    "interpolate": ("input",),
}
FOLLOWED = {*REARRANGING, *JOINING, *ELEMENTWISE, *CONVERTING, *MIXING_FEATURES, *PRODUCTS, *WINDOWED} | {
    *("__setitem__", "masked_scatter", "mean", "unfold", "view_as_complex", "view_as_real"),
}
PLACEHOLDERS = ("image_token_id", "image_token_index", "video_token_id")  # of a config: ids where images are put
# A parameter that is a token of the model's own, or several, such as cls_token, class_embedding and register_tokens.
OWN_TOKEN = re.compile(r"(\w*?)_?(?:tokens?|(?<=class_)embedding)(?:_\d+)?$")

Known: TypeAlias = WeakTensorKeyDictionary  # the origins of tensors
Sides: TypeAlias = tuple[Tensor | None, Tensor | None]  # the origins of the tokens of queries and of keys


class PatchTracking(TorchFunctionMode):
    """Follows through the functions of torch, while it is active, to which cell of an image, or to which token of the
    model's own, each number of a tensor belongs: its origin.

    A cell is a pixel that the model is given, or what it makes of a rectangle of cells: a patch, or several that it
    merges. Origins have the shape of their tensor; they are positive for cells, negative for the model's own tokens,
    and else 0. A product of queries and keys has some along its rows and some along its columns.
    """

    def __init__(self, modules: Iterable[nn.Module], arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        modules = [*modules]
        self._cells: list[ImageCells] = []
        self._parts: dict[tuple[int, tuple[float, ...]], int] = {}  # the cells that were made of others
        self._names: list[str] = []  # of the model's own tokens, by parameter
        self._rows, self._columns = Known(), Known()
        config = getattr(modules[0], "config", None) if modules else None
        self._placeholders = {getattr(config, name, None) for name in PLACEHOLDERS} - {None}
        self._reads_images = any(name.startswith("pixel_values") for name in arguments or {})
        self.notes: dict[str, None] = {}  # sentences about tokens whose patches are not known
        for tensor, cells, numbers in input_images(arguments or {}, config):
            _keep(self._rows, tensor, torch.where(numbers > 0, numbers + FACTOR * len(self._cells), 0))
            self._cells += cells
        self._has_pixels = bool(self._cells)
        self.is_needed = self._has_pixels or any(isinstance(module, nn.Conv2d | nn.Conv3d) for module in modules)
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
            if name in WINDOWED:
                _keep(self._rows, result, self._windowed(name, args, kwargs, result))
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
        """Returns the origins of the tokens of queries and keys, (sequences, heads, tokens, width)."""
        return _along(self._rows.get(query), -2), _along(self._rows.get(key), -2)

    def sides_of_weights(self, weights: Tensor) -> Sides:
        """Returns the origins of the tokens of weights, (sequences, heads, queries, keys)."""
        return _along(self._rows.get(weights), -2), _along(self._columns.get(weights), -1)

    def with_patches(self, axis: AxisTokens, origins: Tensor | None) -> AxisTokens:
        """Returns the tokens of an axis with the grids of the images whose patches they are, each a whole rectangle.

        Patches and the model's own tokens are named where there are numbers, and patches where all have one name, that
        of a placeholder in a text. Placeholders whose patches are not known are noted.
        """
        grids = () if origins is None or len(origins) != len(axis.tokens) else self._grids(origins)
        positions = [position for grid in grids for position in grid.positions]
        self._note_unknown(axis, origins, {*positions})
        if origins is None or not grids:
            return axis
        if all(axis.tokens[position] == str(position) for position in positions):
            own = self._own_tokens(origins)
            tokens = tuple(own.get(i, token) for i, token in enumerate(axis.tokens))
            axis = replace(axis, tokens=tokens, special=tuple(sorted({*axis.special, *own})))
        return axis.with_grids(grids)

    def _note_unknown(self, axis: AxisTokens, origins: Tensor | None, known: set[int]) -> None:
        """Notes how many placeholders may be any patches; those among grids that come from no cell are separators."""
        places = [i for i, id in enumerate(axis.ids) if id in self._placeholders and i not in known]
        if origins is not None and known:
            places = [i for i in places if origins[i] > 0]
        if places and self._reads_images:
            self.notes[
                f"Which patch of an image each of {len(places)} tokens in the text is, is not known: the model mixes "
                "patches, or arranges them in a way that is not followed here."
            ] = None

    def _grids(self, origins: Tensor) -> tuple[PatchGrid, ...]:
        """Returns the grids of images of which each cell in a rectangle is one token, in the order of their tokens."""
        grids = []
        for number in (origins[origins > 0] // FACTOR).unique().tolist():
            positions = ((origins > 0) & (origins // FACTOR == number)).nonzero()[:, 0]
            cells, order = (origins[positions] % FACTOR - 1).sort()
            image = self._cells[number]
            (top, bottom), (left, right) = (
                map(int, places.aminmax()) for places in (cells // image.columns, cells % image.columns)
            )
            rows, columns = bottom - top + 1, right - left + 1
            if rows * columns == len(cells) and bool((cells.diff() > 0).all()):
                part = image.cut(top, left, rows, columns)
                ordered = tuple(positions[order].tolist())
                grids.append(PatchGrid(rows, columns, ordered, part.box, part.image, part.tile))
        return tuple(sorted(grids, key=lambda grid: min(grid.positions)))

    def _own_tokens(self, origins: Tensor) -> dict[int, str]:
        """Returns the names of the model's own tokens by their positions."""
        own = {i: divmod(-number - 1, FACTOR) for i, number in enumerate(origins.tolist()) if number < 0}
        counts = Counter(parameter for parameter, _ in {*own.values()})
        return {
            i: f"[{self._names[parameter]}{f' {token}' if counts[parameter] > 1 else ''}]"
            for i, (parameter, token) in own.items()
        }

    def _windowed(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> Tensor | None:
        """Returns the origins of the output of a convolution, pooling or resizing: cells as large as its stride, or
        those of its input if that is of the same size."""
        named: dict[str, Any] = dict(zip(WINDOWED[name], args, strict=False)) | kwargs
        image, axes, size = named["input"], AXES.get(name, 2), result.shape[-2:]
        before = self._rows.get(image)
        if axes == 1:
            size = torch.Size([1, *result.shape[-1:]])
        if before is None and axes > 1:
            # Pixels that the model was given, and that something unknown was done to, are not taken for others.
            if name not in CONVOLUTIONS or size.numel() == 1 or self._has_pixels:
                return None
            before = self._new_pixels(image, axes)
        maps = _constant(before, -axes - 1)
        if maps is None or not maps.numel():
            return None
        stride, first = _windows(name, named, image.shape[-axes:], result.shape[-axes:])
        if axes == 1:  # the only row of an image
            stride, first = (1.0, *stride), [0.0, *first]
        if axes == 3:  # several frames become one, which is named by the first
            maps = maps[..., :: int(stride[0]), :, :][..., : result.shape[-3], :, :]
        if maps.shape[-2:] == size:
            return maps
        if size.numel() == 1:
            merged = self._merged_features(maps.flatten(-2))
            return None if merged is None else merged.unsqueeze(-1)
        blocks = self._blocks(maps.flatten(0, -3))
        if blocks is None:
            return None
        parts = [self._part(i, top + first[-2], left + first[-1], *size, *stride[-2:]) for i, top, left in blocks]
        numbers = torch.tensor(parts, device=maps.device)[:, None] * FACTOR
        return (numbers + torch.arange(1, size.numel() + 1, device=maps.device)).view(*maps.shape[:-2], *size)

    def _new_pixels(self, image: Tensor, axes: int) -> Tensor:
        """Returns the origins of pixels, (…, 1, height, width), that come from something unknown."""
        frames = image.movedim(-4, -3) if axes == 3 else image
        cells, numbers = pixel_cells(frames.shape[:-3], frames.shape[-2:])
        numbers = numbers.to(image.device) + FACTOR * len(self._cells)
        self._cells += cells
        return numbers.movedim(-3, -4) if axes == 3 else numbers

    def _part(self, number: int, *part: float) -> int:
        """Returns the number of cells that are made of others, the same each time."""
        if (number, part) not in self._parts:
            self._parts[number, part] = len(self._cells)
            self._cells.append(self._cells[number].cut(*part))  # type: ignore[arg-type]  # the counts are integers
        return self._parts[number, part]

    def _columns_of(self, origins: Tensor) -> Tensor:
        """Returns how many columns the images of origins have."""
        columns = torch.tensor([cells.columns for cells in self._cells], device=origins.device)
        return columns[origins // FACTOR]

    def _blocks(self, maps: Tensor) -> list[tuple[int, int, int]] | None:
        """Returns of each map (maps, height, width) the number of its cells, and the row and column of its corner; None
        if one is not a rectangle of cells in their order, with nothing else around it."""
        inside = maps[0] != 0
        rows, columns = (inside.any(axis).nonzero()[:, 0] for axis in (1, 0))
        if not len(rows):
            return None
        y, x = int(rows[0]), int(columns[0])
        block = maps[:, y : y + len(rows), x : x + len(columns)]
        if bool((block <= 0).any()) or int((maps != 0).sum()) != block.numel():
            return None
        first = block[:, :1, :1]
        wide = self._columns_of(first)
        lines = torch.arange(len(rows), device=maps.device)[:, None] * wide
        tops, lefts = (first % FACTOR - 1) // wide, (first % FACTOR - 1) % wide
        is_inside = bool((lefts + len(columns) <= wide).all())
        if not is_inside or not torch.equal(block, first + lines + torch.arange(len(columns), device=maps.device)):
            return None
        corners = torch.cat([first // FACTOR, tops - y, lefts - x], -1)[:, 0].tolist()
        return [(number, top, left) for number, top, left in corners]

    def _merged_features(self, origins: Tensor) -> Tensor | None:
        """Returns the origins of tokens, (…, tokens, 1), each with its features from one cell, or from a block of cells
        that becomes one; None if they are from others."""
        if (same := _constant(origins, -1)) is not None or origins.ndim < 2:
            return same
        flat = origins.flatten(0, -2)
        flat = flat[:, [0, *(1 + (flat[:, 1:] != flat[:, :-1]).any(0).nonzero()[:, 0]).tolist()]]
        known = (flat != 0).any(1)
        used = flat[known]
        first = used[:, :1]
        if bool((used <= 0).any()) or bool((used // FACTOR != first // FACTOR).any()):
            return None
        wide = self._columns_of(first)
        row, column = (used % FACTOR - 1) // wide, (used % FACTOR - 1) % wide
        (top, bottom), (left, right) = row.aminmax(dim=1, keepdim=True), column.aminmax(dim=1, keepdim=True)
        height, width = int((bottom - top).max()) + 1, int((right - left).max()) + 1
        complete = torch.zeros(len(used), height * width, dtype=torch.bool, device=used.device)
        complete.scatter_(1, (row - top) * width + column - left, value=True)
        if not bool(complete.all()) or bool((top % height).any()) or bool((left % width).any()):
            return None
        parts = {}
        for number in (first // FACTOR).unique().tolist():
            rows, columns = self._cells[number].rows // height, self._cells[number].columns // width
            if rows * columns == 1:  # the whole image: it may be a patch that is given as an image of its own
                return None
            parts[number] = self._part(number, 0, 0, rows, columns, height, width)
        numbers = torch.tensor([parts[number] for number in (first // FACTOR)[:, 0].tolist()], device=used.device)
        merged = torch.zeros(len(flat), 1, dtype=flat.dtype, device=flat.device)
        merged[known] = numbers[:, None] * FACTOR + top // height * (wide // width) + left // width + 1
        return merged.unflatten(0, origins.shape[:-1])

    def _put(self, function: Callable, result: Tensor, target: Tensor, place: Any, values: Any) -> None:
        """Keeps the origins of a tensor in which a function has put values into some places of a target."""
        if target in self._rows or (isinstance(values, Tensor) and values in self._rows):
            origins = _origins(self._rows, target).clone(memory_format=torch.contiguous_format)
            put = _origins(self._rows, values) if isinstance(values, Tensor) else 0
            returned = function(origins, place, put)
            _keep(self._rows, result, origins if returned is None else returned)

    def _follow(
        self,
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
                origins = self._merged_features(before[0])
            elif name == "mean":
                origins = _without(before[0], kwargs.get("dim", args[1:2] and args[1]), result.ndim)
            elif name == "view_as_complex":
                pairs = _constant(before[0], -1)
                origins = None if pairs is None else pairs.squeeze(-1)
            elif name == "view_as_real":
                origins = before[0].unsqueeze(-1)
            elif function is unfold:
                origins = _unfolded(before[0], *args[1:], **kwargs)
            elif name == "pad":
                if kwargs.get("mode", "constant") == "constant" and len(args) < 3:
                    origins = function(before[0], *args[1:], **kwargs | {"value": 0})
            elif not isinstance(args[-1], torch.dtype):  # as view may have it, which is reshape where strides differ
                origins = (Tensor.reshape if name == "view" else function)(before[0], *args[1:], **kwargs)
        for one, its in zip_longest(_tensors(result), _tensors(origins)):
            _keep(known, one, its)


def _numbered_tokens(parameter: Tensor, number: int) -> Tensor:
    """Returns the origins of a parameter that is one token, (width), or several, (…, tokens, width)."""
    tokens = torch.arange(parameter.shape[-2] if parameter.ndim > 1 else 1, device=parameter.device)
    return (-1 - number * FACTOR - tokens[:, None]).expand(1, *parameter.shape)[0]


def _lengths(value: Any, count: int) -> tuple[int, ...]:
    """Returns a number for each axis, of one for all or of several."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * count if len(values) == 1 else values


def _windows(
    name: str, named: Mapping[str, Any], before: torch.Size, after: torch.Size
) -> tuple[tuple[float, ...], list[float]]:
    """Returns how far apart the windows are of which a function makes cells, and where the first begins, along each
    axis: windows that overlap are as long as the stride, around their middles."""
    axes = len(before)
    if name == "interpolate":
        return tuple(old / new for old, new in zip(before, after, strict=True)), [0.0] * axes
    is_convolution = name in CONVOLUTIONS
    kernel = named["weight"].shape[-axes:] if is_convolution else _lengths(named["kernel_size"], axes)
    stride = _lengths(named.get("stride") or (1 if is_convolution else kernel), axes)
    steps = _lengths(named.get("dilation", 1), axes)
    spans = [1 + step * (size - 1) for step, size in zip(steps, kernel, strict=True)]
    padding = named.get("padding", 0)
    if isinstance(padding, str):
        padding = [(span - 1) // 2 if padding == "same" else 0 for span in spans]
    sides = zip(spans, stride, _lengths(padding, axes), strict=True)
    return stride, [(span - length) / 2 - added for span, length, added in sides]


def _without(origins: Tensor, dims: Any, count: int) -> Tensor | None:
    """Returns the origins of a mean over some axes that leaves this number of them; None if they differ along one."""
    kept: Tensor | None = origins
    dims = [
        dim if dim < 0 else dim - origins.ndim for dim in _lengths(range(origins.ndim) if dims is None else dims, 1)
    ]
    for dim in dims:
        kept = _constant(kept, dim)
    return kept if kept is None or count == origins.ndim else kept.squeeze(dims)


def _unfolded(origins: Tensor, *args: Any, **kwargs: Any) -> Tensor | None:
    """Returns the origins of what torch's unfold makes of an image (images, channels, height, width)."""
    one = _constant(origins, -3)
    # It takes no integers; doubles hold these exactly.
    return None if one is None else unfold(one.double(), *args, **kwargs).long().repeat(1, origins.shape[-3], 1)


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
    """Returns the origins along one dimension of (sequences, heads, …, …), one sequence after the other; None if they
    differ along heads or along the other dimension."""
    if origins is None or origins.ndim != 4:
        return None
    along: Tensor | None = origins
    for other in (-3, -3 - dim):
        along = _constant(along, other)
    return None if along is None else along.flatten().cpu()
