"""The linear maps of heads: from the residual stream to queries, keys and values, from there back, and to the logits.

They are gradients of a pass over one token in which nothing is written, so that they are exact for any architecture.
The weights of norms are part of them; their scales, which depend on a text, are those of this pass, so that a map is
known up to a positive factor. Biases are not part of them.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.attribution.float32_weights import in_float32, plain_float32
from attnviz.attribution.linearized_pass import LinearizedPass
from attnviz.attribution.metric_values import logits_at
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import N_, value_error
from attnviz.layer import LayerId
from attnviz.tracing.forward_arguments import example_arguments
from attnviz.tracing.linearized_run import FixedScales, LinearizedRun, run_linearized
from attnviz.tracing.optional_transformers import is_encoder_decoder
from attnviz.tracing.single_capture import evaluating

TOKENS_AT_ONCE = 1024  # of a vocabulary, each a text of its own
NO_EMBEDDING = N_("This model has no embedding of tokens, so its heads have no circuits on a vocabulary.")
TOLERANCE = 1e-3  # of a vector that is another one times a factor


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """The maps of the heads of a layer. Streams are numbered: an encoder and a decoder have their own."""

    id: LayerId
    query: Float[Tensor, "heads d_k width"]
    key: Float[Tensor, "kv_heads d_k width"]
    value: Float[Tensor, "kv_heads d_v width"]
    output: Float[Tensor, "heads width d_v"]
    query_stream: int
    key_stream: int  # and of values
    output_stream: int
    normalizes_keys: bool  # by norms of its own, whose scale depends on the key

    @property
    def heads(self) -> int:
        """The number of heads."""
        return len(self.query)

    def of_heads(self, maps: Tensor) -> Tensor:
        """Returns the maps of each head's keys or values, which it may share with others: (heads, d, width)."""
        return maps.repeat_interleave(self.heads // len(maps), 0)


@dataclass(frozen=True, eq=False)
class LinearMaps:
    """The maps of all layers, as they run, and of the residual stream to the logits."""

    model: nn.Module
    layers: tuple[LayerMaps, ...]
    embedding: Float[Tensor, "vocabulary width"]
    logits_stream: int | None  # None of a model that predicts no tokens
    first_layer: nn.Module  # the module whose output is the residual stream after the heads of the first layer
    _logits: Tensor = field(repr=False)  # as a function of
    _word: Tensor = field(repr=False)  # the embedding of a token

    def logits(self, directions: Float[Tensor, "directions width"]) -> Float[Tensor, "directions vocabulary"]:
        """Returns the logits of vectors of the residual stream."""
        return _pushed(self._logits, self._word, directions)

    def gradients(self, weights: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows width"]:
        """Returns the gradients of weighted sums of the logits with regard to the residual stream."""
        return pulled(self._logits, self._word, weights)

    @torch.no_grad()
    def after_first_layer(self, progress: Callable[[float], None] = lambda done: None) -> Tensor:
        """Returns the residual stream after the first layer for each token of the vocabulary, alone in a text:
        (vocabulary, width).

        `progress` gets the share that is done. Raises ValueError for an encoder–decoder model.
        """
        if is_encoder_decoder(self.model):
            raise value_error("A model with an encoder and a decoder has two first layers. Take the embeddings.")

        def stop(module: nn.Module, args: Any, result: Any) -> None:
            raise _Stopped(result[0] if isinstance(result, tuple) else result)

        rows, count = [], len(self.embedding)
        ids = torch.arange(count, device=self.embedding.device)
        for block in ids.split(TOKENS_AT_ONCE):
            end_if_unwanted()
            with evaluating(self.model):
                hook = self.first_layer.register_forward_hook(stop)
                try:
                    self.model(input_ids=block[:, None])
                except _Stopped as stopped:
                    rows.append(stopped.output.reshape(len(block), -1).clone())
                finally:
                    hook.remove()
            progress(int(block[-1] + 1) / count)
        return torch.cat(rows)


class _Stopped(Exception):
    """Ends a forward pass whose rest nobody needs."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


@torch.enable_grad()
def linear_maps(model: nn.Module, batch: Any = None) -> LinearMaps:
    """Returns the linear maps of all heads of a model.

    `batch` is what the model is called with for one token, by default the token's id: any, because only scales depend
    on it. A model in half precision is computed in float32. Raises ValueError if the embedding of a token is not a part
    of the residual stream of every layer, as where norms lie in the stream (post-norm), and if queries, keys and values
    of a layer are not known.
    """
    exact = in_float32(model)
    embedding = _word_embedding(exact)
    first = LinearizedPass(exact, example_arguments(exact, _one_token(exact) if batch is None else batch))
    _ = first.ran
    scales, outputs = FixedScales(True, first.scales.numbers), ModuleOutputs()
    output, run = run_linearized(exact, first.arguments, scales, within=outputs.kept)
    words = [writer.value for writer in run.embeddings if writer.module is embedding]
    if not words:
        raise value_error(NO_EMBEDDING)
    if any(word.numel() != embedding.embedding_dim for word in words):
        raise value_error("The maps of heads are those of one token. Give a batch of one token.")
    normalized = frozenset(module for module, _ in scales.numbers)
    streams = [outputs.stream_after(run, layer, words) for layer in range(len(run.heads))]
    layers = tuple(_layer_maps(run, layer, stream, words, normalized) for layer, stream in enumerate(streams))
    try:
        logits = logits_at(first, output, -1)
    except ValueError:  # of a model without a head that predicts
        logits = words[0].new_zeros(0)
    # Logits of labels are not those of tokens.
    stream = _reached(logits, words) if len(logits) == len(embedding.weight) else None
    assert streams[0] is not None  # or _layer_maps has refused it
    tokens, word = plain_float32(embedding.weight), words[stream or 0]
    return LinearMaps(exact, layers, tokens, stream, streams[0].module, logits, word)


@dataclass(frozen=True, eq=False)
class _Stream:
    """The residual stream after the heads of a layer have written to it, its number, and the module that returns it."""

    value: Tensor
    number: int
    module: nn.Module


@dataclass
class ModuleOutputs:
    """What the modules of a model return, with the numbers of layers that have run before."""

    outputs: list[tuple[nn.Module, int, Tensor]] = field(default_factory=list)

    @contextmanager
    def kept(self, run: LinearizedRun) -> Iterator[None]:
        """Keeps what modules return within the context."""

        def keep(module: nn.Module, args: Any, result: Any) -> None:
            output = result[0] if isinstance(result, tuple) and result else result
            if isinstance(output, Tensor) and output.requires_grad:
                self.outputs.append((module, len(run.heads), output))

        hooks = [module.register_forward_hook(keep) for module in run.names.modules]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def stream_after(self, run: LinearizedRun, layer: int, words: Sequence[Tensor]) -> _Stream | None:
        """Returns the residual stream to which the heads of a layer have written: what the innermost module around them
        returns that is made of an embedding, too."""
        writer, paths = run.heads[layer], run.names.modules
        for module, layers, output in self.outputs:
            if layers > layer and (not paths[module] or f"{paths[writer.module]}.".startswith(f"{paths[module]}.")):
                number = _reached(output, words)
                if number is not None and _reached(output, [writer.value]) is not None:
                    return _Stream(output, number, module)
        return None


def _layer_maps(
    run: LinearizedRun, layer: int, stream: _Stream | None, words: Sequence[Tensor], normalized: frozenset[nn.Module]
) -> LayerMaps:
    writer = run.heads[layer]
    name = run.names.layer_id(writer.module)
    if writer.call is None:
        raise value_error(
            "The queries, keys and values of {layer} are not known: the model computes its attention by itself. Choose "
            "another model.",
            layer=name,
        )
    numbers = [part[0, :, 0] for part in (writer.call.query, writer.call.key, writer.call.value)]  # (heads, d)
    reads = [_reached(part, words) for part in numbers]
    if stream is None or None in reads or not _is_multiple(stream.value, words[stream.number]):
        raise value_error(
            "The embedding of a token is not a part of what {layer} reads or writes to: norms or other maps lie in the "
            "residual stream of this model. Choose a model whose norms stand before its layers, such as GPT-2 or "
            "Llama.",
            layer=name,
        )
    query, key, value = (
        _jacobian(part.flatten(), words[read or 0]).unflatten(0, part.shape)
        for part, read in zip(numbers, reads, strict=True)
    )
    output = _jacobian(stream.value.flatten(), writer.value).unflatten(1, writer.value.shape[2:]).transpose(0, 1)
    is_normalized = not normalized.isdisjoint(writer.module.modules())
    return LayerMaps(name, query, key, value, output, reads[0] or 0, reads[1] or 0, stream.number, is_normalized)


def _is_multiple(output: Tensor, word: Tensor) -> bool:
    """Returns whether an embedding is a part of an output as it is, or times a positive factor."""
    if output.numel() != word.numel():
        return False
    direction = torch.randn(word.numel(), generator=torch.Generator().manual_seed(0)).to(word)
    gradient = pulled(output.flatten(), word, direction[None])[0]
    factor = gradient @ direction / direction.square().sum()
    return bool(factor > 0 and (gradient - factor * direction).norm() < TOLERANCE * gradient.norm())


def _reached(numbers: Tensor, leaves: Sequence[Tensor]) -> int | None:
    """Returns the index of the first of the leaves that numbers are made of, or None."""
    if not numbers.requires_grad:
        return None
    gradients = torch.autograd.grad(numbers, leaves, torch.ones_like(numbers), retain_graph=True, allow_unused=True)
    return next((i for i, gradient in enumerate(gradients) if gradient is not None), None)


def _jacobian(numbers: Tensor, leaf: Tensor) -> Tensor:
    """Returns the derivatives of numbers, (numbers, numbers of the leaf)."""
    return pulled(numbers, leaf, torch.eye(len(numbers), dtype=numbers.dtype, device=numbers.device))


def pulled(numbers: Tensor, leaf: Tensor, rows: Tensor) -> Tensor:
    """Returns the products of rows (rows, numbers) with the derivatives, (rows, numbers of the leaf)."""
    [gradients] = torch.autograd.grad(numbers, leaf, rows, retain_graph=True, is_grads_batched=True)
    return gradients.flatten(1).detach()


def _pushed(numbers: Tensor, leaf: Tensor, directions: Tensor) -> Tensor:
    """Returns the products of the derivatives with directions (directions, numbers of the leaf), (directions,
    numbers): by the gradient of a gradient."""
    weights = torch.zeros_like(numbers, requires_grad=True)
    with torch.enable_grad():
        [gradient] = torch.autograd.grad(numbers, leaf, weights, create_graph=True)
    return pulled(gradient.flatten(), weights, directions)


def _word_embedding(model: nn.Module) -> nn.Embedding:
    find: Callable[[], Any] | None = getattr(model, "get_input_embeddings", None)
    try:
        embedding = None if find is None else find()
    except NotImplementedError:  # of models that read no text
        embedding = None
    if not isinstance(embedding, nn.Embedding):
        raise value_error(NO_EMBEDDING)
    return embedding


def _one_token(model: nn.Module) -> dict[str, Tensor]:
    """Returns a batch of one token. Raises ValueError if the model reads something else."""
    if "input_ids" not in inspect.signature(model.forward).parameters:
        raise value_error("This model reads more than token ids. Give what it is called with for one token.")
    ids = torch.tensor([[1]], device=next(model.parameters()).device)
    return {"input_ids": ids} | ({"decoder_input_ids": ids} if is_encoder_decoder(model) else {})
