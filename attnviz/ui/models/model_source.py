"""A source that runs a model on a text, two texts or a picture."""

from dataclasses import dataclass, field, replace
from itertools import count
from typing import ClassVar
from weakref import WeakKeyDictionary

from attnviz.analysis.head_maps import Special, shown_positions
from attnviz.analysis.work import HEAVY_WORK
from attnviz.language import N_
from attnviz.models import model_cache
from attnviz.models.hub import is_minilm
from attnviz.models.model import Model
from attnviz.sources.source import Opening, Source
from attnviz.sources.upload import File
from attnviz.text import EXAMPLE
from attnviz.trace import Trace
from attnviz.ui.scheduling import computation

LOADING_WORK = 100_000_000  # steps, as long as loading takes
PICTURE_CHARACTERS = 1_000  # a picture takes about as long as a text of so many
_editions: WeakKeyDictionary[Model, int] = WeakKeyDictionary()
_count = count()


def load_model(name: str) -> Model:
    """Returns a model from the cache, or loads it as heavy work. Raises ValueError if it cannot be loaded."""
    return model_cache.model(name, model_cache.HUB, lambda: computation(LOADING_WORK))


@dataclass(frozen=True)
class ModelSource(Source):
    """A text, a pair of texts or a picture, and a model: an id of the hub, or a local folder."""

    name: str = ""  # of the model, as `model_cache.model` takes it
    text: str = field(default=EXAMPLE, metadata={"label": N_("Text")})
    pair: str = field(default="", metadata={"label": N_("Second text")})
    image: File | None = None
    # Tells the model of a folder from one that was saved there later: `repr` is the key of what is kept.
    edition: int = field(default=0, compare=False)
    last: int | None = field(default=None, compare=False, repr=False)  # the position of its last token

    @property
    def subject(self) -> tuple[str, ...]:
        return "Model", self.name

    @property
    def opening(self) -> Opening:
        if not is_minilm(self.name):
            return Opening(0, 0, self.last)
        return Opening(layer=3, head=1, query=10 if self == ModelSource() else self.last)

    def model(self) -> Model:
        """Returns the model, from the cache."""
        return load_model(self.name)

    @property
    def work(self) -> int:
        return 0 if self.model().has_captured(*self._example) else self.forward_work

    @property
    def forward_work(self) -> int:
        """The approximate number of steps of a forward pass; always heavy for a model whose tokenizer may be slow."""
        characters = len(self.text) + len(self.pair) + (PICTURE_CHARACTERS if self.image else 0)
        work = self.model().model.num_parameters() * characters // 1_000
        return work if is_minilm(self.name) else max(work, HEAVY_WORK + 1)

    @property
    def _example(self) -> tuple[str, str, bytes | None]:
        return self.text, self.pair, self.image.data if self.image else None

    def layers(self) -> Trace:
        with computation(self.work):
            return self.model().layers(*self._example)

    def run(self) -> "ModelSource":
        """Returns the same source after running the model. Raises ValueError if the model cannot read the input."""
        inputs = self.layers()[0].inputs
        positions = shown_positions(inputs.queries, inputs.special_queries, Special.HIDDEN)
        edition = _editions.setdefault(self.model(), next(_count))
        return replace(self, edition=edition, last=positions[-1] if positions else None)


class UploadedPictureSource(ModelSource):
    """A source with an uploaded picture, which stays in the session and is in no link."""

    private: ClassVar[bool] = True
