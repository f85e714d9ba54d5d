"""A small set of heads that keeps most of the measure, and what a group of heads does together."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from attnviz.effects.ablation import Head
from attnviz.effects.head_groups import HeadSet, group_effects, smallest_set
from attnviz.effects.sweep import Text
from attnviz.figures import Chart, head_grid
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.formatting import fixed, number
from attnviz.language import _, option_name, plural
from attnviz.layer import head_name
from attnviz.result_cache import result_cache
from attnviz.state.effects import EffectsState, all_heads
from attnviz.views.effect_sentences import measure_name

OnSet: TypeAlias = Callable[[float, HeadSet], None]
FORWARDS = 8  # that a group takes about


@dataclass(frozen=True)
class GroupEffects:
    """The measure with all heads, without a group of them, with the group alone, and without any head."""

    own: float
    without: float
    alone: float
    none: float


def set_key(state: EffectsState) -> tuple[object, ...]:
    """Returns what the smallest set depends on."""
    texts = tuple(state.lines) if state.ablation != "zero" else ()
    return "smallest set", state.source, state.metric, state.ablation, texts, state.kept


def smallest_head_set(state: EffectsState, progress: OnSet | None = None) -> HeadSet:
    """Returns a small set of heads that keeps most of the measure, with the smallest so far to `progress`. Raises
    ValueError as `attnviz.effects.smallest_set`."""
    batch, metric = state.measured_runs[0]
    others = None if state.ablation == "zero" else state.other_runs
    return smallest_set(
        state.run.linearized.model, batch, metric, kept=state.kept / 100, how=state.ablation, texts=others,
        on_progress=progress,
    )  # fmt: skip


def kept_text(share: float) -> str:
    """Returns a share that is kept as a percentage; it may be negative, and above 100."""
    return f"{fixed(100 * share, 1)}%"


def set_sentence(state: EffectsState, head_set: HeadSet) -> str:
    """Returns how many heads keep how much of the measure."""
    return plural(
        "{count} of {all} heads keeps {kept} of the measure: with it alone, {measure} is {value}.",
        "{count} of {all} heads keep {kept} of the measure: with them alone, {measure} is {value}.",
        len(head_set.heads), count=len(head_set.heads), all=sum(state.run.heads), kept=kept_text(head_set.kept),
        measure=measure_name(state), value=number(head_set.value),
    )  # fmt: skip


def ends_sentence(state: EffectsState, head_set: HeadSet) -> str:
    """Returns the measure with all heads and with none, between which the share that is kept is counted."""
    return _(
        "With all heads it is {all} (100%), with none {none} (0%).",
        all=number(head_set.with_all),
        none=number(head_set.with_none),
    )


def set_grid(state: EffectsState, heads: Collection[Head]) -> Float[np.ndarray, "layers heads"]:
    """Returns 1 for each head of a set and 0 for the others; NaN where there is none."""
    grid = np.full((len(state.run.heads), max(state.run.heads)), np.nan)
    for place in all_heads(state).values():
        grid[place] = place in heads
    return grid


def set_chart(state: EffectsState, head_set: HeadSet) -> Chart[MosaicSpec]:
    """Returns the heads of a set as a grid."""
    grid = set_grid(state, head_set.heads)
    names = {place: head_name(state.run.layers[place[0]], place[1]) for place in all_heads(state).values()}
    sentences = [
        "" if np.isnan(kept) else f"{names[place]}: {_('kept') if kept else _('ablated')}"
        for place, kept in np.ndenumerate(grid)
    ]
    picture = head_grid(grid, sentences, largest=1.0, layer_names=[*map(option_name, state.run.layer_numbers)])
    picture.figure.layout.coloraxis.showscale = False
    return picture.with_about(label=_("Heads that are kept"), hint=_("Point at a head to read its name."))


def group_effects_of(state: EffectsState) -> GroupEffects:
    """Returns the measure without the chosen heads, with them alone, and without any."""

    def compute() -> GroupEffects:
        batch, metric = state.measured_runs[0]
        others = None if state.ablation == "zero" else state.other_runs
        model, every = state.run.linearized.model, [*all_heads(state).values()]
        rest = [head for head in every if head not in state.group]
        effects = group_effects(model, batch, metric, [state.group, rest, every], how=state.ablation, texts=others)
        own = Text.from_batch(model, batch).value(metric)
        return GroupEffects(own, *(own + effects).tolist())

    key = "group of heads", *set_key(state)[1:-1], state.group
    return result_cache().once(compute, *key, work=FORWARDS * state.source.forward_work)


def group_rows(state: EffectsState, effects: GroupEffects) -> list[tuple[str, str, str]]:
    """Returns the measure for each run, and the share of it that is kept."""
    runs = {
        _("all heads"): effects.own, _("all but these heads"): effects.without, _("these heads alone"): effects.alone,
        _("no head"): effects.none,
    }  # fmt: skip
    whole = effects.own - effects.none
    return [
        (name, number(value), kept_text((value - effects.none) / whole) if whole else "")
        for name, value in runs.items()
    ]
