"""A source that runs a model on a text, two texts or a picture."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from attnviz.base.extras import check_installed
from attnviz.base.settings import MB, upload_bytes
from attnviz.base.text import EXAMPLE
from attnviz.base.turns import HEAVY_WORK, SHORT_WORK, turn
from attnviz.models import DINOV2, MINILM, TRANSLATOR
from attnviz.models.drawings import SUNSET, Drawing, drawing_file
from attnviz.models.image_inputs import FORMATS
from attnviz.sources.source import Opening, Source
from attnviz.sources.upload import File
from attnviz.trace import Trace

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel, ModelInputs

TRANSLATED = "The small red car is beautiful."  # by the translator
PICTURES, PICTURE_MB = [kind.lower() for kind in FORMATS], 16  # of an upload: the endings, and the size
PICTURE_CHARACTERS = 1_000  # of a text that takes about as long as a picture
LEAST_CHARACTERS = 100  # of a text that takes about as long as any shorter one: all weights are read for each


def example_text(name: str, usual: str = EXAMPLE, translated: str = TRANSLATED) -> str:
    """Returns the example for a model: the usual one or, of the few words that it knows, that for the translator."""
    return translated if name == TRANSLATOR else usual


def picture_bytes() -> int:
    """Returns the size of the largest picture that may be uploaded."""
    return min(PICTURE_MB * MB, upload_bytes())


def load_model(name: str, progress: Callable[[int, int], object] | None = None) -> "LoadedModel":
    """Returns a model from memory, or loads it in turn; `progress` is called as that of `model_cache.model`. Raises
    ValueError if it cannot be loaded."""
    check_installed("models", "A trained model")
    from attnviz.models import model_cache  # with transformers, which other sources do without

    return model_cache.model(name, model_cache.HUB, progress or model_cache.no_progress)


class ModelSource(Source):
    """A dataclass of settings whose layers are those of the model `name`, which may see an `image`, or without one a
    `drawing`."""

    name: str
    image: File | None
    drawing: Drawing
    keeps_layers: ClassVar[bool] = True

    def __repr__(self) -> str:
        """The text of the source, another one when the files of the model are others."""
        values = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(values)}, version={self.version!r})"

    @property
    def version(self) -> str:
        """A text that says which files the model has now; empty for the default model, whose weights are known."""
        if self.name == MINILM:
            return ""
        from attnviz.models import model_cache

        return model_cache.version(self.name, model_cache.HUB)

    @property
    def subject(self) -> tuple[str, ...]:
        return *super().subject, self.name

    @property
    def weights_note(self) -> str:
        if self.name in (MINILM, TRANSLATOR):
            return ""
        return self.model().title if self.model().precision else ""

    def model(self) -> "LoadedModel":
        """Returns the model. Raises ValueError if it cannot be loaded."""
        return load_model(self.name)

    @property
    def picture(self) -> bytes | None:
        """The content of the picture; None is what a vision model is given of itself, the first drawing."""
        model = self.model()
        inputs = model.image_inputs
        if self.image is not None or inputs is None or (self.drawing == SUNSET and not model.puts_images_into_texts):
            return self.image.data if self.image else None
        return drawing_file(*inputs.example_size, self.drawing)


@dataclass(frozen=True, repr=False)
class Model(ModelSource):
    """A sentence through a real trained model: all-MiniLM-L6-v2, an encoder of 6 layers with 12 heads each.

    Its own queries and keys are captured while it reads the text, so its score, mask and normalizer can be changed.

    Example:
        >>> Model("The cat sat.").layers()[0].inputs.query.shape
        torch.Size([12, 6, 32])

    `name` is the id of another model on the hub, or the path of a folder or of a GGUF file; it may read `pair` after
    or beside the text, or see an `image`, or without one a `drawing`, in place of the text or beside it.
    """

    text: str = field(default=EXAMPLE, metadata={"label": "Text"})
    name: str = field(default=MINILM, metadata={"label": "Model", "model": True})
    pair: str = field(default="", metadata={"label": "Second text"})
    image: File | None = field(
        default=None, metadata={"label": "Image", "max_bytes": picture_bytes, "endings": PICTURES}
    )
    drawing: Drawing = field(default=SUNSET, metadata={"label": "Drawing"})
    text_alone: bool = False  # where a model that reads texts and images reads the text

    @property
    def own_example(self) -> "Model":
        return Model(TRANSLATED, TRANSLATOR) if self.name == TRANSLATOR else Model()

    @property
    def opening(self) -> Opening:
        """The head of the default model in which “it” attends to “animal”, in the example; of the translator, that in
        which French words attend to the English words that they translate; of DINOv2 one in which [CLS] attends to
        objects."""
        if self.name == DINOV2:
            return Opening(layer=11, head=2, query=0)
        if self.name not in (MINILM, TRANSLATOR):
            return Opening()
        return Opening(layer=3, head=1, query=10 if (self.text, self.pair) == (EXAMPLE, "") else None)

    @property
    def modality(self) -> str:
        """The kinds of input of the model: "text", "picture" or both. Raises ValueError if it cannot be loaded."""
        return self.model().modality

    @property
    def example(self) -> tuple[str, str, bytes | None]:
        """The input of the model: the text, the second text and the content of the picture."""
        return *self.texts, self.picture if self.has_picture else None

    @property
    def texts(self) -> tuple[str, str]:
        """The text and the second text, empty for a model that reads none."""
        return (self.text, self.pair) if "text" in self.modality else ("", "")

    @property
    def has_picture(self) -> bool:
        """Whether a picture is part of the input."""
        return self.modality == "picture" or ("picture" in self.modality and not self.text_alone)

    @property
    def work(self) -> int:
        return 0 if self.model().has_captured(*self.example) else self.forward_work

    @property
    def forward_work(self) -> int:
        """The approximate number of steps of a forward pass; always heavy for a model whose tokenizer may be slow."""
        from attnviz.models import model_cache

        text, pair = self.texts
        characters = max(LEAST_CHARACTERS, len(text) + len(pair) + (PICTURE_CHARACTERS if self.has_picture else 0))
        work = self.model().parameter_count * characters // 1_000
        return work if self.name in model_cache.BUILT_IN_MODELS else max(work, SHORT_WORK)

    def layers(self) -> Trace:
        """Returns the attention of every layer. Raises ValueError if the model cannot be loaded or read the example."""
        work, reader = self.work, self._reader()
        # Who waits for another process lets others draw their pages meanwhile.
        with turn(max(work, HEAVY_WORK + 1) if work and reader else work):
            return self.model().layers(*self.example, reader=reader)

    def _reader(self) -> "Callable[..., tuple[ModelInputs, Trace] | None] | None":
        """Returns what reads texts in place of this process, if that is wanted."""
        from attnviz.models import model_cache
        from attnviz.models.capture_process import capture_process

        # Other models may be too large to be in memory twice.
        process = capture_process() if self.name in model_cache.BUILT_IN_MODELS else None
        return partial(process.read, self.name) if process else None
