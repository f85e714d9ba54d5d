"""Forward passes of a decoder over chunks of a text, each of which continues the cache of those before.

The activations of one chunk are in memory at a time. The queries, keys and values of each layer are appended to files,
from which the call of attention over the whole text is put together in the end.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnviz.tracing.call import Call
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.lazy_mask import LazyMask
from attnviz.tracing.memory_budget import NotCaptured

VECTORS = ("query", "key", "value")
FEW = 32  # tokens with which a model is tried
DIFFERENCE = {True: 1e-4, False: 0.05}  # that rounding may make, of the mean size: in float32, and in 16 bits
WHOLE = "Capture the text whole, without chunks"


@dataclass
class ChunkedLayer:
    """One layer: what all its calls have in common, and the rows of its output that are compared in the end."""

    module: nn.Module
    tokens: int = 0  # in its files
    heads: dict[str, tuple[int, int]] = field(default_factory=dict)  # heads and width of queries, keys and values
    options: dict[str, Any] = field(default_factory=dict)
    own: Callable | None = None  # its functions of attention
    eager: Callable | None = None
    mask: LazyMask | None = None  # of the last chunk
    dtype: torch.dtype = torch.float32
    rows: dict[int, Tensor] = field(default_factory=dict)  # outputs (heads, width)
    problem: str = ""  # why it is not captured


class ChunkedCalls:
    """The calls of attention of all layers, which come chunk by chunk, in files of a folder."""

    def __init__(self, folder: Path, sampled_rows: list[int], selected: frozenset[int] | None) -> None:
        self.folder, self.sampled_rows, self.selected = folder, sampled_rows, selected
        self.layers: list[ChunkedLayer] = []
        self.is_complete = False  # all chunks have been read
        self._next = 0  # the layer that is called next
        self._masks: dict[LazyMask, LazyMask] = {}  # of the whole text, by that of the last chunk

    def begin_chunk(self) -> None:
        self._next = 0

    def append(self, call: Call, output: Tensor) -> None:
        """Appends the call of the next layer, with its output (1, queries, heads, width).

        Raises NotCaptured if it is not part of a call over the whole text.
        """
        index, self._next = self._next, self._next + 1
        if index == len(self.layers):
            self.layers.append(ChunkedLayer(call.module))
        layer = self.layers[index]
        if self.selected is not None and index not in self.selected:
            return
        layer.problem = layer.problem or _problem(call, layer)
        if layer.problem:
            raise NotCaptured(layer.problem)
        queries = call.lengths[0]
        layer.options, layer.mask, layer.dtype = call.options, cast(LazyMask, call.mask), call.query.dtype
        layer.own, layer.eager = call.own, call.eager
        for row in self.sampled_rows:
            if layer.tokens <= row < layer.tokens + queries:
                layer.rows[row] = output[0, row - layer.tokens].float().cpu()
        for name in VECTORS:
            # The keys that are new are the last: a cache may hold those of a window alone.
            part = getattr(call, name)[0, :, -queries:].transpose(0, 1).cpu().contiguous()
            layer.heads[name] = part.shape[1], part.shape[2]
            self._append(self._file(index, name), part)
        layer.tokens += queries

    def whole_calls(self) -> Iterator[tuple[Call, Tensor] | None]:
        """Yields each layer's call over the whole text, on the CPU, with the sampled rows of its output (rows, heads,
        width); None for a layer that is not selected or cannot be captured. Files are removed when they are used."""
        self.is_complete = True
        for index, layer in enumerate(self.layers):
            if layer.mask is None or layer.problem:
                yield None
                continue
            query, key, value = (self._mapped(index, name, layer) for name in VECTORS)
            options = {name: one.cpu() if isinstance(one, Tensor) else one for name, one in layer.options.items()}
            rows = torch.stack([layer.rows[row] for row in self.sampled_rows])
            mask = self._whole_mask(layer.mask, layer.tokens)
            yield Call(layer.module, query, key, value, mask, options, own=layer.own, eager=layer.eager), rows
            for name in VECTORS:
                self._file(index, name).unlink()

    def _whole_mask(self, mask: LazyMask, tokens: int) -> LazyMask:
        """Returns the mask of the whole text; one for all layers that share theirs, since reading it takes time."""
        return self._masks.setdefault(mask.original, mask.of_all(tokens))

    def _mapped(self, index: int, name: str, layer: ChunkedLayer) -> Tensor:
        """Returns the vectors (1, heads, tokens, width), mapped from their file."""
        shape = layer.tokens, *layer.heads[name]
        path, size = str(self._file(index, name)), layer.tokens * shape[1] * shape[2]
        return torch.from_file(path, size=size, dtype=layer.dtype).view(shape).transpose(0, 1)[None]

    def _append(self, path: Path, part: Tensor) -> None:
        try:
            with path.open("ab") as file:
                file.write(part.view(torch.uint8).numpy().data)
        except OSError as error:
            raise ValueError(f"The chunks of the text cannot be written: {error.strerror}. Make room first.") from error

    def _file(self, index: int, name: str) -> Path:
        return self.folder / f"{index}-{name}"


def run_chunks(model: nn.Module, arguments: ForwardArguments, size: int, calls: ChunkedCalls) -> None:
    """Runs a decoder over chunks of at most `size` tokens. Raises ValueError if it does not continue its cache."""
    tokens = token_count(model, arguments)
    for _ in _results(model, arguments, [*range(0, tokens, size), tokens], calls.begin_chunk):
        pass


def check_continuation(model: nn.Module, arguments: ForwardArguments) -> None:
    """Raises ValueError if a model gives another result for a few tokens in two chunks than at once.

    Some recurrent layers begin anew with each chunk.
    """
    few = min(token_count(model, arguments), FEW)
    if few < 2:
        return
    [whole] = _results(model, arguments, [0, few])
    *_, chunk = _results(model, arguments, [0, few // 2, few])
    expected, states = whole[0][:, few // 2 :].float(), chunk[0][:, -(few - few // 2) :].float()
    most = DIFFERENCE[whole[0].dtype == torch.float32]
    if float((states - expected).abs().mean()) > most * float(expected.abs().mean()):
        raise ValueError(f"{type(model).__name__} reads a text otherwise in chunks than at once. {WHOLE}.")


def _results(
    model: nn.Module, arguments: ForwardArguments, edges: Sequence[int], begin: Callable[[], object] = lambda: None
) -> Iterator[Any]:
    """Yields the result of the forward pass over each chunk, after `begin` is called."""
    tokens, cache = token_count(model, arguments), None
    for first, last in pairwise(edges):
        begin()
        part = {name: _part(name, value, first, last, tokens) for name, value in arguments.by_name.items()}
        result = model(**part | {"past_key_values": cache, "use_cache": True, "return_dict": True})
        cache = getattr(result, "past_key_values", None)
        if cache is None or not hasattr(cache, "get_seq_length") or cache.get_seq_length() != last:
            raise ValueError(f"{type(model).__name__} keeps no cache of what it has read. {WHOLE}.")
        yield result


def token_count(model: nn.Module, arguments: ForwardArguments) -> int:
    """Returns the number of tokens of the text. Raises ValueError if a model does not read one text with a cache."""
    ids = (arguments.by_name.get(name) for name in ("input_ids", "inputs_embeds"))
    text = next((one for one in ids if isinstance(one, Tensor)), None)
    if text is None or len(text) != 1:
        raise ValueError("Chunks are those of one text: give its token ids, as input_ids of the shape (1, tokens).")
    if "past_key_values" not in inspect.signature(model.forward).parameters or arguments.by_name.get("past_key_values"):
        raise ValueError(f"{type(model).__name__} cannot read a text in chunks. {WHOLE}.")
    return text.shape[1]


def _part(name: str, value: Any, first: int, last: int, tokens: int) -> Any:
    """Returns the part of an argument that a chunk needs: a mask of padding is for all keys so far."""
    if not isinstance(value, Tensor) or value.ndim < 2 or value.shape[1] != tokens:
        return value
    return value[:, :last] if name == "attention_mask" else value[:, first:last]


def _problem(call: Call, layer: ChunkedLayer) -> str:
    """Returns why a call is not part of one over the whole text, as the end of a sentence; empty if it is."""
    if any(isinstance(one, Tensor) and one.ndim == 4 for one in call.options.values()):
        return f"its scores depend on more than a rule of positions. {WHOLE}"
    continued = isinstance(call.mask, LazyMask) and call.mask.query_range == (
        layer.tokens,
        layer.tokens + call.lengths[0],
    )
    if not continued or call.module is not layer.module:
        return f"its calls in one chunk do not continue those in the chunk before. {WHOLE}"
    return ""
