"""The opened terms of a sum as a drawing: words across, layers up, what was carried as arcs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from attnviz.attribution.trail import StepQuestion
from attnviz.base.cached_property import cached_property
from attnviz.base.language import _
from attnviz.figures.bars import AFTER, NEGATIVE
from attnviz.figures.chart_spec import About, Chart, PointsSpec
from attnviz.figures.sentences import label
from attnviz.figures.themes import ACCENT, light_figure

WIDEST = 14  # pixels of the arc of the largest share
LETTERS = 13
OF_SCORE = 3  # pixels of an arc about where a head looks, whose share is in other units
APART = 1.4  # words: between two terms in a row
MOST_WORDS = 24  # that fit side by side; of more, those with a term are shown
WORDS = -1  # the layer of embeddings


@dataclass(frozen=True)
class DrawnNode:
    """A term: the column of the word at which it writes, its layer (WORDS for embeddings), its name and its sentence.

    `source` is the column of the word that a head read, and `parent` the number of the node that carried what this one
    wrote; None of those that wrote to the number itself. Nodes of one place and name are the same term.
    """

    name: str
    sentence: str
    share: float
    column: int
    layer: int
    is_head: bool = False
    source: int | None = None
    parent: int | None = None
    question: StepQuestion = "value"  # about a head: what it found, or, by the "key" or the "query", why it looks there

    @property
    def term(self) -> tuple[int, int, str]:
        """What is the same in nodes of one term."""
        return self.column, self.layer, self.name


@dataclass(frozen=True)
class _Places:
    """Where terms are: only layers with a term have a row, and words with many terms in a row a wide column."""

    nodes: Sequence[DrawnNode]
    words: Sequence[int]  # those that are shown, by their numbers

    @cached_property
    def rows(self) -> list[int]:
        """The layers with a term, from below."""
        return sorted({WORDS, *(node.layer for node in self.nodes)})

    @cached_property
    def columns(self) -> dict[int, float]:
        """The middle of each word's column."""
        crowds: dict[tuple[int, int], set[str]] = {}
        for node in self.nodes:
            crowds.setdefault((node.column, node.layer), set()).add(node.name)
        widths = dict.fromkeys(self.words, 1.0)
        for (column, _layer), names in crowds.items():
            widths[column] = max(widths[column], APART * (len(names) + 0.5))
        middles = np.cumsum([*widths.values()]) - np.array([*widths.values()]) / 2
        return dict(zip(widths, middles.tolist(), strict=True))

    @property
    def end(self) -> float:
        """Where the last column ends, which is as far from its middle as that of the last but one, or more."""
        *before, last = self.columns.values()
        return 2 * last - (before[-1] if before else 0.0)

    def place(self, node: DrawnNode) -> tuple[float, float]:
        """Returns the place of a term: heads in the middle of the column, and MLPs at their right."""
        heads = {other.name for other in self.nodes if other.column == node.column and other.is_head}
        neighbors = sorted(heads & {other.name for other in self.nodes if other.term[:2] == node.term[:2]})
        middle = (max(1, len(neighbors)) - 1) / 2
        offset = 0.0
        if node.is_head:
            offset = neighbors.index(node.name) - middle
        elif heads and node.layer != WORDS:
            offset = middle + 1
        return self.columns[node.column] + APART * offset, float(self.rows.index(node.layer))

    def read(self, node: DrawnNode, column: int) -> tuple[float, float]:
        """Returns the place from which a head reads, at a word below its layer."""
        return self.columns[column], self.rows.index(node.layer) - 0.45


def circuit_drawing(
    nodes: Sequence[DrawnNode], words: Sequence[str], layers: Sequence[str], column: int, title: str
) -> Chart[PointsSpec]:
    """Draws terms with arcs as wide as their shares, blue where they are positive, and dashed where they are about
    where a head looks; the number that they add up to, with its title, is above the word in `column`.

    Example:
        >>> node = DrawnNode("0.1", "head 0.1 at b: +1.00", 1.0, column=1, layer=0, is_head=True, source=0)
        >>> circuit_drawing([node], ["a", "b"], ["layer 0"], column=1, title="logit").spec.sentences
        ('head 0.1 at b: +1.00',)
    """
    used = {column, *(place for node in nodes for place in (node.column, node.source) if place is not None)}
    shown = sorted(used) if len(words) > MOST_WORDS else range(len(words))
    places = _Places(nodes, shown)
    largest = max((abs(node.share) for node in nodes if node.question == "value"), default=0.0) or 1.0
    top = (places.columns[column], float(len(places.rows)))
    arcs = []
    for node in nodes:
        start, parent = top, None if node.parent is None else nodes[node.parent]
        if parent is not None:
            start = places.place(parent)
            if parent.source is not None and parent.question != "query":
                start = places.read(parent, parent.source)
        arcs.append(_arc(start, places.place(node), node, largest))
        if node.source is not None:
            arcs.append(_arc(places.place(node), places.read(node, node.source), node, largest))
    terms = {node.term: node for node in reversed(nodes)}  # the first of each
    sentences = {term: [node.sentence for node in nodes if node.term == term] for term in terms}
    centers = [places.place(node) for node in terms.values()]
    marker = {
        "size": 11,
        "opacity": 1,
        "color": [AFTER if node.share >= 0 else NEGATIVE for node in terms.values()],
        "symbol": ["circle" if node.is_head else "square" for node in terms.values()],
        "line": {"color": "rgba(128,128,128,0.9)", "width": 1},
    }
    names = [node.name for node in terms.values()]
    star = {"size": 13, "symbol": "star", "color": ACCENT}
    rows = [_("words") if row == WORDS else layers[row] for row in places.rows]
    columns, heights = [*places.columns.values()], [float(row) for row in range(len(rows))]
    grid = {"showgrid": True, "gridcolor": "rgba(128,128,128,0.15)", "autotickangles": [0, 60, 90]}
    layout = {
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 30, "t": 8, "b": 8},
        "xaxis": _axis(columns, [label(words[i]) for i in shown], (0.0, places.end + 0.3), LETTERS + 1) | grid,
        "yaxis": _axis(heights, rows, (-0.6, len(rows) + 0.6), LETTERS),
    }
    about = About(
        label=_("What was opened"),
        description=". ".join(node.sentence for node in nodes),
        name=_("circuit"),
        hint=_("Point at a term to read it."),
    )
    spec = PointsSpec(tuple("; ".join(sentences[term]) for term in terms))
    traces = [_points(centers, names, marker, LETTERS), *arcs, _points([top], [title], star, LETTERS + 3)]
    return Chart(light_figure(traces, layout), spec, about)


def _points(
    places: Sequence[tuple[float, float]], texts: Sequence[str], marker: Mapping[str, object], letters: int
) -> go.Scatter:
    """Returns points with a text at the right of each."""
    x, y = ([place[i] for place in places] for i in (0, 1))
    text = {"text": [*texts], "textposition": "middle right", "textfont": {"size": letters}}
    return go.Scatter(x=x, y=y, mode="markers+text", marker=marker, hoverinfo="skip", cliponaxis=False, **text)


def _axis(places: Sequence[float], texts: Sequence[str], ends: tuple[float, float], letters: int) -> dict[str, object]:
    ticks = {"tickvals": [*places], "ticktext": [*texts], "tickfont": {"size": letters}}
    return ticks | {"range": [*ends], "automargin": True}


def _arc(start: tuple[float, float], end: tuple[float, float], node: DrawnNode, largest: float) -> go.Scatter:
    """Returns a curve that leaves its start and reaches its end upright."""
    t = np.linspace(0, 1, 21)
    is_value = node.question == "value"
    width = max(1.0, WIDEST * abs(node.share) / largest) if is_value else OF_SCORE
    color, dash = AFTER if node.share >= 0 else NEGATIVE, "solid" if is_value else "dash"
    x, y = start[0] + (end[0] - start[0]) * t * t * (3 - 2 * t), start[1] + (end[1] - start[1]) * t
    line = {"width": width, "color": color, "dash": dash}
    return go.Scatter(x=x, y=y, mode="lines", line=line, opacity=0.5, hoverinfo="skip", cliponaxis=False)
