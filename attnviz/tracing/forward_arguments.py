"""The arguments of one forward pass: what the model is called with, how many examples they hold, and which positions
are read."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils._pytree import tree_leaves, tree_map

from attnviz.base.language import value_error
from attnviz.base.plain_tensor import plain_tensor
from attnviz.tracing.call import MASKED
from attnviz.tracing.read_positions import visible_keys

IDS = ("input_ids", "inputs_embeds", "decoder_input_ids")
MASKS = ("attention_mask", "src_key_padding_mask", "key_padding_mask", "padding_mask", "input_mask")
DECODER_MASKS = ("decoder_attention_mask", "tgt_key_padding_mask")
TRUE_HIDES = "padding_mask", "input_mask"  # how the names of masks end that are true where others are false
# Arguments that change what a model returns, and not what it computes.
OF_OUTPUT = ("logits_to_keep", "num_logits_to_keep", "labels", "return_dict")


@dataclass(frozen=True, eq=False)
class ForwardArguments:
    """The positional and keyword arguments of a model's forward pass, and all of them by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    by_name: dict[str, Any]
    sequence_first: bool  # the model has attention of torch whose inputs are (tokens, examples, width)
    # Gives the mask of the positions that a model of sounds makes of a mask of samples.
    shorten_mask: Callable[[int, Tensor], Tensor] | None = None

    @classmethod
    def from_call(cls, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "ForwardArguments":
        try:
            bound = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
        except (TypeError, ValueError):  # the model itself says what is wrong with them
            bound = {}
        by_name = {**bound, **kwargs}
        modules = (module for module in model.modules() if isinstance(module, nn.MultiheadAttention))
        shorten_mask = getattr(model, "_get_feature_vector_attention_mask", None)
        return cls(args, kwargs, by_name, any(not module.batch_first for module in modules), shorten_mask)

    def ids(self, name: str, example: int) -> tuple[int, ...]:
        """Returns the token ids of an example; none if there are none of this name."""
        ids = self.by_name.get(name)
        if not isinstance(ids, Tensor) or ids.ndim != 2 or not example < len(ids):
            return ()
        return tuple(map(int, ids[example].tolist()))

    def encoder_states(self) -> Tensor | None:
        """Returns what an encoder has made of its texts, (examples, tokens, width), where the model is given that."""
        outputs = self.by_name.get("encoder_outputs")
        states = next((one for one in tree_leaves(outputs) if isinstance(one, Tensor)), None)
        return states if states is not None and states.ndim == 3 else None

    def past_length(self) -> int | None:
        """Returns the number of tokens in the cache that the model is called with, or None without a cache."""
        cache = self.by_name.get("past_key_values")
        if cache is not None and hasattr(cache, "get_seq_length"):
            return int(cache.get_seq_length())
        keys = next((one for one in tree_leaves(cache) if isinstance(one, Tensor) and one.ndim > 2), None)
        return None if keys is None else keys.shape[-2]

    def read(self, count: int, of_decoder: bool = False, example: int = 0) -> Bool[Tensor, " positions"]:
        """Returns which of the positions of an example are read: not those that its attention mask hides from all
        queries, as padding. Raises ValueError if it hides some, and is of another number of positions."""
        names = DECODER_MASKS if of_decoder else MASKS
        masks = (mask for name in names if (mask := _visible(name, self.by_name.get(name), example)) is not None)
        read = next(masks, None)
        if read is None or bool(read.all()):
            return torch.ones(count, dtype=torch.bool)
        if len(read) != count and self.shorten_mask is not None:
            read = self.shorten_mask(count, read[None].long())[0].bool()
        if len(read) != count:
            raise value_error(
                "The attention mask is of {length} positions, and the model computes {count} here, so it is not known "
                "which of them are padding. Give one example without padding.",
                length=len(read),
                count=count,
            )
        return read

    def with_tokens(self, count: int) -> "ForwardArguments":
        """Returns the arguments with an attention mask for further tokens, up to `count`, which are read."""
        mask = self.by_name.get("attention_mask")
        if not isinstance(mask, Tensor):
            return self
        longer = pad(mask, (0, count - mask.shape[-1]), value=1)
        return replace(self, by_name={**self.by_name, "attention_mask": longer})

    def repeated(self, count: int, examples: int = 1, **options: Any) -> "ForwardArguments":
        """Returns the arguments of so many times the only example, or all `examples`, with further keyword
        arguments."""

        def repeat(value: Any) -> Any:
            if not isinstance(value, Tensor) or not value.ndim:
                return value
            axis = next((axis for axis in self._example_axes(value) if value.shape[axis] == examples), None)
            return value if axis is None else torch.cat([value] * count, axis)

        args, kwargs, by_name = tree_map(repeat, (self.args, {**self.kwargs, **options}, {**self.by_name, **options}))
        return replace(self, args=args, kwargs=kwargs, by_name=by_name)

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

    Raises ValueError for arguments without tensors, such as a text, for those and models without numbers, and for what
    is no torch.nn.Module.
    """
    check_model(model)
    if len(args) == 1:
        [batch] = args
        if isinstance(batch, Mapping):
            args, kwargs = (), {**batch, **kwargs}
        elif isinstance(batch, Tensor) and batch.ndim == 1 and not batch.is_floating_point() and not kwargs:
            args = (batch[None],)
        elif not kwargs and _is_without_tensors(batch):
            raise ValueError(
                f"A batch has a model's inputs as tensors, and this is a {type(batch).__name__}. Give what the model's "
                'tokenizer makes of a text, tokenizer(text, return_tensors="pt"), a tensor of token ids, or '
                "attnviz.Texts(model, texts) of several texts."
            )
    if all(_is_without_tensors(value) for value in (*args, *kwargs.values())):
        raise ValueError(
            "This batch holds no tensor. Give the model's inputs, as its tokenizer or processor makes them with "
            'return_tensors="pt".'
        )
    _check_numbers(model, args, kwargs)
    return ForwardArguments.from_call(model, args, kwargs)


def check_model(model: Any) -> None:
    """Raises ValueError for what is no torch.nn.Module, such as a loaded model, which has one."""
    if not isinstance(model, nn.Module):
        raise value_error(
            "A model is expected as a torch.nn.Module, and this is a {kind}. Of one that attnviz.models.load has read, "
            "give its .model.",
            kind=type(model).__name__,
        )


def example_arguments(model: nn.Module, batch: Any) -> ForwardArguments:
    """Returns what a model is called with for one example, of which anything may be asked: without arguments that
    leave out or rename what it returns. A tuple holds positional arguments. Raises ValueError for a cache, which each
    run would change."""
    arguments = forward_arguments(model, batch if isinstance(batch, tuple) else (batch,), {})
    if arguments.past_length():
        raise value_error(
            "This batch continues the text of a cache, past_key_values, which each run would change. Give the whole "
            "text without a cache."
        )
    left_out, kwargs = (*OF_OUTPUT, "past_key_values"), dict(arguments.kwargs)
    prepare = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if prepare is not None and kwargs.get("labels") is not None and kwargs.get("decoder_input_ids") is None:
        kwargs["decoder_input_ids"] = prepare(labels=kwargs["labels"])
    kwargs = {name: value for name, value in kwargs.items() if name not in left_out}
    if getattr(getattr(model, "config", None), "return_dict", True) is False:
        kwargs["return_dict"] = True
    return ForwardArguments.from_call(model, arguments.args, kwargs)


def check_one_example(arguments: ForwardArguments) -> None:
    """Raises ValueError if these are several examples."""
    if (counts := arguments.example_counts()) and 1 not in counts:
        raise value_error(
            "This is computed for one example, and the batch holds {count}. Give them one by one.", count=counts[0]
        )


def _visible(name: str, mask: Any, example: int) -> Bool[Tensor, " positions"] | None:
    """Returns the positions of an example that a mask of this name shows; of several masks, that one of them does.
    None if it is none, or not a tensor."""
    if isinstance(mask, Mapping):
        visible = [one for one in (_visible(name, each, example) for each in mask.values()) if one is not None]
        return torch.stack(visible).any(0) if visible else None
    if not isinstance(mask, Tensor) or not mask.ndim:
        return None
    mask = (mask if mask.ndim == 1 or len(mask) == 1 else mask[example]).detach().cpu()
    if mask.is_floating_point() and (mask.ndim > 2 or bool((mask < 0).any())):  # it is added to scores
        allowed = mask > MASKED
    else:
        allowed = mask.bool() != name.endswith(TRUE_HIDES)
    return visible_keys(allowed)


def _check_numbers(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises ValueError for nested tensors, and for a model or tensors on the meta device."""
    for tensor in tree_leaves((args, kwargs)):
        if isinstance(tensor, Tensor) and (tensor.is_nested or tensor.is_meta):
            plain_tensor(tensor, "A tensor of this batch")
    is_offloaded = any(hasattr(module, "_hf_hook") for module in model.modules())  # by accelerate, until it is needed
    without = next((name for name, one in model.named_parameters() if one.is_meta), None)
    if without is not None and not is_offloaded:
        raise ValueError(
            f"{type(model).__name__} is on the meta device, without numbers, with “{without}”. Load its weights first."
        )


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
