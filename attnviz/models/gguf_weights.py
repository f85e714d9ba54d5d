"""Where the tensors of a GGUF file belong in a model of transformers: names and shapes are compared before a number is
read, and numbers are read in parts."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gguf import MODEL_ARCH_NAMES, get_tensor_name_map
from numpy.typing import NDArray

from attnviz.base.formatting import quoted
from attnviz.base.language import N_, _, value_error
from attnviz.models.gguf_file import GgufTensor, tensor_rows
from attnviz.models.gguf_keys import ROPE_FACTORS
from attnviz.models.gguf_program import GgufHead

MOST_AT_ONCE = 1 << 23  # numbers of a part: 32 MB in float32
EXPERT_PARTS = ("gate", "up")  # which are one weight in transformers, for each expert one after the other
Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class Weight:
    """A weight of a model, and the tensors that it is made of."""

    name: str
    shape: tuple[int, ...]
    tensors: tuple[GgufTensor, ...]
    head: GgufHead = field(repr=False)
    change: Callable[[Numbers], Numbers] | None = field(default=None, repr=False)  # of `rows` rows at a time
    rows: int = 1

    def parts(self) -> Iterator[Numbers]:
        """Yields the numbers in their order, in parts. Raises ValueError if they are not finite."""
        stop, several = self.tensors[0].rows, len(self.tensors) > 1
        step = self.rows if several else self.rows * max(1, MOST_AT_ONCE // (self.rows * self.shape[-1]))
        for start in range(0, stop, step):
            for tensor in self.tensors:
                numbers = tensor_rows(self.head.path, tensor, start, min(start + step, stop))
                if not np.isfinite(numbers).all():
                    raise refused(self.head, tensor, N_("it has numbers that are not finite"))
                yield np.ascontiguousarray(numbers if self.change is None else self.change(numbers))


def placed_weights(head: GgufHead, model: Any) -> list[Weight]:
    """Returns the weights of a model in the order of the file's tensors. Raises ValueError for a tensor that has no
    place or another shape, and for a weight that has no tensor."""
    kind, placed = head.kind, dict[str, list[GgufTensor]]()
    names, shapes = weight_names(model, kind), {name: tuple(one.shape) for name, one in model.state_dict().items()}
    for tensor in head.tensors:
        if tensor.name in names:
            placed.setdefault(names[tensor.name], []).append(tensor)
        elif tensor.name != ROPE_FACTORS or kind != "llama":  # which the config has
            raise refused(head, tensor, N_("transformers has no place for it"))
    for stored, name in names.items():
        if not any(one.name == stored for one in placed.get(name, ())) and not _is_tied(name, model):
            raise value_error(
                "{name} lacks the tensor {tensor}, without which a part of the model would be random numbers. Download "
                "it again, or choose the model that it was made from.",
                name=quoted(head.path.name),
                tensor=quoted(stored),
            )
    return [_weight(head, name, shapes[name], tensors) for name, tensors in placed.items()]


def weight_names(model: Any, kind: str) -> dict[str, str]:
    """Returns the names of a model's weights in transformers, by those in GGUF, as transformers'
    `get_gguf_hf_weights_map` does within seconds."""
    number = next(number for number, name in MODEL_ARCH_NAMES.items() if name == kind)
    known = get_tensor_name_map(number, model.config.num_hidden_layers)
    names: dict[str, str] = {}
    for own in model.state_dict():
        if experts := re.search(r"layers\.(\d+)\.mlp\.experts\.(gate_up|down)_proj$", own):
            parts = EXPERT_PARTS if experts[2] == "gate_up" else ("down",)
            names |= {f"blk.{experts[1]}.ffn_{part}_exps.weight": own for part in parts}
            continue
        stem, _dot, end = own.rpartition(".")
        # Some were named as the weights of the model without its head.
        stored = known.get_name(stem) or known.get_name(stem.partition(".")[2]) or known.get_name(f"model.{stem}")
        if stored is not None:
            names[f"{stored}.{end}"] = own
    return names


def _is_tied(name: str, model: Any) -> bool:
    return name == "lm_head.weight" and bool(model.config.tie_word_embeddings)


def _weight(head: GgufHead, name: str, shape: tuple[int, ...], tensors: list[GgufTensor]) -> Weight:
    """Returns a weight. Raises ValueError if one of its tensors has another shape."""
    first, expected, change, rows = tensors[0], shape, None, 1
    if first.name.endswith(("_gate_exps.weight", "_up_exps.weight")):
        tensors = sorted(tensors, key=lambda one: one.name)  # gate, then up
        rows = shape[1] // len(EXPERT_PARTS)
        expected = shape[0], rows, *shape[2:]
    elif first.name.endswith("ffn_gate_inp_shexp.weight"):
        expected = shape[1:]
    elif head.kind == "llama" and first.name.endswith(("attn_q.weight", "attn_k.weight")):
        rows = head.config["head_dim"]
        expected, change = (() if rows % 2 else shape), _unpaired(rows)
    elif head.kind == "bloom" and "attn_qkv" in first.name:
        rows, change = math.prod(shape[:-1]), _by_head(head.config["n_head"])
    elif head.kind == "gpt2" and re.search(r"(attn_qkv|attn_output|ffn_up|ffn_down)\.weight$", first.name):
        expected = shape[::-1]
        rows, change = expected[0], np.transpose
    elif head.kind in ("nemotron", "gemma2", "gemma3") and first.name.endswith("norm.weight"):
        change = _without_one
    for tensor in tensors:
        if tensor.shape != expected:
            raise refused(head, tensor, N_("the config needs one of another shape"))
    return Weight(name, shape, tuple(tensors), head, change, rows)


def _unpaired(size: int) -> Callable[[Numbers], Numbers]:
    """Returns a function of the rows of heads that puts the first halves of rotary pairs before the others, which are
    side by side in llama.cpp."""
    return lambda numbers: numbers.reshape(-1, size // 2, 2, numbers.shape[-1]).swapaxes(1, 2).reshape(numbers.shape)


def _by_head(heads: int) -> Callable[[Numbers], Numbers]:
    """Returns a function of queries, keys and values that orders them by head."""
    return lambda numbers: numbers.reshape(3, heads, -1).swapaxes(0, 1).reshape(numbers.shape)


def _without_one(numbers: Numbers) -> Numbers:
    """Returns the weights of a norm to which transformers adds one."""
    return numbers - 1


def refused(head: GgufHead, tensor: GgufTensor, reason: str) -> ValueError:
    """Returns the error for a tensor that cannot be used, for a reason, which is a message."""
    return value_error(
        "{name} has the tensor {tensor}, but {reason}. Choose the model that it was made from.",
        name=quoted(head.path.name),
        tensor=quoted(tensor.name),
        reason=_(reason),
    )
