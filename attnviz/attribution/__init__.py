"""Any score of attention and any logit as a sum over what wrote to the residual stream, which can be opened."""

from attnviz.attribution.attribution import Attribution, WriterShare, attribute
from attnviz.attribution.circuit import CircuitNode, circuit
from attnviz.attribution.metrics import Activation, Logit, LogitDifference, Score

__all__ = [
    "Activation",
    "Attribution",
    "CircuitNode",
    "Logit",
    "LogitDifference",
    "Score",
    "WriterShare",
    "attribute",
    "circuit",
]
