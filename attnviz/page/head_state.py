"""The fields of pages that show a head of a source."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from attnviz.analysis.head_maps import Special
from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_, option_name
from attnviz.base.link import Link
from attnviz.biases import BIASES
from attnviz.inputs import MapAxes
from attnviz.layer import Layer
from attnviz.masks import Mask
from attnviz.mechanism import Mechanism
from attnviz.normalizers import NORMALIZERS
from attnviz.page.color_range import ColorRange
from attnviz.page.fields import ChoiceField, PartField, PartsField, WidgetPlace
from attnviz.page.parts import MASK_MENU, by_title
from attnviz.page.selection import Selection
from attnviz.page.source_field import HeadField, LayerField, SourceField, layer, source_layers
from attnviz.page.state import State
from attnviz.scores import SCORES, Score

NO_QUERY = N_("none")
SPECIAL = {N_("Shown"): Special.SHOWN, N_("Hidden"): Special.HIDDEN, N_("Hidden, rows rescaled"): Special.RESCALED}
MOST_NAMES = 1000  # of queries in a menu; all of its names are sent to the browser
ABOUT_BIASES = N_("What is done to the scores before the mask.")


def is_free(state: Any) -> bool:
    """Returns whether the mechanism of the selected layer can be changed."""
    return not layer(state).locked


def own_mechanism(state: Any) -> Mechanism:
    """Returns the mechanism that the fields open with; they are not offered where there are only weights."""
    own = layer(state).mechanism
    return own if isinstance(own, Mechanism) else Mechanism()


def mask_field(place: WidgetPlace = "top") -> PartField[Mask]:
    """Returns the field of the mask, which opens with that of the layer."""
    return PartField[Mask](N_("Mask"), MASK_MENU, lambda state: own_mechanism(state).mask, when=is_free, place=place)


SCORE_FIELD = PartField[Score](
    N_("Score"), by_title(SCORES), lambda state: own_mechanism(state).score, when=is_free, place="more"
)
BIASES_FIELD = PartsField(
    N_("Biases"), BIASES, lambda state: own_mechanism(state).biases, when=is_free, about=ABOUT_BIASES, place="more"
)
NORMALIZER_FIELD = PartField(
    N_("Normalizer"), by_title(NORMALIZERS), lambda state: own_mechanism(state).normalizer, when=is_free, place="more"
)
SPECIAL_TOKENS_FIELD = ChoiceField(
    N_("Special tokens"),
    SPECIAL,
    when=lambda state: bool(state.inputs.special_keys),
    place="more",
    about=N_(
        "Tokens that the tokenizer adds, such as [CLS] and [SEP]. Many heads give them much of "
        "their attention; hide them to see the others."
    ),
)
COLORS_FIELD = ChoiceField(
    N_("Colors"), tuple(ColorRange), place="more", about=N_("Which weight has the last color of the scale.")
)


class QueryField(ChoiceField[int | None]):
    """The row of the pinned query among those that are shown; None if there is none."""

    def __init__(self, place: WidgetPlace = "top") -> None:
        super().__init__(
            N_("Pinned query"), query_options, lambda state: state.first_row, option_name=query_name, place=place
        )

    def options(self, state: Any) -> Mapping[str, int | None]:
        """Returns the queries by their names; where one is pinned, of many those around it, and the first."""
        options = super().options(state)
        if len(options) <= MOST_NAMES or self.name not in state.values:
            return options
        pinned, first = state.values[self.name] or 0, state.first_row
        near = range(pinned - MOST_NAMES // 2, pinned + MOST_NAMES // 2)
        return {name: row for name, row in options.items() if row is None or row in near or row == first}

    def takes(self, state: Any, written: Link) -> bool:
        return all(name in query_options(state) for _parameter, name in written)  # other layers may have other tokens

    def context(self, state: Any) -> Hashable:
        return tuple(state.query_names)


def query_options(state: Any) -> Mapping[str, int | None]:
    """Returns the rows by the names of their queries."""
    return {NO_QUERY: None} | {name: row for row, name in enumerate(state.query_names)}


def query_name(option: str, code: str | None = None) -> str:
    """Returns the name of a query in a menu; tokens are not messages."""
    return option_name(option, code) if option == NO_QUERY else option


class HeadState(State):
    """A head of one layer of a source."""

    source = SourceField()
    layer = LayerField()
    head = HeadField()
    presents_controls: ClassVar[bool] = False  # whether the widgets above the figure stay in presentations
    folds_controls: ClassVar[bool] = False  # whether they are in one menu, which is named by the head

    @cached_property
    def layers(self) -> Sequence[Layer]:
        """The layers of the source. Raises ValueError if there are none."""
        return source_layers(self.source)

    @property
    def inputs(self) -> MapAxes:
        """The inputs of the layer, or its weights."""
        return layer(self).inputs

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the layer, with the parts that have been resolved."""
        parts = {name: self.values[name] for name in ("score", "biases", "mask", "normalizer") if name in self.values}
        return replace(own_mechanism(self), **parts)

    @property
    def selection(self) -> Selection:
        """The head and its mechanism; where a part is changed, other layers have it too."""
        return Selection(
            source=self.source,
            layers=[each.updated(own_mechanism(self), self.mechanism) for each in self.layers],
            index=self.layer,
            head=self.head,
            special=self.values.get("special_tokens", Special.SHOWN),
        )

    def row_link(self, row: int) -> Link:
        """Returns the link of the state in which a row is pinned; none if it is already."""
        return self.link_with(pinned=None if row == self.values["pinned"] else row)

    def cell_link(self, row: int, _column: int) -> Link:
        """Returns what a click on a cell of a map opens: that of its row."""
        return self.row_link(row)

    @property
    def query_names(self) -> Sequence[str]:
        """The queries of the selection as menus name them."""
        return self.selection.query_names

    @property
    def first_row(self) -> int | None:
        """The row of the selection that is pinned at first."""
        return self.selection.first_row
