"""The arguments of one forward pass: what the model is called with, and how many examples they hold."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

IDS = ("input_ids", "inputs_embeds", "decoder_input_ids")


@dataclass(frozen=True, eq=False)
class ForwardArguments:
    """The positional and keyword arguments of a model's forward pass, and all of them by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    by_name: dict[str, Any]
    sequence_first: bool  # the model has attention of torch whose inputs are (tokens, examples, width)

    @classmethod
    def from_call(cls, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "ForwardArguments":
        try:
            bound = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
        except (TypeError, ValueError):  # the model itself says what is wrong with them
            bound = {}
        by_name = {**bound, **kwargs}
        modules = (module for module in model.modules() if isinstance(module, nn.MultiheadAttention))
        return cls(args, kwargs, by_name, any(not module.batch_first for module in modules))

    def ids(self, name: str, example: int) -> tuple[int, ...]:
        """Returns the token ids of an example; none if there are none of this name."""
        ids = self.by_name.get(name)
        if not isinstance(ids, Tensor) or ids.ndim != 2 or not example < len(ids):
            return ()
        return tuple(map(int, ids[example].tolist()))

    def past_length(self) -> int | None:
        """Returns the number of tokens in the cache that the model is called with, or None without a cache."""
        cache = self.by_name.get("past_key_values")
        if cache is not None and hasattr(cache, "get_seq_length"):
            return int(cache.get_seq_length())
        keys = next((one for one in tree_leaves(cache) if isinstance(one, Tensor) and one.ndim > 2), None)
        return None if keys is None else keys.shape[-2]

    def repeated(self, count: int, **options: Any) -> "ForwardArguments":
        """Returns the arguments of `count` examples like the only one, with further keyword arguments."""

        def repeat(value: Any) -> Any:
            if not isinstance(value, Tensor) or not value.ndim:
                return value
            axis = next((axis for axis in self._example_axes(value) if value.shape[axis] == 1), None)
            return value if axis is None else value.repeat_interleave(count, axis)

        args, kwargs, by_name = tree_map(repeat, (self.args, {**self.kwargs, **options}, {**self.by_name, **options}))
        return ForwardArguments(args, kwargs, by_name, self.sequence_first)

    def _example_axes(self, value: Tensor) -> tuple[int, ...]:
        return (0, 1) if self.sequence_first and value.ndim in (2, 3) else (0,)

    def example_counts(self) -> tuple[int, ...]:
        """Returns the number of examples: the length of the token ids, or else of the first tensor. Where the model
        can take tokens before examples, the length of its second axis is the second possibility."""
        named = (self.by_name[name] for name in IDS if isinstance(self.by_name.get(name), Tensor))
        tensors = (value for value in tree_leaves((self.args, self.kwargs)) if isinstance(value, Tensor))
        first = next((tensor for tensor in (*named, *tensors) if tensor.ndim), None)
        if first is None:
            return ()
        return tuple(first.shape[:2]) if self.sequence_first and first.ndim in (2, 3) else (len(first),)


def forward_arguments(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ForwardArguments:
    """Returns what a model is called with. A mapping that is the only positional argument holds keyword arguments; a
    single text of token ids becomes a batch of one.

    Raises ValueError for arguments without tensors, such as a text.
    """
    if len(args) == 1:
        [batch] = args
        if isinstance(batch, Mapping):
            args, kwargs = (), {**batch, **kwargs}
        elif isinstance(batch, Tensor) and batch.ndim == 1 and not batch.is_floating_point() and not kwargs:
            args = (batch[None],)
        elif not kwargs and _is_without_tensors(batch):
            raise ValueError(
                f"A batch has a model's inputs as tensors, and this is a {type(batch).__name__}. Give what the model's "
                'tokenizer makes of a text, tokenizer(text, return_tensors="pt"), or a tensor of token ids.'
            )
    if all(_is_without_tensors(value) for value in (*args, *kwargs.values())):
        raise ValueError(
            "This batch holds no tensor. Give the model's inputs, as its tokenizer or processor makes them with "
            'return_tensors="pt".'
        )
    return ForwardArguments.from_call(model, args, kwargs)


def forward_parameters(model: Any) -> tuple[str, ...]:
    """Returns the names of the parameters of a model's forward."""
    return _parameters(type(model).forward)


@cache
def _parameters(function: Any) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _is_without_tensors(value: object) -> bool:
    """Returns whether a value of a known kind holds no tensor."""
    if isinstance(value, str | bytes | int | float | None):
        return True
    known = isinstance(value, Sequence | Mapping) or hasattr(value, "__array__")
    return known and not any(isinstance(leaf, Tensor) for leaf in tree_leaves(value))
