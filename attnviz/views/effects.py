"""What Effects shows."""

from collections.abc import Callable
from functools import partial

import numpy as np

from attnviz.language import _
from attnviz.lessons.checks import Quantities
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
from attnviz.views.head_detection import kinds_of_heads
from attnviz.views.head_effects import HeadEffects, effects_key, head_effects
from attnviz.views.logit_lens import logit_lens_blocks
from attnviz.views.patching import PatchingView, patching_key, patching_view
from attnviz.views.without_heads import heads_quantities, without_heads
from attnviz.views.word_effects import without_words


def effects_view(state: EffectsState) -> PageView:
    """Returns what the open tab shows. Raises ValueError if it cannot be measured."""
    state.check_metric()
    return TABS[state.inspect](state)


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
    HEADS: lambda state: page_view(without_heads(state)),
    WORDS: lambda state: page_view(without_words(state)),
    PATCHING: _patching,
    LENS: lambda state: page_view(logit_lens_blocks(state)),
    COMPARED: _compared,
    CIRCUITS: _circuits,
    DETECTORS_TAB: lambda state: page_view(kinds_of_heads(state)),
}
