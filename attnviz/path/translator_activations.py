"""The activations of the small translator."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnviz.language import _
from attnviz.models.interventions import Intervention
from attnviz.path.activation import Activation, ActivationRecord
from attnviz.path.recorder import ActivationRecorder
from attnviz.translator import Translator
from attnviz.translator.encoder_decoder import (
    D_MODEL,
    HEADS,
    POSITIONS,
    START,
    TARGET_VOCABULARY,
    DecoderLayer,
    EncoderLayer,
    MultiHeadAttention,
)
from attnviz.translator.translation import source_ids, target_ids


@torch.no_grad()
def translator_activations(
    translator: Translator,
    english: tuple[str, ...],
    french: tuple[str, ...] = (),
    interventions: Sequence[Intervention] = (),
) -> ActivationRecord:
    """Returns the activations of the encoder, and of the decoder that writes the word after `french`.

    The last activation, “output logits”, has one row, of that word. Raises KeyError for an unknown word.

    Example:
        >>> from attnviz.translator import load
        >>> logits = translator_activations(load(), ("I", "sleep", "."), ("je",))["output logits"]
        >>> logits.columns[int(logits.values.argmax())]
        'dors'
    """
    model, recorder = translator.model, ActivationRecorder(HEADS)
    vectors = model.english(source_ids([english]))[0]
    state = _embed(recorder, "encoder", vectors, english)
    for i, layer in enumerate(model.encoder):
        assert isinstance(layer, EncoderLayer)
        state = _attend(recorder, layer.attention, layer.norms[0], state, None, interventions)
        state = _network(recorder, f"encoder {i} network", "encoder", i, layer, layer.norms[1], state)
    recorder.start("memory")
    about = _("what the encoder gives to the decoder")
    recorder.norm("vectors", "M", about, state, model.norms[0])  # type: ignore[arg-type]
    memory = recorder.end("encoder", None, "output")
    ids = target_ids([french])[0, :-1]
    fed = (TARGET_VOCABULARY[START], *french)
    state = _embed(recorder, "decoder", model.french(ids), fed)
    for i, layer in enumerate(model.decoder):
        assert isinstance(layer, DecoderLayer)
        state = _attend(recorder, layer.attention, layer.norms[0], state, None, interventions)
        state = _attend(recorder, layer.cross, layer.norms[1], state, memory, interventions)
        state = _network(recorder, f"decoder {i} network", "decoder", i, layer, layer.norms[2], state)
    recorder.start("output")
    normed = recorder.norm("norm", "z", _("each row has mean 0 and spread 1"), state, model.norms[1])  # type: ignore[arg-type]
    words = model.french.weight
    recorder.add(
        "logits", "logits", "logits = z E^T", _("how well the last row fits each French word"), "linear", (normed,),
        (normed.values @ words.T)[-1:], normed.rows[-1:], TARGET_VOCABULARY, weight=words.T,
    )  # fmt: skip
    recorder.end("decoder", None, "output")
    return recorder.record()


def _embed(recorder: ActivationRecorder, stack: str, vectors: Tensor, words: tuple[str, ...]) -> Activation:
    recorder.start(f"{stack} embedding")
    terms = (
        recorder.input("words", "E", _("the learned vector of each word"), vectors * D_MODEL**0.5, words),
        recorder.input("positions", "P", _("sine waves that tell the position"), POSITIONS[: len(words)], words),
    )
    recorder.sum("sum", "x", _("each word at its position"), *terms)
    return recorder.end(stack, None, "embedding")


def _attend(
    recorder: ActivationRecorder,
    module: MultiHeadAttention,
    norm: torch.nn.Module,
    state: Activation,
    memory: Activation | None,
    interventions: Sequence[Intervention],
) -> Activation:
    stack, kind = module.id.stack, "attention" if memory is None else "cross"
    recorder.start(f"{stack} {module.layer} {kind}")
    normed = recorder.norm("norm", "z", _("each row has mean 0 and spread 1"), state, norm)  # type: ignore[arg-type]
    modules = module.query, module.key, module.value, module.output
    output = recorder.attention(normed, normed if memory is None else memory, modules, module.mechanism(interventions))
    recorder.sum("sum", "x", _("what came in, and what attention adds to it"), state, output)
    return recorder.end(stack, module.layer, "attention" if memory is None else "cross")


def _network(
    recorder: ActivationRecorder,
    name: str,
    stack: str,
    layer: int,
    module: EncoderLayer | DecoderLayer,
    norm: torch.nn.Module,
    state: Activation,
) -> Activation:
    recorder.start(name)
    normed = recorder.norm("norm", "z", _("each row has mean 0 and spread 1"), state, norm)  # type: ignore[arg-type]
    first, second = module.inner[0], module.inner[2]
    assert isinstance(first, torch.nn.Linear)
    assert isinstance(second, torch.nn.Linear)
    about = _("each token by itself, in a wider space; negative numbers become 0")
    hidden = recorder.linear("hidden", "F", "F = ReLU(z W^1 + b)", about, normed, first, torch.relu)
    output = recorder.linear("output", "O", "O = F W^2 + b", _("back to the width of the model"), hidden, second)
    recorder.sum("sum", "x", _("what came in, and what the MLP adds to it"), state, output)
    return recorder.end(stack, layer, "network")
