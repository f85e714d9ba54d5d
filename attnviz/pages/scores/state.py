"""What a link to Scores says."""

from attnviz.base.language import N_
from attnviz.normalizers import NORMALIZERS
from attnviz.page.fields import ChoiceField, PartsField
from attnviz.page.head_state import BIASES_FIELD, NORMALIZER_FIELD, HeadState, QueryField, is_free, mask_field
from attnviz.page.parts import title
from attnviz.scores import SCORES, Cosine, ScaledDot

SIMILARITIES, NORMALIZERS_TAB = N_("Similarities"), N_("Normalizers")
START = (ScaledDot(), Cosine())


def similarity_field(label: str, parameter: str, index: int) -> ChoiceField[str | None]:
    """Returns the field of one of the similarities that are compared, if there are several."""
    return ChoiceField(
        label,
        lambda state: state.similarity_names,
        lambda state: dict(enumerate(state.similarity_names)).get(index),
        parameter=parameter,
        when=lambda state: len(state.similarity_names) > 1,
    )


class ScoresState(HeadState):
    """A head under several similarities, or a row under all normalizers."""

    presents_controls = True
    biases = BIASES_FIELD
    mask = mask_field("more")
    pinned = QueryField()
    look = ChoiceField(N_("Tab"), (SIMILARITIES, NORMALIZERS_TAB), when=is_free)
    similarities = PartsField(SIMILARITIES, SCORES, lambda _state: START)
    difference_from = similarity_field(N_("Difference: from"), "from", 0)
    difference_to = similarity_field(N_("to"), "to", 1)
    normalizer = NORMALIZER_FIELD
    normalizers = PartsField(NORMALIZERS_TAB, NORMALIZERS, lambda _state: [kind() for kind in NORMALIZERS])

    @property
    def similarity_names(self) -> list[str]:
        """The names of the similarities."""
        return [title(type(score)) for score in self.similarities]
