"""The kinds of attention that a model has, and what they are called."""

from collections.abc import Sequence

from attnviz.layer import Kind, Layer

Use = tuple[str, bool]  # the stack of a layer, and whether its queries attend to other tokens
NAMES = {  # of a model that decodes
    ("encoder", False): "Encoder self-attention",
    ("decoder", False): "Decoder self-attention",
    ("decoder", True): "Encoder–decoder attention",
}


def kind(layer: Layer) -> Use:
    """Which kind a layer's attention is of."""
    return layer.id.stack, layer.kind is Kind.CROSS


def called(layer: Layer, decodes: bool) -> str:
    """What the kind of a layer's attention is called, in a model that decodes or not."""
    stack = kind(layer)[0].capitalize()
    return NAMES.get(kind(layer), stack) if decodes else stack


def told_apart(layers: Sequence[Layer], decodes: bool) -> list[str]:
    """What the attention of each of these layers is called, beside the others."""
    names = [called(layer, decodes) for layer in layers]
    if len(set(names)) == len(names):
        return names
    return [
        f"{name}: {layer.inputs.heads} heads, {layer.inputs.keys:,} tokens"
        for name, layer in zip(names, layers, strict=True)
    ]
