"""Every activation of a forward pass, from the words to the next word, with what each was computed from."""

from attnviz.path.activation import Activation, ActivationRecord, Sublayer
from attnviz.path.encoder_activations import MOST_TOKENS, encoder_activations
from attnviz.path.sampling import NextWord
from attnviz.path.translator_activations import translator_activations

__all__ = [
    "MOST_TOKENS",
    "Activation",
    "ActivationRecord",
    "NextWord",
    "Sublayer",
    "encoder_activations",
    "translator_activations",
]
