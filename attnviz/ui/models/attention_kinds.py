"""The names of the kinds of attention in a model."""

from collections.abc import Sequence

from attnviz.layer import Kind, Layer

NAMES = {  # of an encoder–decoder model
    ("encoder", False): "Encoder self-attention",
    ("decoder", False): "Decoder self-attention",
    ("decoder", True): "Encoder–decoder attention",
}


def group(layer: Layer) -> tuple[str, bool]:
    """Returns what layers of one kind have in common: their stack, and whether they are cross-attention."""
    return layer.id.stack, layer.kind is Kind.CROSS


def kind_name(layer: Layer, is_encoder_decoder: bool) -> str:
    """Returns the name of a layer's kind of attention."""
    stack = layer.id.stack.capitalize()
    return NAMES.get(group(layer), stack) if is_encoder_decoder else stack


def distinct_names(layers: Sequence[Layer], is_encoder_decoder: bool) -> list[str]:
    """Returns the names of these layers' kinds, with their numbers of heads and tokens where names are not unique."""
    names = [kind_name(layer, is_encoder_decoder) for layer in layers]
    if len(set(names)) == len(names):
        return names
    return [
        f"{one}: {layer.inputs.heads} heads, {layer.inputs.keys:,} tokens"
        for one, layer in zip(names, layers, strict=True)
    ]
