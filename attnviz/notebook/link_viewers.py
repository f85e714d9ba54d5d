"""The viewers of what links to the app open."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attnviz.attribution.sum_term import format_term
from attnviz.attribution.trail import format_trail
from attnviz.formatting import enumeration, quoted
from attnviz.layer import Layer
from attnviz.lessons.lesson_tables import parse_address
from attnviz.masks import GROUPS, Mask
from attnviz.notebook.mask_pictures import MaskPictures
from attnviz.notebook.pictures import Pictures
from attnviz.notebook.recorded_text import RecordedText
from attnviz.notebook.viewer import HtmlOutput, Viewer, head_viewer, unique_key
from attnviz.notebook.why_viewer import WhyViewer, sum_viewer
from attnviz.state.explore import ExploreState
from attnviz.state.masks import MasksState
from attnviz.state.selection import Selection
from attnviz.state.why import WhyState
from attnviz.state.write import WriteState
from attnviz.views.pages import read_state

OF_IMAGES = "Vision"  # a group of masks


class NoViewerError(ValueError):
    """A link without a viewer; `attnviz.view` has a view of it."""


def viewer(link: str) -> HtmlOutput:
    """Returns the viewer of what a link to Explore, Masks, Why or Write opens: as `attnviz.view`, but interactive, in a
    notebook or as a page that needs neither Python nor a network.

    Explore gives all heads of the source. Masks compares mask A with mask B and with the other masks of the catalogue
    that fit the text. Why gives the sum and the terms that are opened, and Write plays the text that the model has
    written. Raises ValueError for another page, or if nothing can be shown; warns about values that are not taken.

    Example:
        >>> shown = viewer("/masks?source=Toy&text=a+b+c&mask-a=full&mask-b=causal")
        >>> shown.to_html(title="Two masks").startswith("<!doctype html>")
        True
    """
    page, parameters = parse_address(link)
    if page not in VIEWERS:
        raise NoViewerError(
            f"{quoted(page)} has no viewer; expected a link to one of {enumeration([*VIEWERS])}. "
            "Take attnviz.view for other pages."
        )
    state: Any = read_state(page, parameters)
    for sentence in state.refused:
        warnings.warn(sentence, stacklevel=2)
    if state.problem:
        raise ValueError(state.problem)
    return VIEWERS[page](state)


def _heads(state: ExploreState) -> Viewer:
    selection = state.selection
    return head_viewer(Pictures(selection.layers, key=unique_key()), *_chosen(selection, state.pinned))


def _masks(state: MasksState) -> Viewer:
    """Returns the viewer of the selected layer under A and B, with the other masks of the catalogue that fit as B."""
    selection, (before, after) = state.selection, state.mechanisms
    if selection.layer.locked:
        raise ValueError(selection.layer.locked_reason)
    others = [after.mask, *(kind() for group in GROUPS if group != OF_IMAGES for kind in GROUPS[group])]
    fitting = [mask for mask in dict.fromkeys(others) if mask != before.mask and _fits(mask, selection.layer)]
    mechanisms = [replace(after, mask=mask) for mask in fitting]
    _layer, head, query = _chosen(selection, state.pinned)
    return head_viewer(MaskPictures(selection.layer, before, mechanisms, unique_key()), 0, head, query)


def _sum(state: WhyState) -> WhyViewer:
    shown = sum_viewer(state.run, state.metric)
    shown.trail, shown.term = format_trail(state.trail), format_term(state.term)
    return shown


def _text(state: WriteState) -> RecordedText:
    return RecordedText(state.text, unique_key(), *_chosen(state.selection, state.pinned))


def _chosen(selection: Selection, row: int | None) -> tuple[int, int, int | None]:
    """Returns the layer, the head and the query of the pinned row. Raises ValueError for several heads as one."""
    if not isinstance(selection.head, int):
        raise NoViewerError(
            f"A viewer shows single heads, and this link has the {str(selection.head).lower()} of several. Choose a "
            "head, or take attnviz.view."
        )
    return selection.index, selection.head, None if row is None else selection.queries[row]


def _fits(mask: Mask, layer: Layer) -> bool:
    """Returns whether a mask can be applied to a layer: some are made for certain lengths."""
    try:
        mask.bind(layer.inputs.queries, layer.inputs.keys, layer.inputs.heads)
    except ValueError:
        return False
    return True


VIEWERS: dict[str, Callable[[Any], HtmlOutput]] = {"explore": _heads, "masks": _masks, "why": _sum, "write": _text}
