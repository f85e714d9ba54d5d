"""The pages whose views are computed from a link."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from attnviz.formatting import enumeration, quoted
from attnviz.language import value_error
from attnviz.link import Link
from attnviz.page.blocks import Block, page_view
from attnviz.page.page_view import PageView
from attnviz.result_cache import result_cache
from attnviz.sources import Model
from attnviz.sources.source import Source
from attnviz.state.effects import EffectsState
from attnviz.state.explore import ExploreState
from attnviz.state.head_state import HeadState
from attnviz.state.heads import HeadsState
from attnviz.state.lookup import LookupState
from attnviz.state.masks import MasksState
from attnviz.state.models import ModelsState
from attnviz.state.path import PathState
from attnviz.state.scores import ScoresState
from attnviz.state.source_field import layer
from attnviz.state.state import State
from attnviz.state.steps import StepsState
from attnviz.state.transformer import TransformerState
from attnviz.state.viewport import is_long
from attnviz.state.why import WhyState
from attnviz.state.write import WriteState
from attnviz.views.effects import effects
from attnviz.views.explore import explore
from attnviz.views.heads import heads
from attnviz.views.lookup import lookup
from attnviz.views.masks import masks
from attnviz.views.models import models
from attnviz.views.path import path
from attnviz.views.scores import scores
from attnviz.views.steps import steps
from attnviz.views.transformer import transformer
from attnviz.views.why import why
from attnviz.views.write import write_view

PAGES: dict[str, tuple[type[State], Callable[[Any], PageView]]] = {
    "explore": (ExploreState, explore),
    "lookup": (LookupState, lookup),
    "steps": (StepsState, steps),
    "path": (PathState, path),
    "heads": (HeadsState, lambda state: page_view(heads(state))),
    "why": (WhyState, lambda state: page_view(why(state))),
    "effects": (EffectsState, lambda state: page_view(effects(state))),
    "scores": (ScoresState, scores),
    "masks": (MasksState, masks),
    "transformer": (TransformerState, transformer),
    "write": (WriteState, write_view),
    "models": (ModelsState, models),
}

# The pages that are lists of blocks.
BLOCKS: dict[str, Callable[[Any], Iterable[Block]]] = {"heads": heads, "why": why, "effects": effects}


def read_state(page: str, link: Iterable[tuple[str, str]]) -> State:
    """Returns the state of a page that the parameters of a link open. Raises ValueError for a page that has none."""
    if page not in PAGES:
        raise value_error(
            "{page} is not a page with a view; expected one of {pages}.",
            page=quoted(page),
            pages=enumeration([*PAGES]),
        )
    return PAGES[page][0].read(link)


def page_blocks(page: str, link: Link) -> Iterable[Block]:
    """Returns the blocks that a page of BLOCKS shows in the state of a link. Raises ValueError if it shows nothing."""
    state = read_state(page, link)
    for sentence in state.refused:
        warnings.warn(sentence, stacklevel=2)
    if state.problem:
        raise ValueError(state.problem)
    return BLOCKS[page](state)


def view_of(page: str, state: State) -> PageView:
    """Returns what a page shows in a state. Raises ValueError if that cannot be computed."""
    if state.problem:
        raise ValueError(state.problem)
    source = getattr(state, "source", None)
    if not isinstance(source, Source):
        name = getattr(state, "model", "")
        source = Model(name=name) if name else Source()
    return replace(PAGES[page][1](state), note=source.weights_note)


def step_view(page: str, link: Link) -> PageView | None:
    """Returns what a page shows in the state of a link, for the step of a lesson; None if there is nothing to show, or
    a text whose map is too long for paper."""

    def compute() -> PageView | None:
        state = read_state(page, link)
        is_too_long = isinstance(state, HeadState) and not state.problem and is_long(layer(state).inputs)
        return None if is_too_long else view_of(page, state)

    try:
        return result_cache().once(compute, "view of a page", page, link)
    except ValueError:  # the page shows something else then, with an error
        return None
