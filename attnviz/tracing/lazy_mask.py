"""A mask tensor of transformers that computes its rows on demand from a rule.

transformers is imported where such masks are made and read: the class is known without it.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from attnviz.masks import Causal, Full, Mask

aten = torch.ops.aten
DEFAULTS = {"q_offset": 0, "kv_offset": 0, "attention_mask": None, "device": "cpu", "dtype": torch.float32}
ALWAYS = {"allow_is_bidirectional_skip": False, "allow_is_causal_skip": False}
MakeMask: TypeAlias = Callable[..., Tensor | None]  # transformers' `eager_mask` or `sdpa_mask`


class LazyMask(Tensor):
    """The result of transformers' `eager_mask`, of shape (examples, 1, queries, keys), with 0 or the least number, or
    of its `sdpa_mask`, with booleans.

    It holds the function and its arguments, and computes rows when they are needed. Other operations get all rows, so
    models that modify their masks work unchanged.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    make: MakeMask
    arguments: dict[str, Any]
    cells: Tensor | None = None  # all rows, once an operation has got them, which may have changed them
    first: "LazyMask | None" = None  # of those that are the same, where this is another

    @staticmethod
    def __new__(cls, make: MakeMask, arguments: dict[str, Any]) -> "LazyMask":
        arguments = DEFAULTS | arguments
        shape = arguments["batch_size"], 1, arguments["q_length"], arguments["kv_length"]
        mask = Tensor._make_wrapper_subclass(
            cls, shape, dtype=arguments["dtype"], device=torch.device(arguments["device"])
        )
        mask.make = make
        # A static cache changes its offsets in place later on.
        whole = {name: int(arguments[name]) for name in ("q_offset", "kv_offset")}
        padding = arguments["attention_mask"]
        mask.arguments = arguments | whole | {"attention_mask": None if padding is None else padding.clone()}
        return mask

    def alias(self) -> "LazyMask":
        """Returns the same mask as another tensor, as torch requires of views."""
        other = LazyMask(self.make, self.arguments)
        other.first = self.original
        return other

    @property
    def original(self) -> "LazyMask":
        return self if self.first is None else self.first

    @property
    def query_range(self) -> tuple[int, int]:
        """The position of its first query in the text, and the one after its last."""
        first = self.arguments["q_offset"]
        return first, first + self.shape[2]

    def of_all(self, tokens: int) -> "LazyMask":
        """Returns the mask that the last chunk of a text shows the last rows of: of all its tokens, on the CPU."""
        padding = self.arguments["attention_mask"]
        whole = {"q_length": tokens, "kv_length": tokens, "q_offset": 0, "kv_offset": 0, "device": "cpu"}
        padding = None if padding is None else padding.cpu()
        return LazyMask(self.make, self.arguments | whole | {"attention_mask": padding})

    def rows(self, first: int, last: int) -> Tensor:
        """Returns these rows, as booleans or as numbers that are added to scores."""
        part = {"q_length": last - first, "q_offset": self.arguments["q_offset"] + first}
        return cast(Tensor, self.make(**(self.arguments | part | ALWAYS)))

    def allowed(self, example: int, first: int, last: int) -> Tensor:
        """Returns which keys these rows of an example allow, on the CPU."""
        cells = self.rows(first, last)[example, 0].cpu()
        return cells if cells.dtype == torch.bool else cells == 0

    def as_it_is(self) -> Tensor:
        """Returns this mask, or its cells if the model has changed them in place."""
        cells = self.original.cells
        return self if cells is None or torch.equal(cells, self.rows(0, self.shape[2])) else cells

    def _whole(self) -> Tensor:
        """Returns all rows: the same tensor each time, of which parts may be changed in place."""
        mask = self.original
        if mask.cells is None:
            mask.cells = mask.rows(0, mask.shape[2])
        return mask.cells

    def rule(self) -> Mask | None:
        """Returns the rule without padding if it is causal or full, else None."""
        from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

        arguments, (queries, keys) = self.arguments, self.shape[2:]
        rules = {causal_mask_function: Causal(), bidirectional_mask_function: Full()}
        first = arguments["q_offset"] == arguments["kv_offset"] == 0 and queries <= keys
        return rules.get(arguments["mask_function"]) if first else None

    def continues_causally(self) -> bool:
        """Returns whether its queries are the last of the keys, and each may see all keys up to itself."""
        from transformers.masking_utils import causal_mask_function

        first, last = self.query_range
        is_causal = self.arguments["mask_function"] is causal_mask_function and self.arguments["kv_offset"] == 0
        return is_causal and first > 0 and last == self.shape[3] and self.real_keys(0) is None

    def real_keys(self, example: int) -> Tensor | None:
        """Returns which keys are not padding, or None if all are real."""
        padding, first = self.arguments["attention_mask"], self.arguments["kv_offset"]
        if padding is None or bool(padding.all()):
            return None
        real = padding[example, first : first + self.shape[-1]].bool().cpu()
        return torch.cat([real, real.new_zeros(self.shape[-1] - len(real))])

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is aten.alias.default or (function is aten.slice.Tensor and _is_whole(*args)):
            return args[0].alias()  # models cut a mask to the number of keys, which it has
        return function(*tree_map(_materialized, args), **tree_map(_materialized, kwargs or {}))

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"LazyMask{tuple(self.shape)}"


def _is_whole(mask: Tensor, axis: int = 0, start: int | None = 0, end: int | None = None, step: int = 1) -> bool:
    return not start and (end is None or end >= mask.shape[axis]) and step == 1


def _materialized(value: Any) -> Any:
    return value._whole() if isinstance(value, LazyMask) else value


def lazy_mask(make: MakeMask, *, keep: bool = False, **arguments: Any) -> LazyMask | None:
    """Replaces `eager_mask` or `sdpa_mask`; returns None where they leave the mask out, unless it is to be kept."""
    arguments.pop("config", None)

    def rule(*_: Tensor) -> Tensor:
        raise _Needed

    try:
        return None if not keep and make(**arguments | {"mask_function": rule}) is None else LazyMask(make, arguments)
    except _Needed:
        return LazyMask(make, arguments)


class _Needed(Exception):
    """The cells of a mask are needed."""
