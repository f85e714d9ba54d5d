"""attnviz shows how attention works, and what it does: every stage of every head, from Python."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnviz.base.language import _

if TYPE_CHECKING:
    from attnviz import biases, effects, figures, masks, normalizers, scores
    from attnviz.analysis import head_maps
    from attnviz.analysis.atlas import Atlas, atlas
    from attnviz.analysis.downsampling import Downsampled, downsample
    from attnviz.attribution import Attribution, attribute
    from attnviz.inputs import Inputs
    from attnviz.layer import Layer
    from attnviz.mechanism import Attention, Mechanism
    from attnviz.models.forward_pass import run
    from attnviz.models.generation import Alternative, Step, writing
    from attnviz.models.interventions import Intervention
    from attnviz.models.texts import PerText, Texts
    from attnviz.notebook import show, to_html
    from attnviz.notebook.link_view import view
    from attnviz.notebook.sums import why
    from attnviz.results import load, save
    from attnviz.trace import Trace
    from attnviz.tracing import capture, capturing

__version__ = "0.1.0"
__all__ = [
    "Alternative", "Atlas", "Attention", "Attribution", "Downsampled", "Inputs", "Intervention", "Layer", "Mechanism",
    "PerText", "Step", "Texts", "Trace", "atlas", "attribute", "biases", "capture", "capturing", "downsample",
    "effects", "figures", "head_maps", "load", "masks", "normalizers", "run", "save", "scores", "show", "to_html",
    "view", "why", "writing",
]  # fmt: skip

_PLACES = {
    "Alternative": "attnviz.models.generation", "Atlas": "attnviz.analysis.atlas", "Attention": "attnviz.mechanism",
    "atlas": "attnviz.analysis.atlas",
    "Attribution": "attnviz.attribution", "attribute": "attnviz.attribution",
    "Downsampled": "attnviz.analysis.downsampling",
    "downsample": "attnviz.analysis.downsampling", "Inputs": "attnviz.inputs",
    "Intervention": "attnviz.models.interventions", "Layer": "attnviz.layer",
    "Mechanism": "attnviz.mechanism", "PerText": "attnviz.models.texts", "Texts": "attnviz.models.texts",
    "capture": "attnviz.tracing", "capturing": "attnviz.tracing",
    "head_maps": "attnviz.analysis.head_maps", "load": "attnviz.results", "save": "attnviz.results",
    "run": "attnviz.models.forward_pass", "show": "attnviz.notebook",
    "to_html": "attnviz.notebook", "Step": "attnviz.models.generation", "Trace": "attnviz.trace",
    "view": "attnviz.notebook.link_view", "why": "attnviz.notebook.sums", "writing": "attnviz.models.generation",
}  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Imports what is named when it is first used: torch takes seconds, and transformers more of them."""
    if name not in __all__:
        raise AttributeError(_("module 'attnviz' has no attribute {name}", name=name))
    module = import_module(_PLACES.get(name, f"attnviz.{name}"))
    value = globals()[name] = getattr(module, name, module)
    return value
