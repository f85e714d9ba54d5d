"""The activations of a pretrained encoder (BERT and its kin, such as all-MiniLM-L6-v2)."""

from typing import TYPE_CHECKING, Any

import torch

from attnviz.language import _, value_error
from attnviz.mechanism import Mechanism
from attnviz.path.activation import ActivationRecord
from attnviz.path.recorder import ActivationRecorder

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

MOST_TOKENS = 24  # that can be told apart in a picture


@torch.no_grad()
def encoder_activations(model: "LoadedModel", text: str) -> ActivationRecord:
    """Returns the activations of a BERT encoder that reads a text. Raises ValueError if it has more than MOST_TOKENS
    tokens.

    Example:
        >>> from attnviz.models.minilm import minilm
        >>> record = encoder_activations(minilm(), "The cat sleeps.")
        >>> record["encoder 5 attention weights"].values.shape
        torch.Size([12, 6, 6])
    """
    inputs = model.encode(text)
    tokens = inputs.source.tokens
    if len(tokens) > MOST_TOKENS:
        raise value_error(
            "At most {MOST_TOKENS} tokens can be drawn here; this text has {count}. Shorten it.",
            MOST_TOKENS=MOST_TOKENS,
            count=len(tokens),
        )
    bert: Any = model.model.base_model
    recorder = ActivationRecorder(bert.config.num_attention_heads)
    recorder.start("encoder embedding")
    parts, ids = bert.embeddings, inputs.batch["input_ids"][0]
    types = parts.token_type_embeddings.weight[0].expand(len(ids), -1)
    positions = parts.position_embeddings.weight[: len(ids)]
    terms = (
        recorder.input("words", "E", _("the learned vector of each token"), parts.word_embeddings(ids), tokens),
        recorder.input("positions", "P", _("a learned vector of each position"), positions, tokens),
        recorder.input("segments", "T", _("a learned vector: all tokens are of the first text"), types, tokens),
    )
    total = recorder.sum("sum", "s", _("each token at its position"), *terms)
    recorder.norm("norm", "x", _("each row has mean 0 and spread 1, then its own scale"), total, parts.LayerNorm)
    state = recorder.end("encoder", None, "embedding")
    for i, layer in enumerate(bert.encoder.layer):
        recorder.start(f"encoder {i} attention")
        own, after = layer.attention.self, layer.attention.output
        output = recorder.attention(state, state, (own.query, own.key, own.value, after.dense), Mechanism())
        total = recorder.sum("sum", "s", _("what came in, and what attention adds to it"), state, output)
        recorder.norm("norm", "x", _("each row has mean 0 and spread 1, then its own scale"), total, after.LayerNorm)
        state = recorder.end("encoder", i, "attention")
        recorder.start(f"encoder {i} network")
        first, second = layer.intermediate, layer.output
        about = _("each token by itself, in a wider space; negative numbers become almost 0")
        function = first.intermediate_act_fn
        hidden = recorder.linear("hidden", "F", "F = GELU(x W^1 + b)", about, state, first.dense, function)
        output = recorder.linear(
            "output", "O", "O = F W^2 + b", _("back to the width of the model"), hidden, second.dense
        )
        total = recorder.sum("sum", "s", _("what came in, and what the MLP adds to it"), state, output)
        recorder.norm("norm", "x", _("each row has mean 0 and spread 1, then its own scale"), total, second.LayerNorm)
        state = recorder.end("encoder", i, "network")
    return recorder.record()
