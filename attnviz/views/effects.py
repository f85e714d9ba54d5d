"""What Effects shows."""

from collections.abc import Callable
from functools import partial

import numpy as np

from attnviz.language import _
from attnviz.lessons.checks import WEIGHT, Quantities, named_quantities
from attnviz.result_cache import result_cache
from attnviz.state.effects import HEADS, WORDS, EffectsState
from attnviz.views.head_detail import HeadDetail, head_detail
from attnviz.views.head_effects import HeadEffects, effects_key, head_effects
from attnviz.views.page_view import PageView, Panel
from attnviz.views.why_answer import plain_word
from attnviz.views.word_effects import word_effects

HIDDEN = "effect of hiding "


def effects_view(state: EffectsState) -> PageView:
    """Returns what the open tab shows. Raises ValueError if it cannot be measured."""
    state.check_metric()
    return TABS[state.inspect](state)


def effect_quantities(state: EffectsState, effects: HeadEffects) -> Quantities:
    """Returns the numbers that lessons check: the measure, and the effect of each head and MLP that is known."""
    numbers = {"measure": effects.own}
    for (layer, head), effect in np.ndenumerate(effects.heads):
        if np.isfinite(effect):
            numbers[f"effect of {layer}.{head}"] = float(effect)
    return numbers | {f"effect of MLP {layer}": float(effect) for layer, effect in enumerate(effects.mlps)}


def head_quantities(detail: HeadDetail) -> Quantities:
    """Returns the numbers of a head that lessons check: its weights, its shares, and the effects of hiding its keys."""
    numbers = {"share of the head": detail.share} if np.isfinite(detail.share) else {}
    for name, values in ((WEIGHT, detail.weights), ("share from ", detail.shares), (HIDDEN, detail.effects)):
        if np.isfinite(values).all():
            numbers |= named_quantities(name, detail.keys, values)
    return numbers


def _heads(state: EffectsState) -> PageView:
    effects: HeadEffects = result_cache().once(partial(head_effects, state), *effects_key(state))
    heads = [str(head) for head in range(effects.heads.shape[1])]
    panel = Panel(_("Effects of heads"), effects.heads, list(state.run.layer_numbers), heads, is_signed=True)
    numbers = effect_quantities(state, effects)
    return PageView(
        (panel,), numbers if state.head is None else {**numbers, **head_quantities(head_detail(state, state.head))
    )


def _words(state: EffectsState) -> PageView:
    effects, words = word_effects(state), [plain_word(word) for word in state.run.source]
    panel = Panel(_("Effects of hiding words"), effects[None], [""], words, is_signed=True)
    return PageView((panel,), named_quantities(HIDDEN, words, effects))


TABS: dict[str, Callable[[EffectsState], PageView]] = {HEADS: _heads, WORDS: _words}
