"""What Effects shows."""

from collections.abc import Callable
from functools import partial

import numpy as np

from attnviz.language import _
from attnviz.lessons.checks import WEIGHT, Quantities, named_quantities
from attnviz.page.blocks import page_view
from attnviz.page.page_view import PageView, Panel
from attnviz.result_cache import result_cache
from attnviz.state.effects import (
    CIRCUITS,
    COMPARED,
    DETECTORS_TAB,
    EFFECT,
    HEADS,
    LENS,
    PATCHING,
    WORDS,
    EffectsState,
)
from attnviz.state.effects import WEIGHT as WEIGHT_OF_HEAD
from attnviz.views.compared_heads import compared_heads, compensation
from attnviz.views.effect_sentences import effect_colors
from attnviz.views.head_circuits import CircuitsView, circuits_view
from attnviz.views.head_detail import HeadDetail, head_detail
from attnviz.views.head_detection import kinds_of_heads
from attnviz.views.head_effects import HeadEffects, effects_key, head_effects
from attnviz.views.logit_lens import logit_lens_blocks
from attnviz.views.patching import PatchingView, patching_key, patching_view
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


def heads_quantities(state: EffectsState, effects: HeadEffects) -> Quantities:
    """Returns the effects, and of the chosen head what it shows."""
    of_head = {} if state.head is None else head_quantities(head_detail(state, state.head))
    return {**effect_quantities(state, effects), **of_head}


def _heads(state: EffectsState) -> PageView:
    effects: HeadEffects = result_cache().once(partial(head_effects, state), *effects_key(state))
    heads = [str(head) for head in range(effects.heads.shape[1])]
    layers, (reverse, _ends) = list(state.run.layer_numbers), effect_colors(state)
    panel = Panel(_("Effects of heads"), effects.heads, layers, heads, is_signed=True, reverse=reverse)
    return PageView((panel,), heads_quantities(state, effects))


def _words(state: EffectsState) -> PageView:
    effects, words = word_effects(state), [plain_word(word) for word in state.run.source]
    reverse, _ends = effect_colors(state)
    panel = Panel(_("Effects of hiding words"), effects[None], [""], words, is_signed=True, reverse=reverse)
    return PageView((panel,), named_quantities(HIDDEN, words, effects))


def _compared(state: EffectsState) -> PageView:
    effects: HeadEffects = result_cache().once(partial(head_effects, state), *effects_key(state))
    heads = [str(head) for head in range(effects.heads.shape[1])]
    layers, (reverse, _ends) = list(state.run.layer_numbers), effect_colors(state)
    panels = [
        Panel(_(name), values, layers, heads, is_signed=name != WEIGHT_OF_HEAD, reverse=name == EFFECT and reverse)
        for name, values in compared_heads(state, effects).values.items()
    ]
    return PageView(tuple(panels), compared_quantities(state, effects))


def compared_quantities(state: EffectsState, effects: HeadEffects) -> Quantities:
    """Returns the effects, and of the chosen head what it shows and the shares of all heads with it and without it."""
    numbers = {**heads_quantities(state, effects)}
    made = None if state.head is None else compensation(state, state.head)
    if made is not None:
        for (layer, head), share in np.ndenumerate(made.before.heads.numpy()):
            numbers[f"share of {layer}.{head}"] = float(share)
            numbers[f"share of {layer}.{head} without the head"] = float(made.after.heads[layer, head])
    return numbers


def _circuits(state: EffectsState) -> PageView:
    shown = circuits_view(state)
    heads = [str(head) for head in range(shown.above_random.shape[1])]
    title = _("Composition of {head} with other heads", head=shown.head_name)
    panel = Panel(title, shown.above_random, list(state.run.layer_numbers), heads, is_signed=True)
    return PageView((panel,), circuit_quantities(shown))


def circuit_quantities(shown: CircuitsView) -> Quantities:
    """Returns the numbers that lessons check: the composition with each head, and the copying score where it is
    known."""
    numbers = {
        f"composition with {layer}.{head}": float(value)
        for (layer, head), value in np.ndenumerate(shown.above_random)
        if np.isfinite(value)
    }
    return numbers | ({} if shown.copying_score is None else {"copying score": shown.copying_score})


def patching_quantities(shown: PatchingView) -> Quantities:
    """Returns the numbers that lessons check: the measure in both runs, and what each head, or the part of a layer at a
    position, recovers."""
    numbers = {"clean": shown.patching.clean, "corrupted": shown.patching.corrupted}
    for (row, column), share in np.ndenumerate(shown.recovered):
        if np.isfinite(share):
            numbers[f"recovered by {row}.{column}"] = float(share)
    return numbers


def _patching(state: EffectsState) -> PageView:
    shown: PatchingView = result_cache().once(partial(patching_view, state), *patching_key(state))
    layers = [state.run.layer_numbers[layer] for layer in shown.patching.layers]
    panel = Panel(_("Recovered shares"), shown.recovered, layers, shown.column_names, is_signed=True)
    return PageView((panel,), patching_quantities(shown))


TABS: dict[str, Callable[[EffectsState], PageView]] = {
    HEADS: _heads,
    WORDS: _words,
    PATCHING: _patching,
    LENS: lambda state: page_view(logit_lens_blocks(state)),
    COMPARED: _compared,
    CIRCUITS: _circuits,
    DETECTORS_TAB: lambda state: page_view(kinds_of_heads(state)),
}
