"""The difference of two downsampled maps of the same queries and keys, cell by cell."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnviz.analysis.downsampling import Downsampled
from attnviz.base.language import N_, _, value_error
from attnviz.figures.chart_spec import Chart, HeatmapSpec
from attnviz.figures.difference import about_difference
from attnviz.figures.heatmap import heatmap
from attnviz.figures.sentences import CellSentences

SENTENCES = CellSentences(
    N_("From query {query} and key {key} on: the change of the mass of this cell is {weight}."),
    N_("Neither mask allows anything here."),
    N_("Neither mask allows anything here."),
)


def downsampled_difference(
    before: Downsampled,
    after: Downsampled,
    *,
    names: tuple[str, str] = ("A", "B"),
    zoom_key: str = "",
    link: str = "",
) -> Chart[HeatmapSpec]:
    """Draws the mass of each cell after minus that before, on a scale centered at zero.

    A row adds up to what its queries' weights add up to after, less what they did before: 0 for softmax. Raises
    ValueError if the maps have other cells.

    Example:
        >>> from attnviz import Inputs, Mechanism, downsample
        >>> from attnviz.masks import Causal, Full
        >>> inputs = Inputs(*torch.eye(4).expand(3, 1, 4, 4), tuple("abcd"), tuple("abcd"))
        >>> full, causal = (downsample(inputs, Mechanism(mask=mask), cells=(2, 2)) for mask in (Full(), Causal()))
        >>> downsampled_difference(full, causal).figure.data[0].z.shape
        (2, 2)
    """
    if not (before.row_edges.equal(after.row_edges) and before.column_edges.equal(after.column_edges)):
        raise value_error("Only maps in the same cells can be compared. Downsample both with the same arguments.")
    masked = (before.allowed == 0) & (after.allowed == 0)
    change = torch.where(masked, torch.nan, after.mass - before.mass).numpy()
    largest = float(np.nanmax(np.abs(change), initial=0.0)) or 1.0
    firsts = ([str(i) for i in edges[:-1].tolist()] for edges in (before.row_edges, before.column_edges))
    colors: dict[str, Any] = {"largest": largest, "scale": "changes", "ends": (_("less"), _("more"))}
    chart = heatmap(change, *firsts, sentences=SENTENCES, zoom_key=zoom_key, link=link, fan=False, **colors)
    return replace(chart, about=about_difference(*names))
