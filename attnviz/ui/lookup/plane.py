"""The plane of all queries, with the keys and the one that is asked, which can be dragged."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from attnviz.figures.plane import Colored, ground, plane
from attnviz.formatting import significant
from attnviz.lessons.lookup import NOTCHES, Answer, Dictionary, Point, field, gradient
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Softmax
from attnviz.scores import General
from attnviz.ui import cache
from attnviz.ui.chart import chart
from attnviz.ui.lookup import query_picker

HEIGHT = 520
COLORINGS: dict[str, Colored] = {"winning key": "key", "value that comes back": "value"}


def coloring() -> str:
    return str(
        st.selectbox(
            "Color the plane by", list(COLORINGS), key="color", bind="query-params",
            help="What every other query would get: which key has most of its weight, or which value comes back.",
        )
    )  # fmt: skip


def show(dictionary: Dictionary, query: Point, by: Mechanism, answer: Answer, notch: str, colored_by: str) -> None:
    """Draws the plane; dropping the query's arrow puts the query there."""
    how = COLORINGS[colored_by]
    behind = cache.once(lambda: _ground(dictionary, by, how), "plane", dictionary, by, how)
    keys, mapped = dictionary.keys, None
    if isinstance(by.score, General):
        mapped = (keys @ by.score.matrix(2, 2).to(keys).mT).numpy()
    slope = gradient(dictionary, query, by) if isinstance(NOTCHES[notch], Softmax) else None
    picture = plane(
        behind,
        keys.numpy(),
        dictionary.words,
        dictionary.values.numpy(),
        np.array(answer.weights),
        query,
        mapped=mapped,
        slope=slope or (0.0, 0.0),
    )
    chart(
        picture,
        "plane",
        label="Keys and query in the plane. Arrow keys move the query.",
        name="lookup",
        description=f"The query is at ({significant(query[0])}, {significant(query[1])}). "
        + " ".join(
            f"{entry.word} is at ({significant(entry.x)}, {significant(entry.y)})." for entry in dictionary.entries
        ),
        height=HEIGHT,
        hint="Drag the query, or move it with the arrow keys.",
        on_drag=query_picker.move,
    )


def _ground(dictionary: Dictionary, by: Mechanism, colored_by: Colored) -> go.Figure:
    every = field(dictionary, by)
    stages = (every.axis, every.scores, every.weights, every.result, dictionary.values)
    return ground(*(stage.numpy() for stage in stages), colored_by=colored_by)
