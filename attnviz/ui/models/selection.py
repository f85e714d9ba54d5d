"""The selection of the tabs of Models: an example through a model, and one layer and head of it."""

from dataclasses import dataclass

from attnviz.models.model import Model
from attnviz.ui.models.model_source import ModelSource
from attnviz.ui.selection import Selection


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelSelection(Selection):
    """A selection whose source is an example through a model."""

    source: ModelSource
    model: Model
