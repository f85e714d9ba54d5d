"""attnviz shows how attention works, and what it does: every stage of every head, from Python."""

from typing import TYPE_CHECKING, Any

from attnviz import biases, figures, masks, measures, normalizers, scores
from attnviz.inputs import Inputs, Layer
from attnviz.mechanism import Attention, Mechanism

if TYPE_CHECKING:
    from attnviz.sources.capture import capture

__all__ = [
    "Attention", "Inputs", "Layer", "Mechanism",
    "biases", "capture", "figures", "masks", "measures", "normalizers", "scores",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`attnviz.capture`, with transformers imported by then and not before: it takes seconds."""
    if name != "capture":
        raise AttributeError(f"module 'attnviz' has no attribute {name!r}")
    from attnviz.sources.capture import capture

    return capture
