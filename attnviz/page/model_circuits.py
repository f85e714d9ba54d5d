"""The circuits of all heads of a model, which are computed once."""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from attnviz.attribution.text_attribution import TextAttribution
from attnviz.base.formatting import grouped
from attnviz.base.language import value_error
from attnviz.effects.head_circuits import HeadCircuits, TokenVectors
from attnviz.effects.linear_maps import linear_maps
from attnviz.page.result_cache import ResultCache

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

MOST_BYTES = 2 << 30  # of a model in float32, whose maps take about as much memory at most
WHOLE_VOCABULARY = 20  # forward passes of a text take about as long as one of the first layer over the vocabulary
# They take much memory, and end with the model.
_circuits: "WeakKeyDictionary[LoadedModel, ResultCache]" = WeakKeyDictionary()


def circuits_of_model(model: "LoadedModel", run: TextAttribution, tokens: TokenVectors, work: int = 0) -> HeadCircuits:
    """Returns the circuits of a model, which are computed once; `work` is the number of steps of a forward pass. Raises
    ValueError if it has none, or if it is too large."""
    if 4 * model.parameter_count > MOST_BYTES:
        raise value_error(
            "The circuits of a model with {count} parameters take too much memory here. In a notebook, "
            "attnviz.effects.head_circuits computes them.",
            count=grouped(model.parameter_count),
        )
    results = _circuits.setdefault(model, ResultCache())
    maps = results.once(lambda: linear_maps(run.linearized.model), "maps", work=work)
    if tokens == "embedding":
        return HeadCircuits(maps, maps.embedding)
    return results.once(
        lambda: HeadCircuits(maps, maps.after_first_layer()), "after the first layer", work=WHOLE_VOCABULARY * work
    )
