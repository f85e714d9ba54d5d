"""Every activation of a forward pass, from the words to the next word, with what each was computed from."""

from attnviz.lessons.activations.activation import Activation, ActivationRecord, Sublayer
from attnviz.lessons.activations.encoder import MOST_TOKENS, encoder_activations
from attnviz.lessons.activations.sampling import NextWord
from attnviz.lessons.activations.translator import translator_activations

__all__ = [
    "MOST_TOKENS",
    "Activation",
    "ActivationRecord",
    "NextWord",
    "Sublayer",
    "encoder_activations",
    "translator_activations",
]
