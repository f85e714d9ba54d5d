"""What Scores shows."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from attnviz.normalizers import Normalizer
from attnviz.page.page_view import PageView, Panel, quantities_by_panel
from attnviz.scores import Score
from attnviz.state.parts import title
from attnviz.state.scores import NORMALIZERS_TAB, ScoresState
from attnviz.state.selection import Selection
from attnviz.views.selected_maps import HeadMap, map_panel, selected_map


def scores(state: ScoresState) -> PageView:
    """Returns a map for each similarity, or the pinned row under each normalizer that takes its scores. Raises
    ValueError if the mechanism of the layer is locked, or nothing can be computed."""
    selection, row = state.selection, state.pinned
    panels: tuple[Panel, ...] = ()
    if selection.layer.locked:
        raise ValueError(selection.layer.locked_reason)
    if state.look != NORMALIZERS_TAB:
        maps = similarity_maps(selection, state.similarities)
        panels = tuple(map_panel(head_map, name, row) for name, head_map in maps.items())
    elif row is not None:
        inputs = selection.inputs
        rows, _refused = normalized_rows(selection, row, state.normalizers)
        panels = tuple(
            Panel(name, weights[None], [inputs.query_tokens[row]], inputs.key_tokens, 0)
            for name, weights in rows.items()
        )
        row = 0
    return PageView(panels, quantities_by_panel(panels, row))


def similarity_maps(selection: Selection, similarities: Iterable[Score]) -> dict[str, HeadMap]:
    """Returns the map of the selected head under each similarity, by its name. Raises ValueError if one cannot be
    computed."""
    mechanisms = {title(type(score)): replace(selection.mechanism, score=score) for score in similarities}
    return {name: selected_map(selection.with_mechanism(mechanism)) for name, mechanism in mechanisms.items()}


def normalized_rows(
    selection: Selection, row: int, normalizers: Iterable[Normalizer]
) -> tuple[dict[str, Float[np.ndarray, " keys"]], dict[str, str]]:
    """Returns the weights of a row under each normalizer, by its name, and why others do not take its scores."""
    rows: dict[str, np.ndarray] = {}
    refused: dict[str, str] = {}
    for normalizer in normalizers:
        mechanism = replace(selection.mechanism, normalizer=normalizer)
        try:
            rows[title(type(normalizer))] = selected_map(selection.with_mechanism(mechanism)).weights[row]
        except ValueError as problem:
            refused[title(type(normalizer))] = str(problem)
    return rows, refused
