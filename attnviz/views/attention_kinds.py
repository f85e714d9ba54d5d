"""The names of the kinds of attention in a model."""

from collections.abc import Sequence

from attnviz.formatting import grouped
from attnviz.language import N_, _
from attnviz.layer import Kind, Layer

NAMES = {  # of an encoder–decoder model
    ("encoder", False): N_("Encoder self-attention"),
    ("decoder", False): N_("Decoder self-attention"),
    ("decoder", True): N_("Encoder–decoder attention"),
}


def group(layer: Layer) -> tuple[str, bool]:
    """Returns what layers of one kind have in common: their stack, and whether they are cross-attention."""
    return layer.id.stack, layer.kind is Kind.CROSS


def kind_name(layer: Layer, is_encoder_decoder: bool) -> str:
    """Returns the name of a layer's kind of attention."""
    stack = layer.id.stack.capitalize()
    return _(NAMES.get(group(layer), stack) if is_encoder_decoder else stack)


def distinct_names(layers: Sequence[Layer], is_encoder_decoder: bool) -> list[str]:
    """Returns the names of these layers' kinds, with their numbers of heads and tokens where names are not unique."""
    names = [kind_name(layer, is_encoder_decoder) for layer in layers]
    if len(set(names)) == len(names):
        return names
    return [
        _("{one}: {heads} heads, {keys} tokens", one=one, heads=layer.inputs.heads, keys=grouped(layer.inputs.keys))
        for one, layer in zip(names, layers, strict=True)
    ]
