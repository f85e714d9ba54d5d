"""The pages whose views are computed from a link."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from attnviz.base.formatting import enumeration, quoted
from attnviz.base.language import _, value_error
from attnviz.base.link import Link
from attnviz.page.blocks import Block, Caption, Control, InWords, More, Row, page_view
from attnviz.page.color_range import ColorRange
from attnviz.page.fields import Field
from attnviz.page.head_state import HeadState
from attnviz.page.page_view import PageView
from attnviz.page.result_cache import result_cache
from attnviz.page.source_field import layer
from attnviz.page.state import State
from attnviz.page.viewport import is_long
from attnviz.pages.effects.blocks import effects
from attnviz.pages.effects.state import EffectsState, measure_words
from attnviz.pages.explore.blocks import explore
from attnviz.pages.explore.state import ExploreState
from attnviz.pages.heads.blocks import heads
from attnviz.pages.heads.state import HeadsState
from attnviz.pages.lookup.blocks import lookup
from attnviz.pages.lookup.state import LookupState
from attnviz.pages.masks.blocks import masks
from attnviz.pages.masks.state import MasksState
from attnviz.pages.scores.blocks import scores
from attnviz.pages.scores.state import ScoresState
from attnviz.pages.side_by_side.blocks import side_by_side
from attnviz.pages.side_by_side.state import SideBySideState
from attnviz.pages.steps.blocks import steps
from attnviz.pages.steps.state import StepsState
from attnviz.pages.transformer.blocks import transformer
from attnviz.pages.transformer.state import TransformerState
from attnviz.pages.why.blocks import why
from attnviz.pages.why.state import WhyState, question_words
from attnviz.pages.write.blocks import write_blocks
from attnviz.pages.write.state import WriteState
from attnviz.sources import Model
from attnviz.sources.source import Source


class BlockPage(NamedTuple):
    """A page that is a list of blocks; of one that asks a question, with the question as a sentence: words, and the
    fields after them."""

    state: type[State]
    blocks: Callable[[Any], Iterable[Block]]
    words: Callable[[Any], Sequence[tuple[str, Field[Any]]]] = lambda _state: ()

    def view(self, state: Any) -> PageView:
        """Returns the maps and the quantities of a state."""
        return replace(page_view(self.blocks(state)), colors=state.values.get("colors", ColorRange.SHOWN))


BLOCKS = {
    "lookup": BlockPage(LookupState, lookup),
    "steps": BlockPage(StepsState, steps),
    "explore": BlockPage(ExploreState, explore),
    "masks": BlockPage(MasksState, masks),
    "scores": BlockPage(ScoresState, scores),
    "side_by_side": BlockPage(SideBySideState, side_by_side),
    "write": BlockPage(WriteState, write_blocks),
    "heads": BlockPage(HeadsState, heads),
    "why": BlockPage(WhyState, why, question_words),
    "effects": BlockPage(EffectsState, effects, measure_words),
    "transformer": BlockPage(TransformerState, transformer),
}


def read_state(page: str, link: Iterable[tuple[str, str]]) -> State:
    """Returns the state of a page that the parameters of a link open. Raises ValueError for a page that has none."""
    if page not in BLOCKS:
        raise value_error(
            "{page} is not a page with a view; expected one of {pages}.",
            page=quoted(page),
            pages=enumeration([*BLOCKS]),
        )
    return BLOCKS[page].state.read(link)


def page_blocks(page: str, link: Link) -> Iterable[Block]:
    """Returns the blocks that a page of BLOCKS shows in the state of a link. Raises ValueError if it shows nothing."""
    state = read_state(page, link)
    for sentence in state.refused:
        warnings.warn(sentence, stacklevel=2)
    if state.problem:
        raise ValueError(state.problem)
    yield from _controls(BLOCKS[page], state)
    source = state.values.get("source")
    if isinstance(source, Source) and source.weights_note:
        yield Caption(source.weights_note)
    yield from BLOCKS[page].blocks(state)


def _controls(page: BlockPage, state: Any) -> Iterator[Block]:
    """Yields the controls that the app has around the blocks: the text, the question or the head, and folded the
    others."""
    first = [field for _text, field in page.words(state)] * getattr(state, "asks", True)
    first += [field for field in state.fields if field.place == "top"]
    if isinstance(state, HeadState):
        yield InWords(state.selection.title)
    elif getattr(state, "reads_text", False):
        yield InWords(_("{model} reads “{text}”.", model=state.source.model().title, text=state.text))
        first.insert(0, page.state.text)  # type: ignore[attr-defined]
    yield Row([Control(field, state) for field in first], "page-question")
    others = [field for field in state.fields if field.place in ("side", "more")]
    text = getattr(page.state, "text", None)
    yield More(_("More"), [Control(field, state) for field in others if field not in (*first, text)])


def view_of(page: str, state: State) -> PageView:
    """Returns what a page shows in a state. Raises ValueError if that cannot be computed."""
    if state.problem:
        raise ValueError(state.problem)
    source = getattr(state, "source", None)
    if not isinstance(source, Source):
        name = getattr(state, "model", "")
        source = Model(name=name) if name else Source()
    return replace(BLOCKS[page].view(state), note=source.weights_note)


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
