"""The names of the kinds of attention in a model."""

from attnviz.base.language import N_, _
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
