"""Captures: the queries, keys and values, or at least the weights, of all attention in a model."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attnviz.layer import Trace
from attnviz.tracing.attention_interface import register
from attnviz.tracing.layer_naming import AxisTokens, LayerNames
from attnviz.tracing.memory_budget import MemoryBudget
from attnviz.tracing.model_lock import model_lock
from attnviz.tracing.recording import Intervene, Recording, current_recording
from attnviz.tracing.torch_interception import TorchInterception, head_counts

__all__ = ["capture", "model_lock"]


@torch.no_grad()
def capture(
    model: nn.Module,
    batch: Mapping[str, Any] | Tensor,
    *,
    example: int = 0,
    tokens: Sequence[str] | None = None,
    special: Sequence[int] = (),
    decoder_tokens: Sequence[str] = (),
    decoder_special: Sequence[int] = (),
    intervene: Intervene | None = None,
) -> Trace:
    """Returns every attention of one forward pass of `model` on `batch`, for one example, in the order in which they
    ran.

    Attention is seen in transformers models, also inside another module, in `F.scaled_dot_product_attention` and in
    `nn.MultiheadAttention`. The batch has the inputs of the model by name, as its tokenizer or processor makes them; or
    it is the first of them alone, such as a tensor of token ids, (tokens,) or (examples, tokens).

    Each layer's mechanism reproduces the model's weights, and its `fidelity` tells how certain that is: some rows of
    each layer are compared with the model's own attention. A layer that differs is returned with the model's weights
    only, or named in `missing`.

    `tokens` are the labels of the axes (by default from the tokenizer), `special` the positions of special tokens;
    `decoder_tokens` and `decoder_special` are those of the decoder of an encoder–decoder model. Several sequences of
    one example, such as windows of a picture, are concatenated in a layer and do not attend to each other. If queries,
    keys and values take more than 64 MB together, values are rounded to float16 after the comparison.

    `intervene` is called with the index of each layer that has a mechanism, its inputs and that mechanism. It returns
    None, or another mechanism and its output (heads, queries, d_v), with which the forward pass continues.

    One forward pass of a model object runs at a time, and the model is restored. Raises ValueError for a batch without
    tensors, such as a text, and for a model in which no attention is seen.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
        >>> trace = capture(BertModel(config), torch.tensor([1, 2, 3]))
        >>> [(layer.name, layer.kind.value, layer.fidelity.value) for layer in trace]
        [('encoder 0', 'self', 'verified'), ('encoder 1', 'self', 'verified')]
    """
    batch = _named_inputs(model, batch)
    examples = _examples(batch)
    if not 0 <= example < examples:
        raise ValueError(f"There is no example {example}: the batch holds {examples}, counted from 0.")
    if tokens is None:
        tokens = batch.tokens(example) if hasattr(batch, "tokens") else ()
    names = LayerNames(
        {module: name for name, module in model.named_modules()},
        any(getattr(part.config, "is_encoder_decoder", False) for part in _transformers_models(model)),
        AxisTokens(tuple(tokens), tuple(special), _ids(batch, "input_ids", example)),
        AxisTokens(tuple(decoder_tokens), tuple(decoder_special), _ids(batch, "decoder_input_ids", example)),
    )
    with model_lock(model), _evaluation_mode(model):
        recording = _forward(model, batch, Recording(names, examples, example, MemoryBudget(), intervene), register())
        if recording.chose_keys:  # it uses the keys that it chose only in its own attention
            recording = _forward(model, batch, Recording(names, examples, example, MemoryBudget(), intervene), "eager")
    layers = recording.unique_layers()
    if not layers and not recording.missing:
        raise ValueError(
            f"{type(model).__name__} has no attention that can be shown. Attention is seen in transformers models, "
            "F.scaled_dot_product_attention and nn.MultiheadAttention, but not in a softmax elsewhere or FlexAttention."
        )
    return Trace(tuple(layers), tuple(recording.missing_sentences()))


def _forward(model: nn.Module, batch: Mapping[str, Any], recording: Recording, implementation: str) -> Recording:
    for part in _transformers_models(model):
        if any(getattr(inner, "_can_set_attn_implementation", bool)() for inner in part.modules()):
            part.set_attn_implementation(implementation)
    token = current_recording.set(recording)
    try:
        with TorchInterception(recording, head_counts(_configs(model))).inside(model):
            model(**batch)
    finally:
        current_recording.reset(token)
    return recording


def _transformers_models(model: nn.Module) -> list[PreTrainedModel]:
    """Returns the transformers models in a module, without those inside another of them."""
    models: list[PreTrainedModel] = []
    inside: set[nn.Module] = set()
    for part in model.modules():  # a module before its parts
        if isinstance(part, PreTrainedModel) and part not in inside:
            models.append(part)
            inside.update(part.modules())
    return models


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Runs a model in evaluation mode and restores it."""
    training = {module: module.training for module in model.modules()}
    implementations = [(config, config._attn_implementation_internal) for config in _configs(model)]
    try:
        model.eval()
        yield
    finally:
        for config, implementation in implementations:
            config._attn_implementation_internal = implementation
        for module, was in training.items():
            module.training = was


def _configs(model: Any) -> list[Any]:
    """Returns the configs of a model and of its parts, each of which can have its own attention implementation."""
    waiting = [module.config for module in model.modules() if hasattr(module, "config")]
    configs: dict[int, Any] = {}
    while waiting:
        config = waiting.pop()
        if id(config) not in configs and hasattr(config, "_attn_implementation_internal"):
            configs[id(config)] = config
            waiting += [part for name in config.sub_configs if (part := getattr(config, name, None)) is not None]
    return list(configs.values())


def _ids(batch: Mapping[str, Any], name: str, example: int) -> tuple[int, ...]:
    """Returns the token ids of an example; none if the batch has none."""
    ids = batch.get(name)
    return tuple(map(int, ids[example])) if isinstance(ids, Tensor) and ids.ndim == 2 else ()


def _named_inputs(model: nn.Module, batch: object) -> Mapping[str, Any]:
    """Returns the inputs of a model by name; a tensor alone is the first of them."""
    if isinstance(batch, Mapping):
        return batch
    if not isinstance(batch, Tensor):
        raise ValueError(
            f"A batch has a model's inputs as tensors, and this is a {type(batch).__name__}. Give what the model's "
            'tokenizer makes of a text, tokenizer(text, return_tensors="pt"), or a tensor of token ids.'
        )
    is_one_text = batch.ndim == 1 and not batch.is_floating_point()
    return {next(iter(inspect.signature(model.forward).parameters)): batch[None] if is_one_text else batch}


def _examples(batch: Mapping[str, Any]) -> int:
    """Returns the number of examples in a batch, by its token ids or else by its first tensor."""
    tokens = (batch[name] for name in ("input_ids", "inputs_embeds", "decoder_input_ids") if name in batch)
    tensors = (value for value in (*tokens, *batch.values()) if isinstance(value, Tensor) and value.ndim)
    first = next(tensors, None)
    if first is None:
        raise ValueError(
            "This batch holds no tensor. Give the model's inputs, as its tokenizer or processor makes them with "
            'return_tensors="pt".'
        )
    return len(first)
