"""The effects of heads over many texts: their mean, how far they are apart, and the texts with the largest."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from jaxtyping import Float

from attnviz.attribution.metrics import LogitDifference
from attnviz.base.formatting import number
from attnviz.base.language import _
from attnviz.effects.ablation import Head, ablations
from attnviz.figures.shares import signed
from attnviz.layer import head_name
from attnviz.page.blocks import Anchor, Block, Caption, Control, available
from attnviz.page.html import element
from attnviz.page.result_cache import result_cache
from attnviz.page.text_list import MeasuredText, difference_name, text_link
from attnviz.page.text_list_blocks import (
    above_sentence,
    numbers_of_texts,
    ordered_texts,
    texts_control,
    totals_sentence,
)
from attnviz.pages.effects.head_effects import HeadEffects, effects_key
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
        yield from available(text_circuits(state))
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


def effects_of_head(state: EffectsState, head: Head, effects: HeadEffects) -> Float[np.ndarray, " texts"]:
    """Returns the effect of a head in each text; from all effects where they are known."""
    if effects.each is not None:
        return effects.each[:, head[0], head[1]]
    key = "effects of a head", *effects_key(state)[1:], head
    work = 2 * len(effects.measures) * state.source.forward_work
    return result_cache().once(partial(_measured, state, head), *key, work=work)


def _measured(state: EffectsState, head: Head) -> Float[np.ndarray, " texts"]:
    texts = None if state.ablation == "zero" else state.other_runs
    model = state.run.linearized.model
    return np.array([
        float(ablations(model, batch, metric, how=state.ablation, texts=texts, heads=[head])[head])
        for batch, metric in state.measured_runs
    ])  # fmt: skip


def _head_over_texts(state: EffectsState, head: Head, effects: HeadEffects) -> Iterator[Block]:
    """Yields the effect of a head in all texts, as a sentence, as bars, and text by text."""
    values, name = effects_of_head(state, head, effects), head_name(state.run.layers[head[0]], head[1])
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
