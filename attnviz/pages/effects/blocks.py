"""What Effects shows: what happens without a part of the model, or with another one in its place."""

from collections.abc import Callable, Iterable, Iterator

from attnviz.page.blocks import Block, Control, OptionMenu, Tabs, available
from attnviz.pages.effects.circuit_blocks import circuit_blocks
from attnviz.pages.effects.compared_blocks import heads_compared
from attnviz.pages.effects.logit_lens import logit_lens_blocks
from attnviz.pages.effects.many_texts import effects_over_texts
from attnviz.pages.effects.patching_blocks import patching_blocks
from attnviz.pages.effects.region_blocks import region_blocks
from attnviz.pages.effects.state import (
    CIRCUITS,
    HEADS_AND_WORDS,
    LENS,
    MANY_TEXTS,
    MORE,
    PATCHING,
    REGION,
    EffectsState,
)
from attnviz.pages.effects.without_heads import without_heads
from attnviz.pages.effects.word_effects import without_words

Part = Callable[[EffectsState], Iterable[Block]]
OTHERS: dict[str, Part] = {LENS: logit_lens_blocks, CIRCUITS: circuit_blocks}


def effects(state: EffectsState) -> Iterator[Block]:
    """Yields the open tab. Raises ValueError if it cannot be measured."""
    if state.asks:
        state.check_metric()
    yield Tabs(EffectsState.inspect, state, [*TABS[state.inspect](state)])


def _heads_and_words(state: EffectsState) -> Iterator[Block]:
    yield from heads_compared(state) if state.compares else without_heads(state)
    yield Control(EffectsState.compares, state)
    yield from without_words(state)


def _more(state: EffectsState) -> Iterator[Block]:
    yield OptionMenu(EffectsState.more, state)
    yield from available(OTHERS[state.more](state))


TABS: dict[str, Part] = {
    HEADS_AND_WORDS: _heads_and_words,
    MANY_TEXTS: effects_over_texts,
    PATCHING: patching_blocks,
    MORE: _more,
    REGION: region_blocks,
}
