"""The opened terms of a sum as a drawing: words across, layers up, what was carried as arcs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from attnviz.figures.bars import AFTER, NEGATIVE
from attnviz.figures.chart_spec import About, Chart, PointsSpec
from attnviz.figures.sentences import label
from attnviz.figures.themes import ACCENT, light_figure
from attnviz.language import _

WIDEST = 14  # pixels of the arc of the largest share
LETTERS = 13
MOST_TICKS = 16  # of layers
ROOM = 0.7  # of a column, in which nodes of a word stand side by side


@dataclass(frozen=True)
class DrawnNode:
    """A term: the column of the word at which it writes, its layer (−1 for embeddings), its name and its sentence.

    `source` is the column of the word that a head read, and `parent` the node that carried what this one wrote; None of
    those that wrote to the number itself.
    """

    name: str
    sentence: str
    share: float
    column: int
    layer: int
    source: int | None = None
    parent: int | None = None
    of_score: bool = False  # whether it is about where a head looks, not about what it found there


def circuit_drawing(
    nodes: Sequence[DrawnNode], words: Sequence[str], layers: int, column: int, title: str
) -> Chart[PointsSpec]:
    """Draws terms with arcs as wide as their shares, blue where they are positive; the number that they add up to, with
    its title, is above the word in `column`.

    Example:
        >>> node = DrawnNode("0.1", "head 0.1 at b: +1.00", 1.0, column=1, layer=0, source=0)
        >>> circuit_drawing([node], ["a", "b"], layers=1, column=1, title="logit").spec.sentences
        ('head 0.1 at b: +1.00',)
    """
    largest = max((abs(node.share) for node in nodes), default=1.0) or 1.0
    places = _places(nodes)
    top = (float(column), float(layers))
    arcs: list[go.Scatter] = []
    for node, place in zip(nodes, places, strict=True):
        start = top
        if node.parent is not None:
            parent = nodes[node.parent]
            start = (float(parent.column if parent.source is None else parent.source), parent.layer - 0.5)
        arcs.append(_arc(start, place, node, largest))
        if node.source is not None:
            arcs.append(_arc(place, (float(node.source), node.layer - 0.5), node, largest))
    points = go.Scatter(
        x=[x for x, _y in places], y=[y for _x, y in places], mode="markers+text", hoverinfo="skip", cliponaxis=False,
        text=[node.name for node in nodes], textposition="middle right", textfont={"size": LETTERS},
        marker={
            "size": 11, "color": [AFTER if node.share >= 0 else NEGATIVE for node in nodes],
            "symbol": ["circle" if node.source is not None else "square" for node in nodes],
            "line": {"color": "rgba(128,128,128,0.9)", "width": 1},
        },
    )  # fmt: skip
    whole = go.Scatter(
        x=[top[0]], y=[top[1]], mode="markers+text", text=[title], textposition="top left", hoverinfo="skip",
        textfont={"size": LETTERS + 2}, marker={"size": 13, "symbol": "star", "color": ACCENT}, cliponaxis=False,
    )  # fmt: skip
    step = -(-max(1, layers) // MOST_TICKS)
    grid = {"showgrid": True, "gridcolor": "rgba(128,128,128,0.15)"}
    layout = {
        "plot_bgcolor": "rgba(0,0,0,0)", "margin": {"l": 8, "r": 40, "t": 8, "b": 8},
        "xaxis": grid | {
            "tickvals": list(range(len(words))), "ticktext": [label(word) for word in words], "automargin": True,
            "range": [-0.7, len(words) - 0.2], "tickfont": {"size": LETTERS + 1}, "autotickangles": [0, 60, 90],
        },
        "yaxis": {
            "tickvals": [-1, *range(0, layers, step)],
            "ticktext": [_("words"), *map(str, range(0, layers, step))],
            "range": [-1.8, layers + 0.1 * layers + 0.6], "automargin": True,
            "title": {"text": _("layers"), "standoff": 6},
        },
    }  # fmt: skip
    about = About(
        label=_("What was opened"),
        description=". ".join(node.sentence for node in nodes),
        name=_("circuit"),
        hint=_("Point at a term to read it."),
    )
    sentences = tuple(node.sentence for node in nodes)
    return Chart(light_figure([points, *arcs, whole], layout), PointsSpec(sentences), about)


def _places(nodes: Sequence[DrawnNode]) -> list[tuple[float, float]]:
    """Returns where nodes are: of those at one word, side by side, so that their names can be read."""
    places = []
    for node in nodes:
        layers = sorted({(other.layer, other.name) for other in nodes if other.column == node.column})
        # Neighbors in the order of layers are in turn at the left, in the middle and at the right.
        turn = layers.index((node.layer, node.name)) % 3 if len(layers) > 1 else 1
        places.append((node.column + (turn - 1) * ROOM / 2, float(node.layer)))
    return places


def _arc(start: tuple[float, float], end: tuple[float, float], node: DrawnNode, largest: float) -> go.Scatter:
    """Returns a curve that leaves its start and reaches its end upright."""
    t = np.linspace(0, 1, 21)
    smooth = t * t * (3 - 2 * t)
    return go.Scatter(
        x=start[0] + (end[0] - start[0]) * smooth, y=start[1] + (end[1] - start[1]) * t, mode="lines",
        hoverinfo="skip", opacity=0.55, cliponaxis=False,
        line={
            "width": max(1.0, WIDEST * abs(node.share) / largest), "color": AFTER if node.share >= 0 else NEGATIVE,
            "dash": "dot" if node.of_score else "solid",
        },
    )  # fmt: skip
