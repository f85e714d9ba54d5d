"""The layers of a model that reads a text with a fact hidden in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnviz.analysis.needle import find_passage
from attnviz.analysis.work import check_heads
from attnviz.base.formatting import grouped
from attnviz.base.language import value_error
from attnviz.layer import Layer
from attnviz.page.selection import Selection
from attnviz.page.viewport import WHOLE
from attnviz.pages.heads.state import MOST_WORDS
from attnviz.sources import Model
from attnviz.sources.haystack import LEAST_WORDS, Haystack

WORDS_A_TOKEN = 0.75
STEP = 20  # words


@dataclass(frozen=True, eq=False)
class HaystackLayers:
    """The layers of a haystack through the model, and where the fact and the question stand among its tokens."""

    source: Model
    layers: Sequence[Layer]
    needle: slice
    question: slice

    def selected(self, selection: Selection) -> Selection:
        """Returns the head of a selection in these layers. Raises ValueError if they do not have its layer."""
        name = selection.layer.name
        index = next((i for i, layer in enumerate(self.layers) if layer.name == name), None)
        if index is None:
            raise value_error("The text does not attend to itself in {name}. Open a head of the table.", name=name)
        return replace(selection, source=self.source, layers=self.layers, index=index, viewport=WHOLE)


def most_words(source: Model) -> int:
    """Returns the number of words that a haystack for a model may have. Raises ValueError if it reads too few."""
    model = source.model()
    if not model.reads_text_alone:
        raise value_error("A needle is hidden in a text, and this model sees images. Choose a model that reads text.")
    most = min(MOST_WORDS, int(model.limit * WORDS_A_TOKEN)) // STEP * STEP
    if most <= LEAST_WORDS:
        raise value_error(
            "{name} reads at most {limit} tokens, too few for a text with a fact hidden in it. Choose another model.",
            name=model.name,
            limit=grouped(model.limit),
        )
    return most


def find_needle(source: Model, haystack: Haystack) -> HaystackLayers:
    """Returns the layers in which all tokens of the haystack attend to each other. Raises ValueError if there are none.

    The decoder of an encoder–decoder model gets the question, so that it does not write an answer.
    """
    pair = haystack.question if source.model().is_encoder_decoder else ""
    source = replace(source, text=haystack.text, pair=pair)
    layers = source.layers()
    tokens = layers[0].inputs.key_tokens
    own = [layer for layer in layers if layer.inputs.query_tokens == layer.inputs.key_tokens == tokens]
    check_heads(own)
    return HaystackLayers(source, own, find_passage(tokens, haystack.fact), find_passage(tokens, haystack.question))
