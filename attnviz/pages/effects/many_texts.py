"""The effects of heads over many texts: their mean, how far they are apart, and the texts with the largest."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from attnviz.attribution.metrics import LogitDifference
from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.effects.ablation import Head
from attnviz.figures.shares import signed
from attnviz.layer import head_name
from attnviz.page.blocks import Anchor, Block, Caption, Control, Note, available
from attnviz.page.html import element
from attnviz.page.text_list import MeasuredText, difference_name, text_link
from attnviz.page.text_list_blocks import (
    above_sentence,
    numbers_of_texts,
    ordered_texts,
    texts_control,
    totals_sentence,
)
from attnviz.pages.effects.head_effects import HeadEffects
from attnviz.pages.effects.links import why_link
from attnviz.pages.effects.sentences import measure_name
from attnviz.pages.effects.state import DIFFERENCE, HEADS_AND_WORDS, EffectsState
from attnviz.pages.effects.text_circuits import text_circuits
from attnviz.pages.effects.without_heads import ablation_controls, computed_effects, effects_of_heads


def effects_over_texts(state: EffectsState) -> Iterator[Block]:
    """Yields the effects of all heads and MLPs as mean over many texts. Raises ValueError if one cannot be measured."""
    yield texts_control(state)
    yield computed_effects("many", state, partial(effects_of_heads, state, _measures, _head_over_texts))
    yield from ablation_controls(state)
    yield Control(EffectsState.circuit, state)
    if state.circuit:
        yield computed_effects("many circuits", state, partial(_circuits, state))
    yield Caption(
        _(
            "**What you are seeing.** Each number is what the measure becomes without a part, minus what it is with "
            "all, as mean over the texts. **What it does not say:** a mean near 0 may be of effects that are large and "
            "of both signs: look at how far they are apart."
        )
    )


def _measures(state: EffectsState, effects: HeadEffects) -> str:
    """Returns the measure over the texts in which nothing is taken away."""
    if not isinstance(metric := state.metric, LogitDifference):
        return totals_sentence(measure_name(state), effects.measures)
    measure = difference_name(state.run, metric, state.measured_texts)
    return f"{totals_sentence(measure, effects.measures)} {above_sentence(effects.measures)}"


def _circuits(state: EffectsState, effects: HeadEffects) -> Iterator[Block]:
    """Yields how few heads are enough, which is not computed before all effects are known."""
    if effects.is_complete:
        yield from available(text_circuits(state))


def _head_over_texts(state: EffectsState, head: Head, effects: HeadEffects) -> Iterator[Block]:
    """Yields the effect of a head in the texts that have been measured, as a sentence, as bars, and text by text."""
    if effects.each is None:
        return
    if not effects.is_complete:
        count = len(effects.measures)
        yield Note(_("{done} of {count} texts so far.", done=effects.texts, count=count))
    values, name = effects.each[:, head[0], head[1]], head_name(state.run.layers[head[0]], head[1])
    yield from numbers_of_texts(name, _("effect of {head}", head=name), values, "effects-distribution")
    order = np.argsort(values, kind="stable")
    items = [_item(state, head, state.measured_texts[i], effects.measures[i], values[i]) for i in order]
    yield from ordered_texts(items, _("Texts by the effect"))


def _item(state: EffectsState, head: Head, text: MeasuredText, measure: float, effect: float) -> tuple[object, ...]:
    """Returns a text with its measure and the effect of a head, and links to both."""
    alone = text_link(state, text, state.link_with(inspect=HEADS_AND_WORDS, head=None))
    own = _("({value} with all)", value=number(float(measure)))
    parts: list[object] = [element("b", signed(float(effect))), " ", element("bdi", text.text), f" {own}"]
    of_head = EffectsState.head.parameter, EffectsState.head.name_of(state, head)
    parts += [" · ", Anchor(_("Open"), (*alone, of_head))]
    if state.measure == DIFFERENCE:
        parts += [" · ", Anchor(_("Why does it say that?"), why_link(alone), "why")]
    return tuple(parts)
