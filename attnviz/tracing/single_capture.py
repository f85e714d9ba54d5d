"""The capture of one forward pass."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from attnviz.base.token_texts import TokenTexts, texts_of_batch
from attnviz.trace import Trace, TraceWriter
from attnviz.tracing.chunked_prefill import ChunkedCalls, check_continuation, run_chunks, token_count
from attnviz.tracing.encoded_texts import begin_with_encoder
from attnviz.tracing.encoder_padding import zeros_for_padding
from attnviz.tracing.forward_arguments import ForwardArguments, forward_arguments
from attnviz.tracing.head_axes import head_counts
from attnviz.tracing.layer_naming import LayerNames, named_modules
from attnviz.tracing.memory_budget import MemoryBudget
from attnviz.tracing.model_lock import model_lock
from attnviz.tracing.optional_transformers import is_encoder_decoder, transformers_models
from attnviz.tracing.recording import Intervene, Recording, check_example
from attnviz.tracing.refusal import no_attention
from attnviz.tracing.torch_interception import recorded, tracked_modules, uncompiled
from attnviz.tracing.unbounded_numbers import first_unbounded_module
from attnviz.tracing.verification import sampled_rows


@torch.no_grad()
def capture(
    model: nn.Module,
    /,
    *args: Any,
    example: int | None = None,
    tokens: TokenTexts | None = None,
    special: Sequence[int] = (),
    decoder_tokens: TokenTexts = (),
    decoder_special: Sequence[int] = (),
    intervene: Intervene | None = None,
    folder: str | Path | None = None,
    layers: Sequence[int] | None = None,
    chunk: int | None = None,
    **kwargs: Any,
) -> Trace:
    """Returns every attention of one forward pass of `model`, for one example, in the order in which they ran.

    `example` is which one of a batch of several, counted from 0.

    `args` and `kwargs` are the model's own. A mapping that is the only positional argument, such as what a tokenizer
    or processor makes, holds keyword arguments; so a model's own argument that has the name of an option below is
    given as `capture(model, {"tokens": ids})`, and a model that takes a mapping gets it by name. A tensor of token ids
    alone may be one text, (tokens,), or several, (examples, tokens).

    Attention is seen in transformers models, also inside another module, in `nn.MultiheadAttention` and what is made
    of it, such as `nn.Transformer`, in `F.scaled_dot_product_attention` and in `flex_attention`; of a softmax in a
    module of attention, the weights are. Nested tensors, torch's fast path for encoders and compiled code are off
    meanwhile: all of them compute the same attention.

    Each layer's mechanism reproduces the model's weights, and its `fidelity` tells how certain that is: all rows
    of a short text, and some of a long one, are compared with the model's own attention, as `layer.comparison` says. A
    layer that differs is returned with the model's weights only, or named in `missing`. A mask of finite numbers that
    the softmax does not obey is a bias in the rows where it does not, and `layer.leak` says so.

    `tokens` are the labels of the axes, or what makes them of token ids: the model's tokenizer, or a function of a list
    of them; by default they are those of a tokenizer's batch. `special` are the positions of special tokens, and
    `decoder_tokens` and `decoder_special` are those of the decoder of an encoder–decoder model. Several sequences of
    one example, such as windows of a picture, are concatenated in a layer and do not attend to each other. If queries,
    keys and values take more than 64 MB together, values are rounded to float16 after the comparison. What is captured
    is on the CPU.

    `intervene` is called with the index of each layer that has a mechanism, its inputs and that mechanism. It returns
    None, or another mechanism and its output, with which the forward pass continues: (heads, queries, d_v), or the
    outputs (queries, d_v) of some heads, by their numbers; the others keep the model's own.

    With a `folder`, each layer is written into a trace there as soon as it has run, and mapped from it in what is
    returned (`attnviz.Trace`): no more than one is in memory, nothing is rounded, and what a capture that is killed has
    written can be opened. `layers` are the indices of those that are kept, in the order in which they run.

    Queries of a forward pass with a filled cache attend to its keys, which have names as in `capturing`.

    With `chunk`, a decoder of transformers reads one text in forward passes of `chunk` tokens, each of which
    continues the cache of those before: the activations of one chunk are in memory. The trace is that of the whole
    text, up to rounding. Raises ValueError if the model keeps no cache.

    One forward pass of a model object runs at a time, in evaluation mode, and the model is restored. Raises ValueError
    for arguments without tensors, such as a text, for a batch of several examples none of which is chosen, and for a
    model in which no attention is seen.

    Example:
        >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, nhead=2, batch_first=True), num_layers=2)
        >>> trace = capture(encoder, torch.randn(1, 3, 8), is_causal=True, mask=torch.ones(3, 3).triu(1).bool())
        >>> [(layer.name, layer.kind.value, layer.fidelity.value, str(layer.mechanism.mask)) for layer in trace]
        [('layer 0', 'causal', 'verified', 'causal'), ('layer 1', 'causal', 'verified', 'causal')]
    """
    arguments = forward_arguments(model, args, kwargs)
    counts = arguments.example_counts()
    is_chosen, example = example is not None, example or 0
    if counts:
        check_example(example, max(counts))
    if tokens is None:
        tokens = texts_of_batch(args[0], example) if len(args) == 1 else ()
    transformers, heads = transformers_models(), head_counts(model)
    names = LayerNames.from_arguments(
        named_modules(model),
        is_encoder_decoder(model),
        *(arguments, example, tokens, decoder_tokens, special, decoder_special),
    )
    rows = None if chunk is None else _sampled_rows_of_text(model, arguments, chunk, intervene)
    writer = None if folder is None else TraceWriter(folder, _model_name(model))
    selected = None if layers is None else frozenset(layers)

    recording = Recording(names, counts, example, MemoryBudget(), intervene, writer, selected, is_chosen=is_chosen)
    if arguments.encoder_states() is not None:
        begin_with_encoder(recording, None)
    attention = transformers.attention_of_capture(model, recording) if transformers else nullcontext()
    with prepared(model):
        with attention:
            if rows is None or chunk is None:
                with recorded(recording, heads):
                    model(*arguments.args, **arguments.kwargs)
            else:
                _read_in_chunks(model, arguments, chunk, rows, recording, heads)
        if recording.missing.is_unbounded and chunk is None and names.past is None:  # a cache is continued once
            recording.missing.first_unbounded = first_unbounded_module(
                model, lambda: model(*arguments.args, **arguments.kwargs)
            )
    trace = replace(recording.trace(), model=_model_name(model))
    if not trace and not recording.missing:
        raise ValueError(no_attention(model, recording))
    if writer is not None:
        writer.finish(trace.layers, trace.missing)
    return trace


def _model_name(model: nn.Module) -> str:
    """Returns the name of a model of the hub, of the folder that it was loaded from, or of its class."""
    path = getattr(getattr(model, "config", None), "name_or_path", "") or type(model).__name__
    return Path(path).name if Path(path).is_absolute() else str(path)


def _sampled_rows_of_text(
    model: nn.Module, arguments: ForwardArguments, chunk: int, intervene: Intervene | None
) -> list[int]:
    """Returns the rows of a text that are compared in the end. Raises ValueError if it cannot be read in chunks."""
    if chunk < 1 or intervene is not None:
        reason = "with intervene" if chunk >= 1 else f"of {chunk} tokens"
        raise ValueError(f"A text is not read in chunks {reason}. Give a chunk of a few thousand tokens, or none.")
    return sampled_rows(token_count(model, arguments))


def _read_in_chunks(
    model: nn.Module,
    arguments: ForwardArguments,
    chunk: int,
    rows: list[int],
    recording: Recording,
    heads: frozenset[int],
) -> None:
    """Records a text that is read in chunks, whose `rows` are compared in the end."""
    check_continuation(model, arguments)
    writer = recording.writer
    with TemporaryDirectory(prefix="chunks-", dir=writer.folder if writer else None) as parts:
        calls = recording.chunked = ChunkedCalls(Path(parts), rows, recording.selected)
        with recorded(recording, heads):
            run_chunks(model, arguments, chunk, calls)
        recording.record_chunked_calls(calls)


@contextmanager
def prepared(model: nn.Module) -> Iterator[None]:
    """Prepares a model for forward passes that are recorded, one at a time, in evaluation mode, and restores it."""
    with evaluating(model), tracked_modules(model), zeros_for_padding(model):
        yield


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Runs a model one forward pass at a time, in evaluation mode and uncompiled, and restores it."""
    with model_lock(model), uncompiled:
        training = [module for module in model.modules() if module.training]
        try:
            if training:
                model.eval()
            yield
        finally:
            for module in training:
                module.training = True
