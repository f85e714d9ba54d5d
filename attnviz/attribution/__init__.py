"""Any score of attention and any logit as a sum over what wrote to the residual stream, which can be opened."""

from attnviz.attribution.attribution import Attribution, WriterShare, attribute, attribution_of
from attnviz.attribution.circuit import CircuitNode, circuit
from attnviz.attribution.float32_weights import in_float32
from attnviz.attribution.linearized_pass import LinearizedPass, most_tokens
from attnviz.attribution.metrics import Activation, Logit, LogitDifference, Score

__all__ = [
    "Activation",
    "Attribution",
    "CircuitNode",
    "LinearizedPass",
    "Logit",
    "LogitDifference",
    "Score",
    "WriterShare",
    "attribute",
    "attribution_of",
    "circuit",
    "in_float32",
    "most_tokens",
]
