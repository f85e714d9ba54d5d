"""The viewers of what links to the app open."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from attnviz.base.formatting import enumeration, quoted
from attnviz.base.link import Link
from attnviz.layer import Layer
from attnviz.lessons.lesson_tables import parse_address
from attnviz.masks import GROUPS, Mask
from attnviz.notebook.mask_pictures import MaskPictures
from attnviz.notebook.page_viewer import PageViewer, page_viewer
from attnviz.notebook.pictures import Pictures
from attnviz.notebook.recorded_text import RecordedText
from attnviz.notebook.viewer import HtmlOutput, Viewer, head_viewer, unique_key
from attnviz.page.page_view import PageView
from attnviz.state.explore import ExploreState
from attnviz.state.masks import MasksState
from attnviz.state.selection import Selection
from attnviz.state.write import WriteState
from attnviz.views.pages import BLOCKS, page_blocks, read_state, view_of

OF_IMAGES = "Vision"  # a group of masks
MAPS_ALONE = ("explore",)  # the page of blocks whose view has its maps


def view(link: str) -> PageView | PageViewer:
    """Returns what a page of the app shows when a link opens it, one of PAGES with its parameters; the address
    before the page does not matter. A notebook shows its panels, and a page of blocks whole.

    Raises ValueError for another page, or if nothing can be shown; warns about values that are not taken.

    Example:
        >>> masks = view("/masks?source=Toy&text=a+b+c&mask-a=causal&mask-b=full")
        >>> [panel.title for panel in masks.panels], masks.quantities["cells added"]
        (['A: causal', 'B: full', 'B − A'], 3.0)
    """
    page, parameters = parse_address(link)
    if page in BLOCKS and page not in MAPS_ALONE:
        return _page(page, parameters)
    state = read_state(page, parameters)
    for sentence in state.refused:
        warnings.warn(sentence, stacklevel=2)
    return view_of(page, state)


class NoViewerError(ValueError):
    """A link without a viewer; `attnviz.view` has a view of it."""


def viewer(link: str) -> HtmlOutput:
    """Returns the viewer of what a link to Explore, Masks, Write or a page of blocks opens: as `attnviz.view`, but
    interactive, in a notebook or as a page that needs neither Python nor a network.

    Explore gives all heads of the source. Masks compares mask A with mask B and with the other masks of the catalogue
    that fit the text. Write plays the text that the model has written. Other pages of blocks are whole. Raises
    ValueError for another page, or if nothing can be shown; warns about values that are not taken.

    Example:
        >>> shown = viewer("/masks?source=Toy&text=a+b+c&mask-a=full&mask-b=causal")
        >>> shown.to_html(title="Two masks").startswith("<!doctype html>")
        True
    """
    page, parameters = parse_address(link)
    if page in BLOCKS and page not in VIEWERS:
        return _page(page, parameters)
    if page not in VIEWERS:
        pages = enumeration([*VIEWERS, *(other for other in BLOCKS if other not in VIEWERS)])
        raise NoViewerError(
            f"{quoted(page)} has no viewer; expected a link to one of {pages}. Take attnviz.view for other pages."
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


def _page(page: str, link: Link) -> PageViewer:
    return page_viewer(partial(page_blocks, page), link)


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


VIEWERS: dict[str, Callable[[Any], HtmlOutput]] = {"explore": _heads, "masks": _masks, "write": _text}
