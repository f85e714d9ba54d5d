"""The difference of two head maps as a chart."""

from typing import Any

from attnviz.figures.chart_spec import Chart, HeatmapSpec
from attnviz.figures.difference import difference_heatmap
from attnviz.figures.downsampled_difference import downsampled_difference
from attnviz.figures.sentences import CHANGE_SENTENCES, ChangeSentences
from attnviz.page.selected_maps import HeadMap, zoom_key


def head_difference(
    before: HeadMap,
    after: HeadMap,
    *,
    charts: tuple[str, str],
    names: tuple[str, str] = ("A", "B"),
    sentences: ChangeSentences = CHANGE_SENTENCES,
    link: str = "",
) -> Chart[HeatmapSpec]:
    """Returns the map `after` minus the map `before`, of equal size; a token that differs has both texts.

    `charts` are the keys of the charts of both maps, which have the same `link` and are called `names`. Raises
    ValueError if the maps have different cells.
    """
    if before.downsampled is not None and after.downsampled is not None:
        key = f"{zoom_key(before.inputs)} {before.viewport}"
        return downsampled_difference(before.downsampled, after.downsampled, names=names, zoom_key=key, link=link)
    tokens = (
        [a if a == b else f"{a} / {b}" for a, b in zip(*both, strict=True)]
        for both in zip(before.labels, after.labels, strict=True)
    )
    named: dict[str, Any] = {"charts": charts, "names": names, "sentences": sentences}
    zooms = zoom_key(before.inputs)
    return difference_heatmap(before.weights, after.weights, *tokens, zoom_key=zooms, link=link, **named)
