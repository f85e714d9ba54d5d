"""attnviz shows how attention works, and what it does: every stage of every head, from Python."""

from attnviz import biases, masks, measures, normalizers, scores
from attnviz.inputs import Inputs, Layer
from attnviz.mechanism import Attention, Mechanism

__all__ = ["Attention", "Inputs", "Layer", "Mechanism", "biases", "masks", "measures", "normalizers", "scores"]
