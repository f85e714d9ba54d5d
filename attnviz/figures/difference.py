"""The difference of two maps of weights."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from attnviz.analysis.difference import ADDED, REMOVED, difference, outcomes
from attnviz.base.language import _
from attnviz.figures.chart_spec import About, Chart, DifferenceSpec, HeatmapSpec
from attnviz.figures.heatmap import heatmap
from attnviz.figures.sentences import CHANGE_SENTENCES, ChangeSentences

OUTLINES = ((REMOVED, "#ae3ec9", "solid"), (ADDED, "#1c7ed6", "dot"))  # seen on both themes


def difference_heatmap(
    before: Float[np.ndarray, "queries keys"],
    after: Float[np.ndarray, "queries keys"],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    charts: tuple[str, str],
    names: tuple[str, str] = ("A", "B"),
    sentences: ChangeSentences = CHANGE_SENTENCES,
    zoom_key: str = "",
    link: str = "",
) -> Chart[HeatmapSpec]:
    """Draws the map after minus the map before, on a scale centered at zero; NaN is a cell that a map does not allow.

    Cells that only `before` allows have a solid outline, cells that only `after` allows a dotted one. `charts` are the
    keys of the charts with the two maps, which have the same `link` and are called `names`; the sentences name their
    weights.

    Example:
        >>> before, after = np.array([[0.5, 0.5]]), np.array([[1.0, np.nan]])
        >>> chart = difference_heatmap(before, after, ["it"], ["a", "b"], charts=("left", "right"))
        >>> chart.figure.data[0].z.tolist(), chart.about.label
        ([[0.5, -0.5]], 'B minus A')
    """
    change, kinds = difference(before, after).numpy(), outcomes(before, after).numpy()
    largest = float(np.nanmax(np.abs(change))) if not np.isnan(change).all() else 0.0
    chart = heatmap(
        change,
        query_tokens,
        key_tokens,
        largest=largest or 1.0,
        zoom_key=zoom_key,
        link=link,
        fan=False,
        scale="changes",
        ends=(_("less"), _("more")),
    )
    for kind, color, dash in OUTLINES:
        x, y = outline(kinds == kind)
        line = {"color": color, "width": 2, "dash": dash}
        chart.figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip")
    spec = replace(chart.spec, difference=DifferenceSpec(charts, sentences))
    return Chart(chart.figure, spec, about_difference(*names))


def about_difference(first: str, second: str) -> About:
    """Returns what a map of `second` minus `first` is, in words."""
    return About(
        label=_("{second} minus {first}", second=second, first=first),
        description=_("{second} minus {first}, cell by cell.", second=second, first=first),
        hint=_("More attention with {second} is blue, less is brown.", second=second),
    )


def outline(cells: Bool[np.ndarray, "rows columns"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Returns the border between these cells and all others: lines with NaN between them, in the units of the cells.

    Example:
        >>> x, y = outline(np.array([[True]]))
        >>> sorted(set(x[~np.isnan(x)].tolist()))
        [-0.5, 0.5]
    """
    padded = np.pad(cells, 1)
    lines = []
    for across in (False, True):
        # An edge where a cell differs from the one before; runs of edges are one line.
        edges = np.diff(padded.T if across else padded, axis=0)
        ends = np.diff(edges.astype("i1"), axis=1, prepend=0, append=0)
        starts, stops = np.argwhere(ends == 1), np.argwhere(ends == -1)
        along = np.stack([starts[:, 1] - 1.5, stops[:, 1] - 1.5, np.full(len(starts), np.nan)], axis=1)
        place = np.repeat(starts[:, :1] - 0.5, 3, axis=1)
        lines.append((place, along) if across else (along, place))
    x, y = (np.concatenate([axis.ravel() for axis in both]) for both in zip(*lines, strict=True))
    return x, y
