"""What a link to Heads says."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from attnviz.analysis.atlas_examples import RANDOM, WEIGHT, WRITTEN
from attnviz.analysis.head_detectors import MEASURES, Detector
from attnviz.analysis.head_metrics import Excluded, Next
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import grouped
from attnviz.base.language import N_, value_error
from attnviz.effects.ablation import Head
from attnviz.layer import Kind, Layer, LayerId, head_option
from attnviz.models import TRANSLATOR
from attnviz.models.texts import texts_of
from attnviz.page.fields import ChoiceField, NumberField
from attnviz.page.session_fields import FileField, LongTextField
from attnviz.page.source_field import source_layers
from attnviz.page.text_question import TextQuestion, chosen_head_field
from attnviz.sources.haystack import LEAST_WORDS, Haystack

THIS_TEXT, REPEATED, MANY_TEXTS, HIDDEN_FACT = (
    N_("This text"), N_("Repeated tokens"), N_("Many texts"), N_("Hidden fact")
)  # fmt: skip
LEFT_OUT: dict[str, Excluded] = {N_("Nothing"): "none", N_("The first token"): "first", N_("Special tokens"): "special"}
NOTHING = N_("nothing")
MOST_WORDS = 700  # so that the map has about a thousand tokens at most, and is drawn whole
MOST_TEXTS, MOST_CHARACTERS = 200, 2_000  # of one's own list, and of each text
START = Haystack()
EXAMPLES = {
    N_("with the largest weight"): WEIGHT,
    N_("with most that is written"): WRITTEN,
    N_("drawn at random by weight"): RANDOM,
}


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


TRANSLATED_TEXTS = (
    "The small red car is beautiful.",
    "The cat sees a big dog.",
    "A woman reads the old book.",
    "The children are happy.",
    "The big house is white.",
)


def reads_many(state: Any) -> bool:
    return bool(state.inspect == MANY_TEXTS)


ABOUT_DEPTH = N_("At 0% it is at the beginning of the text, at 100% before the question.")


class HeadsState(TextQuestion):
    """What is measured of the heads of a model, on which text, and a head."""

    inspect = ChoiceField(N_("Tab"), (THIS_TEXT, REPEATED, MANY_TEXTS, HIDDEN_FACT))
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
    at_least = NumberField(
        N_("Texts with at least"),
        None,
        0.0,
        1_000.0,
        2,
        empty=N_("the mean of all"),
        step=0.05,
        when=reads_many,
        about=N_("The number of a head is then the share of the texts in which it has at least this much."),
    )
    own_texts = LongTextField(
        N_("Texts of your own, one on each line"),
        lambda state: "\n".join(TRANSLATED_TEXTS) if state.model == TRANSLATOR else "",
        parameter="own-texts",
        when=reads_many,
    )
    file = FileField(N_("Or a file of them"), (".txt", ".jsonl"), 1, when=reads_many)
    examples = ChoiceField(N_("Examples"), EXAMPLES, when=reads_many)
    mlp = ChoiceField(
        N_("MLP in layer"), lambda state: {str(id): id for id in state.ids if not id.cross}, when=reads_many
    )
    words = NumberField(N_("Words in the text"), START.words, LEAST_WORDS, MOST_WORDS, when=hides_fact)
    depth = NumberField(N_("Depth of the fact"), START.depth, 0, 100, when=hides_fact, about=ABOUT_DEPTH)
    head = chosen_head_field(lambda state: state.heads)

    tabs = (inspect,)

    @property
    def reads_text(self) -> bool:
        return self.inspect not in (MANY_TEXTS, HIDDEN_FACT)  # which have texts of their own

    @property
    def lines(self) -> tuple[str, ...]:
        """One's own texts; none where those are read that come with attnviz. Raises ValueError if there are too many,
        if one is too long, or if the file cannot be read."""
        pasted = [line.strip() for line in self.own_texts.splitlines() if line.strip()]
        uploaded = [] if self.file is None else texts_of(self.file.name, self.file.data)
        lines = (*pasted, *uploaded)
        if len(lines) > MOST_TEXTS:
            raise value_error(
                "At most {most} texts are read here; these are {count}. Give fewer, or use the command “attnviz "
                "atlas”.",
                most=MOST_TEXTS,
                count=grouped(len(lines)),
            )
        for number, line in enumerate(lines, 1):
            if len(line) > MOST_CHARACTERS:
                raise value_error(
                    "Text {number} has {count} characters; at most {most} are read. Give shorter texts.",
                    number=number,
                    count=grouped(len(line)),
                    most=grouped(MOST_CHARACTERS),
                )
        return lines

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
