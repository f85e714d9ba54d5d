"""What the measure becomes without each head and MLP, and what the chosen head does."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnviz.base.language import _, option_name
from attnviz.effects.ablation import Head
from attnviz.lessons.checks import WEIGHT, Quantities, named_quantities
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Computed,
    Control,
    Figure,
    InWords,
    More,
    Note,
    Paragraph,
    Summary,
)
from attnviz.page.head_numbers import HeadNumbers, Place
from attnviz.pages.effects.head_detail import HeadDetail, head_detail, measured_query
from attnviz.pages.effects.head_effects import HeadEffects, effects_key, head_effects, other_effect
from attnviz.pages.effects.links import term_link
from attnviz.pages.effects.sentences import (
    both_effects,
    effect_colors,
    effect_text,
    measure_notes,
    measure_sentence,
    progress_sentence,
)
from attnviz.pages.effects.state import DIFFERENCE, MANY_TEXTS, EffectsState, measures_many

LARGEST = 10  # effects in the table
HIDDEN = "effect of hiding "  # in names of quantities


def without_heads(state: EffectsState) -> Iterator[Block]:
    """Yields the effects of all heads and MLPs, as they are measured. Raises ValueError if they cannot be."""
    yield computed_effects("heads", state, partial(effects_of_heads, state, measure_sentence, chosen_head))
    yield from ablation_controls(state)
    yield Caption(
        _(
            "**What you are seeing.** Each number is what the measure becomes when the model runs without a part, "
            "minus what it is with all: the rest of the model works with what is left. **What it does not say:** an "
            "effect is that of one part alone. Two heads that do the same may each have none, because the other one "
            "steps in."
        )
    )


def ablation_controls(state: EffectsState) -> Iterator[Block]:
    """Yields what ablated heads write instead."""
    fields = EffectsState.ablation, EffectsState.other_texts
    offered = [Control(field, state) for field in fields if field.is_offered(state)]
    yield More(_("What a head writes instead"), offered)
    instead = option_name(EffectsState.ablation.name_of(state, state.ablation))
    yield InWords(_("Instead of what a head or an MLP writes, the model has: {instead}.", instead=instead))


def computed_effects(
    name: str, state: EffectsState, shows: Callable[[HeadEffects], Iterable[Block]]
) -> Computed[HeadEffects]:
    """Returns what is shown of the effects of heads, as they are measured."""
    compute, key = partial(head_effects, state), partial(effects_key, state)
    return Computed(name, compute, key, partial(_so_far, state), shows, subject=(state.source, state.metric))


def _so_far(state: EffectsState, effects: HeadEffects) -> str:
    """Returns how many effects are known, or in how many texts all are."""
    if (count := len(effects.measures)) > 1:
        return _("{done} of {count} texts so far.", done=effects.texts, count=count)
    parts = sum(state.run.heads) + len(state.run.mlp_layers)
    return _("{done} of {parts} heads and MLPs so far.", done=effects.measured, parts=parts)


def effects_of_heads(
    state: EffectsState,
    sentence: Callable[[EffectsState, HeadEffects], str],
    about_head: Callable[[EffectsState, Head, HeadEffects], Iterable[Block]],
    effects: HeadEffects,
) -> Iterator[Block]:
    """Yields the grid of effects that are known, the largest of them, and what there is about the chosen head."""
    numbers = effect_numbers(state, effects)
    largest = effect_numbers(state, replace(effects, estimated=None)).farthest(LARGEST)
    shown = state.head or next(filter(numbers.is_head, largest), None)
    yield Summary(sentence(state, effects), partial(heads_quantities, state, effects) if effects.is_complete else None)
    # A click is that on a head, also while numbers are still being replaced.
    hint, cells = _("Click a head to see what it looks at, writes and does."), (state.source, numbers.cells.shape)
    yield numbers.grid("effects-grid", hint, numbers.opens_head(state), shown, cells=cells)
    yield from map(Note, [progress_sentence(effects), *measure_notes(state, effects)])
    table = [numbers.table((_("Without"), _("effect")), state, largest)] if largest else []
    of_head = [Control(EffectsState.head, state), *([] if shown is None else about_head(state, shown, effects))]
    yield Columns([(0.4, table), (0.6, of_head)])


def effect_numbers(state: EffectsState, effects: HeadEffects) -> HeadNumbers:
    """Returns the effects of heads and MLPs; heads that have not been measured yet have their estimates."""
    heads, run = effects.heads, state.run
    if effects.estimated is not None:
        heads = np.where(np.isnan(heads), effects.estimated, heads)

    def text(place: Place) -> str:
        is_head = place[1] < heads.shape[1]
        is_estimated = is_head and bool(np.isnan(effects.heads[place]))
        error = float(effects.errors[place]) if is_head and effects.errors is not None else 0.0
        return effect_text(float(heads[place] if is_head else effects.mlps[place[0]]), is_estimated, error)

    reverse, ends = effect_colors(state)
    largest = float(np.nanmax(np.abs(heads), initial=0)) or 1.0  # MLPs do far more
    mlps = effects.mlps if np.isfinite(effects.mlps).any() else None
    colors: dict[str, Any] = {"largest": largest, "sign": ends, "reverse": reverse}
    return HeadNumbers(
        _("Effects of heads and MLPs"), run.ids, heads, counts=run.heads, texts=text, mlps=mlps, **colors
    )


def chosen_head(state: EffectsState, head: Head, effects: HeadEffects) -> Iterator[Block]:
    """Yields the keys of a head with their weights, their shares, and the effects of hiding them; with the effect of
    the head, by zeros and by means where they differ."""
    try:
        detail = head_detail(state, head)
    except ValueError as problem:
        yield Note(str(problem))
        return
    effect = effect_numbers(state, effects).text(head)
    if np.isfinite(value := float(effects.heads[head])):
        effect = both_effects(effect, value, other_effect(state, head), state.ablation)
    why: tuple[object, ...] = ()
    if state.measure == DIFFERENCE:
        link = term_link(state, head, measured_query(state, head[0]))
        why = (" ", Anchor(_("Why this share?"), link, "why", "attnviz-page-link"))
    others = Anchor(_("And in other texts?"), state.link_with(inspect=MANY_TEXTS, head=head), style="attnviz-page-link")
    yield Paragraph((detail.sentence(effect), *why, " ", others), "attnviz-finding")
    yield Figure(detail.chart(), "effects-keys", 110 + 90 * len(detail.rows))


def effect_quantities(effects: HeadEffects) -> Quantities:
    """Returns the numbers that lessons check: the measure, and the effect of each head and MLP that is known."""
    numbers = {"measure": effects.own}
    for (layer, head), effect in np.ndenumerate(effects.heads):
        if np.isfinite(effect):
            numbers[f"effect of {layer}.{head}"] = float(effect)
    mlps = enumerate(effects.mlps)
    return numbers | {f"effect of MLP {layer}": float(effect) for layer, effect in mlps if np.isfinite(effect)}


def head_quantities(detail: HeadDetail) -> Quantities:
    """Returns the numbers of a head that lessons check: its weights, its shares, and the effects of hiding its keys."""
    numbers = {"share of the head": detail.share} if np.isfinite(detail.share) else {}
    for name, values in ((WEIGHT, detail.weights), ("share from ", detail.shares), (HIDDEN, detail.effects)):
        if np.isfinite(values).all():
            numbers |= named_quantities(name, detail.keys, values)
    return numbers


def heads_quantities(state: EffectsState, effects: HeadEffects) -> Quantities:
    """Returns the effects, and of the chosen head what it shows."""
    head = None if measures_many(state) else state.head
    of_head = {} if head is None else head_quantities(head_detail(state, head))
    return {**effect_quantities(effects), **of_head}
