"""What Lookup shows."""

import numpy as np

from attnviz.language import _, option_name
from attnviz.lessons.checks import row_quantities
from attnviz.page.page_view import PageView, Panel
from attnviz.state.lookup import LookupState


def lookup(state: LookupState) -> PageView:
    """Returns the weights of the query over the keys of the dictionary."""
    words, result = state.table.words, state.result
    title = _(
        "The query ({x}, {y}), {softness}",
        x=f"{state.query_x:g}",
        y=f"{state.query_y:g}",
        softness=option_name(state.softness),
    )
    weights = np.array(result.weights)
    quantities = row_quantities(words, weights, result.similarities)
    if result.result is not None:
        quantities["result"] = result.result
    return PageView((Panel(title, weights[None], ("query",), words, 0),), quantities)
