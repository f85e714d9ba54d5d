"""What Lookup shows."""

from dataclasses import dataclass

import numpy as np

from attnviz.figures.plane import Colored
from attnviz.language import _, option_name
from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.lookup.dictionary import Dictionary, LookupResult, Point, look_up, lookup_mechanism
from attnviz.mechanism import Mechanism
from attnviz.scores import Score
from attnviz.state.lookup import LookupState, chosen_score
from attnviz.views.page_view import PageView, Panel


@dataclass(frozen=True)
class LookupSelection:
    """A dictionary, a query, and how it is looked up."""

    dictionary: Dictionary
    query: Point
    softness: str  # a name of SOFTNESS
    score: Score
    colored_by: Colored
    gradients: bool = False  # whether the network shows them

    @property
    def mechanism(self) -> Mechanism:
        return lookup_mechanism(self.softness, self.score)

    @property
    def result(self) -> LookupResult:
        return look_up(self.dictionary, self.query, self.mechanism)

    def quantities(self) -> Quantities:
        result = self.result
        row = row_quantities(self.dictionary.words, np.array(result.weights), result.similarities)
        return row | ({} if result.result is None else {"result": result.result})


def lookup(state: LookupState) -> PageView:
    """Returns the weights of the query over the keys of the dictionary."""
    query = state.query_x, state.query_y
    selection = LookupSelection(state.table, query, state.softness, chosen_score(state), state.color, state.gradients)
    title = _(
        "The query ({x}, {y}), {softness}", x=f"{query[0]:g}", y=f"{query[1]:g}", softness=option_name(state.softness)
    )
    panel = Panel(title, np.array([selection.result.weights]), ("query",), state.table.words, 0)
    return PageView((panel,), selection.quantities())
