"""attnviz shows how attention works, and what it does: every stage of every head, from Python."""

from typing import TYPE_CHECKING, Any

from attnviz import biases, figures, masks, normalizers, scores
from attnviz.analysis import head_maps
from attnviz.inputs import Inputs
from attnviz.layer import Layer
from attnviz.mechanism import Attention, Mechanism

if TYPE_CHECKING:
    from attnviz.tracing import capture

__all__ = [
    "Attention", "Inputs", "Layer", "Mechanism",
    "biases", "capture", "figures", "head_maps", "masks", "normalizers", "scores",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Imports `attnviz.capture` when it is first used, because transformers takes seconds to import."""
    if name != "capture":
        raise AttributeError(f"module 'attnviz' has no attribute {name!r}")
    from attnviz.tracing import capture

    globals()[name] = capture
    return capture
