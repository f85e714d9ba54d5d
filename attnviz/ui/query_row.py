"""The pinned query of a long map: its weights at all keys as a curve."""

import torch
from jaxtyping import Float

from attnviz.analysis.peaks import peak_positions
from attnviz.figures.query_curve import query_curve
from attnviz.ui import viewport
from attnviz.ui.chart import chart
from attnviz.ui.head_map import HeadMap
from attnviz.ui.selection import Selection
from attnviz.ui.viewport import numbered_token

CURVE = "query-curve"
HEIGHT = 190


def show(selection: Selection, head_map: HeadMap, row: int, weights: Float[torch.Tensor, " keys"]) -> None:
    """Draws the exact weights of one of the shown queries at all shown keys; a click moves the viewport there."""
    inputs, query = head_map.inputs, selection.queries[row]
    if not len(weights):
        return
    peaks = peak_positions(weights)
    positions = [selection.keys[i] for i in peaks.tolist()]
    name = numbered_token(inputs, inputs.query_tokens, query)
    first, end = head_map.viewport.keys

    def click(point: int, _: int) -> None:
        viewport.move(viewport.around(query, inputs.queries), viewport.around(positions[point], inputs.keys))

    chart(
        query_curve(
            weights[peaks],
            torch.tensor(positions),
            name,
            [numbered_token(inputs, inputs.key_tokens, key) for key in positions],
            shaded=None if end is None else (first, end),
            allowed=head_map.sentences.allowed,
        ),
        CURVE,
        label="Weights of the pinned query",
        name=f"attention of query {query} {head_map.title}",
        description=f"{head_map.title}: the weights of query {query} at {len(weights)} keys, the largest of each bin.",
        height=HEIGHT,
        grows=False,
        hint="All keys of the pinned query. Click one to go there.",
        on_click=click,
    )
