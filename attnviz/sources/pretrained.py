"""Text through a real pretrained model."""

from dataclasses import dataclass, field

from attnviz.extras import check_installed
from attnviz.sources.source import Opening, Source
from attnviz.text import EXAMPLE
from attnviz.trace import Trace

STEPS = 20_000  # for each character of a text


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

    @property
    def work(self) -> int:
        return STEPS * len(self.text)

    def layers(self) -> Trace:
        check_installed("models", "A trained model")
        from attnviz.models.minilm import minilm  # with transformers, which other sources do without

        return minilm().layers(self.text)
