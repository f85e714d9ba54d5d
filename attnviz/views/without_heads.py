"""What the measure becomes without each head and MLP, and what the chosen head does."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from attnviz.effects.ablation import Head
from attnviz.language import _, option_name
from attnviz.lessons.checks import WEIGHT, Quantities, named_quantities
from attnviz.link import Link
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
    Table,
)
from attnviz.page.head_numbers import grid_height
from attnviz.page.page_view import Panel
from attnviz.state.effects import DIFFERENCE, EffectsState
from attnviz.state.effects_links import term_link
from attnviz.views.effect_grid import EffectGrid, head_at
from attnviz.views.effect_sentences import (
    both_effects,
    effect_colors,
    measure_notes,
    measure_sentence,
    progress_sentence,
)
from attnviz.views.head_detail import HeadDetail, head_detail, measured_query
from attnviz.views.head_effects import HeadEffects, effects_key, head_effects, other_effect

LARGEST = 10  # effects in the table
HIDDEN = "effect of hiding "  # in names of quantities


def without_heads(state: EffectsState) -> Iterator[Block]:
    """Yields the effects of all heads and MLPs, as they are measured. Raises ValueError if they cannot be."""
    yield computed_effects("heads", state, partial(_of_effects, state))
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
    """Yields what ablated heads write instead, and in which texts effects are measured."""
    fields = EffectsState.ablation, EffectsState.averages, EffectsState.other_texts
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
    """Returns how many effects are known."""
    parts = sum(state.run.heads) + len(state.run.mlp_layers)
    return _("{done} of {parts} heads and MLPs so far.", done=effects.measured, parts=parts)


def _of_effects(state: EffectsState, effects: HeadEffects) -> Iterator[Block]:
    """Yields the grid of effects that are known, the largest of them, and the chosen head."""
    grid = EffectGrid(state.run, effects)
    largest = grid.largest(LARGEST)
    shown = state.head or next((head for _name, head, _effect in largest if head is not None), None)
    yield Summary(
        measure_sentence(state, effects.own), partial(heads_quantities, state, effects) if effects.is_complete else None
    )
    yield _grid(state, grid, shown)
    yield from map(Note, [progress_sentence(effects), *measure_notes(state, effects)])
    rows = [
        (name if head is None else Anchor(name, state.link_with(head=head)), effect) for name, head, effect in largest
    ]
    of_head = [Control(EffectsState.head, state), *([] if shown is None else chosen_head(state, shown, grid))]
    yield Columns([(0.4, [Table((_("Without"), _("effect")), rows)]), (0.6, of_head)])


def _grid(state: EffectsState, grid: EffectGrid, shown: Head | None) -> Figure:
    reverse, ends = effect_colors(state)
    picture = grid.chart(shown, reverse, ends)

    def opens(row: int, column: int) -> Link | None:
        head = head_at(picture.spec, state.run.heads, row, column)
        return None if head is None else state.link_with(head=head)

    heads = [str(head) for head in range(grid.heads)]
    layers = list(state.run.layer_numbers)
    panel = Panel(_("Effects of heads"), grid.values[:, :-1], layers, heads, is_signed=True, reverse=reverse)
    # A click is that on a head, also while numbers are still being replaced.
    height, cells = grid_height(picture.spec), (state.source, picture.spec.size)
    return Figure(picture, "effects-grid", height, opens, [panel], cells=cells)


def chosen_head(state: EffectsState, head: Head, grid: EffectGrid) -> Iterator[Block]:
    """Yields the keys of a head with their weights, their shares, and the effects of hiding them; with the effect of
    the head, by zeros and by means where they differ."""
    try:
        detail = head_detail(state, head)
    except ValueError as problem:
        yield Note(str(problem))
        return
    effect, is_measured = grid.text(*head), not grid.is_estimated[head]
    if is_measured and np.isfinite(value := float(grid.values[head])):
        effect = both_effects(effect, value, other_effect(state, head), state.ablation)
    why: tuple[object, ...] = ()
    if state.measure == DIFFERENCE:
        link = term_link(state, head, measured_query(state, head[0]))
        why = (" ", Anchor(_("Why this share?"), link, "why", "attnviz-page-link"))
    yield Paragraph((detail.sentence(effect), *why))
    yield Figure(detail.chart(), "effects-keys", 110 + 90 * len(detail.rows))


def effect_quantities(effects: HeadEffects) -> Quantities:
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
    return {**effect_quantities(effects), **of_head}
