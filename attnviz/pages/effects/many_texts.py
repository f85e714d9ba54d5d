"""The effects of heads over many texts: their mean, how far they are apart, and the texts with the largest."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.base.formatting import number, percent
from attnviz.base.language import _, plural
from attnviz.base.link import Link
from attnviz.effects.ablation import Head, ablations
from attnviz.figures.histogram import histogram
from attnviz.figures.shares import signed
from attnviz.layer import head_name
from attnviz.page.blocks import Anchor, Block, Caption, Control, Figure, Listing, More, Paragraph, available
from attnviz.page.fields import Field
from attnviz.page.html import element
from attnviz.page.page_view import Panel
from attnviz.page.result_cache import result_cache
from attnviz.pages.effects.head_effects import HeadEffects, effects_key
from attnviz.pages.effects.links import why_link
from attnviz.pages.effects.sentences import measure_name
from attnviz.pages.effects.state import DIFFERENCE, HEADS_AND_WORDS, EffectsState, MeasuredText
from attnviz.pages.effects.text_circuits import text_circuits
from attnviz.pages.effects.without_heads import ablation_controls, computed_effects, effects_of_heads

SHOWN = 6  # texts with the lowest and the highest effect that are not folded
HISTOGRAM = 220  # pixels


def effects_over_texts(state: EffectsState) -> Iterator[Block]:
    """Yields the effects of all heads and MLPs as mean over many texts. Raises ValueError if one cannot be measured."""
    yield More(_("Texts"), [Control(EffectsState.many, state)], name="texts-measured")
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
    own, count = effects.measures, len(effects.measures)
    has_own = state.measure == DIFFERENCE and any(text.token for text in state.measured_texts)
    text = _(
        "Over {texts}, {measure} is {value} on average, between {low} and {high}.",
        texts=plural("{count} text", "{count} texts", count, count=count),
        measure=_("the logit of what a text says above that of the other") if has_own else measure_name(state),
        value=number(effects.own),
        low=number(own.min()),
        high=number(own.max()),
    )
    if state.measure == DIFFERENCE:
        text += " " + _("In {above} of {count} it is above 0.", above=int((own > 0).sum()), count=count)
    return text


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
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else np.nan
    yield Paragraph(_effect_sentence(name, values, error), "attnviz-finding")
    title = _("effect of {head}", head=name)
    panel = Panel(title, values[None], [title], [*map(str, range(len(values)))], is_signed=True)
    yield Figure(histogram(values, title, marked=0.0), "effects-distribution", HISTOGRAM, panels=[panel])
    order = np.argsort(values, kind="stable")
    items = [_item(state, head, state.measured_texts[i], effects.measures[i], values[i]) for i in order]
    if len(items) <= 2 * SHOWN:
        yield Listing(items, _("Texts by the effect"), "attnviz-examples")
        return
    yield Listing(items[:SHOWN], _("Texts by the effect"), "attnviz-examples")
    between = Listing(items[SHOWN:-SHOWN], _("Texts by the effect"), "attnviz-examples")
    yield More(_("{count} more", count=len(items) - 2 * SHOWN), [between], name="texts-between")
    yield Listing(items[-SHOWN:], _("Texts by the effect"), "attnviz-examples")


def _effect_sentence(name: str, values: Float[np.ndarray, " texts"], error: float) -> str:
    names = {"head": name[:1].upper() + name[1:], "mean": signed(float(values.mean()))}
    if not np.isfinite(error):
        return _("{head}: {mean} in one text.", **names)
    is_same = percent(float((np.sign(values) == np.sign(values.mean())).mean()), 2)
    return _(
        "{head}: {mean} on average, with a standard error of {error}; {share} of the texts have the same sign.",
        error=number(error),
        share=is_same,
        **names,
    )


def _item(state: EffectsState, head: Head, text: MeasuredText, measure: float, effect: float) -> tuple[object, ...]:
    """Returns a text with its measure and the effect of a head, and links to both."""
    alone = _alone(state, text)
    own = _("({value} with all)", value=number(float(measure)))
    parts: list[object] = [element("b", signed(float(effect))), " ", element("bdi", text.text), f" {own}"]
    of_head = EffectsState.head.parameter, EffectsState.head.name_of(state, head)
    parts += [" · ", Anchor(_("Open"), (*alone, of_head))]
    if state.measure == DIFFERENCE:
        parts += [" · ", Anchor(_("Why does it say that?"), why_link(alone), "why")]
    return tuple(parts)


def _alone(state: EffectsState, text: MeasuredText) -> Link:
    """Returns the link to the same measure in one of the texts."""
    own: dict[Field[Any], str] = {
        EffectsState.text: text.text,
        EffectsState.token: text.token or state.values["token"],
        EffectsState.other: text.other or state.values["other"],
    }
    changed = {field.parameter for field in (*own, EffectsState.position, EffectsState.many, EffectsState.head)}
    kept = [(name, value) for name, value in state.link_with(inspect=HEADS_AND_WORDS) if name not in changed]
    return (*kept, *((field.parameter, value) for field, value in own.items() if value))
