"""The weight, the share and the effect of each head, the heads of which they disagree most, and why."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from attnviz.base.language import _, in_sentence
from attnviz.base.link import Link
from attnviz.effects.ablation import Head
from attnviz.lessons.checks import Quantities
from attnviz.page import html
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Computed,
    Control,
    Figure,
    Heading,
    Note,
    Paragraph,
    Row,
    Summary,
    Table,
)
from attnviz.page.page_view import Panel
from attnviz.pages.effects.compared_heads import (
    ComparedHeads,
    Reasons,
    compared_heads,
    compensation,
    reasons,
    reasons_key,
)
from attnviz.pages.effects.head_effects import HeadEffects
from attnviz.pages.effects.sentences import effect_colors, measure_sentence
from attnviz.pages.effects.state import EFFECT, WEIGHT, EffectsState
from attnviz.pages.effects.without_heads import ablation_controls, chosen_head, computed_effects, heads_quantities

ShowReasons: TypeAlias = Callable[[list[Reasons]], Iterable[Block]]
LISTED = 5  # heads, with the reasons that are tested
HEIGHT = 420


def heads_compared(state: EffectsState) -> Iterator[Block]:
    """Yields heads as points of two numbers, the heads of which they disagree most, with reasons, and the chosen one.
    Raises ValueError if effects cannot be measured."""
    yield computed_effects("compared", state, partial(_of_effects, state))
    yield from ablation_controls(state)
    yield Caption(
        _(
            "**What you are seeing.** A weight says where a head looks, a share what it writes to the measure "
            "directly, an effect what changes without it. If nothing else changed without the head, its effect would "
            "be minus its share. **What it does not say:** a reason is what was found in this text by running the "
            "model without the head; there may be others."
        )
    )


def _of_effects(state: EffectsState, effects: HeadEffects) -> Iterator[Block]:
    compared = compared_heads(state, effects)
    is_known = effects.is_complete
    yield Summary(measure_sentence(state, effects), partial(compared_quantities, state, effects) if is_known else None)
    if np.isnan(compared.values[WEIGHT]).all():
        yield Note(_("Where the heads of this model look is not known here, so they have no weight."))
    farthest = compared.farthest(LISTED) if is_known else []
    shown = state.head or next(iter(farthest), None)
    of_head: list[Block] = [Control(EffectsState.head, state)]
    if shown is not None:
        of_head += chosen_head(state, shown, effects)
        if is_known and shown not in farthest:
            of_head.append(_tested(compared, [shown], "reasons of a head", _reasons_of_head))
    fields = EffectsState.across, EffectsState.up, EffectsState.without_first
    axes = Row([Control(field, state) for field in fields], "effects-axes")
    yield Columns([(0.56, [_points(compared, shown), axes]), (0.44, of_head)])
    if farthest:
        across, up = in_sentence(state.across), in_sentence(state.up)
        yield Heading(_("Where {across} and {up} disagree most", across=across, up=up))
        yield _tested(compared, farthest, "reasons", partial(_farthest, compared, farthest))


def _points(compared: ComparedHeads, shown: Head | None) -> Figure:
    state = compared.state

    def opens(point: int, _column: int) -> Link:
        return state.link_with(head=compared.places[point])

    reverse, _ends = effect_colors(state)
    layers, heads = list(state.run.layer_numbers), [str(head) for head in range(max(state.run.heads))]
    panels = [
        Panel(_(name), values, layers, heads, is_signed=name != WEIGHT, reverse=name == EFFECT and reverse)
        for name, values in compared.values.items()
    ]
    return Figure(compared.chart(shown), "effects-compared", HEIGHT, opens, panels)


def _tested(compared: ComparedHeads, heads: Sequence[Head], name: str, shows: ShowReasons) -> Computed[list[Reasons]]:
    """Returns the reasons of heads, as they are tested."""

    def describe(tested: list[Reasons]) -> str:
        return _("The reasons of {done} of {heads} heads so far.", done=len(tested), heads=len(heads))

    compute, key = partial(reasons, compared, heads), partial(reasons_key, compared.state, heads)
    return Computed(name, compute, key, describe, shows, subject=(compared.state, tuple(heads)))


def _reasons_of_head(tested: Sequence[Reasons]) -> Iterator[Block]:
    for each in tested:
        yield from map(Paragraph, each.sentences)


def _farthest(compared: ComparedHeads, heads: Sequence[Head], tested: Sequence[Reasons]) -> Iterator[Block]:
    """Yields the heads whose numbers disagree most, with the reasons that are known."""
    sentences = {each.head: each.sentences for each in tested}
    rows: list[tuple[object, ...]] = []
    for head in heads:
        numbers = [compared.text(name, head) for name in compared.values]
        rows.append((Anchor(compared.name(head), compared.state.link_with(head=head)), compared.word(head), *numbers))
        rows += [("", html.paragraphs(of_head))] if (of_head := sentences.get(head, ())) else []
    yield Table((_("Head"), _("looks at"), *map(_, compared.values)), rows)


def compared_quantities(state: EffectsState, effects: HeadEffects) -> Quantities:
    """Returns the effects, and of the chosen head what it shows and the shares of all heads with it and without it."""
    numbers = {**heads_quantities(state, effects)}
    made = None if state.head is None else compensation(state, state.head)
    if made is not None:
        for (layer, head), share in np.ndenumerate(made.before.heads.numpy()):
            numbers[f"share of {layer}.{head}"] = float(share)
            numbers[f"share of {layer}.{head} without the head"] = float(made.after.heads[layer, head])
    return numbers
