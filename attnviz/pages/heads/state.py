"""What a link to Heads says."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attnviz.analysis.head_detectors import MEASURES, Detector
from attnviz.analysis.head_metrics import Excluded, Next
from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_
from attnviz.effects.ablation import Head
from attnviz.layer import Kind, Layer, LayerId, head_option
from attnviz.page.fields import ChoiceField, NumberField
from attnviz.page.source_field import source_layers
from attnviz.page.text_question import TextQuestion, chosen_head_field
from attnviz.sources.haystack import LEAST_WORDS, Haystack

THIS_TEXT, REPEATED, HIDDEN_FACT = N_("This text"), N_("Repeated tokens"), N_("Hidden fact")
LEFT_OUT: dict[str, Excluded] = {N_("Nothing"): "none", N_("The first token"): "first", N_("Special tokens"): "special"}
NOTHING = N_("nothing")
MOST_WORDS = 700  # so that the map has about a thousand tokens at most, and is drawn whole
START = Haystack()


def head_measures(state: Any) -> Mapping[str, Detector]:
    """Returns what is measured of heads, by name: on a text what its weights say, without the share on the next token
    where no layer has one to attend to."""
    sees_ahead = any(layer.kind is Kind.SELF for layer in state.layers)
    of_weights = state.inspect != REPEATED
    return {
        one.name: one
        for one in MEASURES
        if not (of_weights and one.metric is None) and (sees_ahead or not isinstance(one.metric, Next))
    }


def is_measured(state: Any) -> bool:
    return bool(state.inspect != HIDDEN_FACT)


def hides_fact(state: Any) -> bool:
    return bool(state.inspect == HIDDEN_FACT)


ABOUT_DEPTH = N_("At 0% it is at the beginning of the text, at 100% before the question.")


class HeadsState(TextQuestion):
    """What is measured of the heads of a model, on which text, and a head."""

    inspect = ChoiceField(N_("Tab"), (THIS_TEXT, REPEATED, HIDDEN_FACT))
    measure = ChoiceField(N_("What heads do"), head_measures, parameter="kind", when=is_measured)
    against = ChoiceField[Detector | None](
        N_("Compared with"), lambda state: {NOTHING: None, **head_measures(state)}, when=is_measured
    )
    leave_out = ChoiceField(
        N_("Leave out"),
        LEFT_OUT,
        when=lambda state: state.inspect == THIS_TEXT,
        place="more",
        about=N_("Tokens that are left out do not count as queries, and weights on them as keys do not count either."),
    )
    words = NumberField(N_("Words in the text"), START.words, LEAST_WORDS, MOST_WORDS, when=hides_fact)
    depth = NumberField(N_("Depth of the fact"), START.depth, 0, 100, when=hides_fact, about=ABOUT_DEPTH)
    head = chosen_head_field(lambda state: state.heads)

    tabs = (inspect,)

    @property
    def reads_text(self) -> bool:
        return self.inspect != HIDDEN_FACT  # which has a text of its own

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the model on the text. Raises ValueError if it reads no text."""
        self.check_modality()
        return tuple(source_layers(self.source))

    @property
    def ids(self) -> tuple[LayerId, ...]:
        """The ids of the layers."""
        return tuple(layer.id for layer in self.layers)

    def grid(
        self,
        layers: Int[np.ndarray, " numbers"],
        heads: Int[np.ndarray, " numbers"],
        values: Float[np.ndarray, " numbers"],
    ) -> Float[np.ndarray, "layers heads"]:
        """Returns numbers of heads by their places; NaN where there is none."""
        grid = np.full((len(self.layers), max(layer.inputs.heads for layer in self.layers)), np.nan)
        grid[layers, heads] = values
        return grid

    @property
    def heads(self) -> Mapping[str, Head]:
        """The heads by their names in menus and links."""
        return {
            head_option(layer.id, head): (index, head)
            for index, layer in enumerate(self.layers)
            for head in range(layer.inputs.heads)
        }
