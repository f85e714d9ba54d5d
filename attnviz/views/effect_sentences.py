"""Effects in sentences."""

import numpy as np

from attnviz.effects.metrics import KL, Cosine, Logit, LogitDifference, Loss, Probability
from attnviz.figures.shares import signed
from attnviz.formatting import number
from attnviz.language import _
from attnviz.state.effects import EffectsState
from attnviz.views.head_effects import HeadEffects
from attnviz.views.share_grid import for_and_against
from attnviz.views.why_answer import plain_word

SATURATED = 1e-3  # the distance of a probability from 0 or 1 at which it hardly changes with the logits


def measure_name(state: EffectsState) -> str:
    """Returns what an effect is measured by, as part of a sentence."""
    run, metric = state.run, state.metric
    token, other = (_token(state, getattr(metric, name, None)) for name in ("token", "other"))
    match metric:
        case LogitDifference():
            return _("the logit of {token} above that of {other}", token=token, other=other)
        case Logit():
            return _("the logit of {token}", token=token)
        case Probability():
            return _("the probability of {token}", token=token)
        case KL():
            return _("the KL divergence (in bits) of what is said from what is said now")
        case Loss(first):
            word = plain_word(run.predicting[first - 1])
            return _("the loss (in bits a token) of the text after “{word}”", word=word)
    return _("the cosine of the text’s vector with that which it has now")


def measure_sentence(state: EffectsState, own: float) -> str:
    """Returns the measure where nothing is taken away."""
    name = measure_name(state)
    if isinstance(state.metric, KL | Cosine):
        return _("Measured is {measure}: {value} where nothing is taken away.", measure=name,
                 value=number(own))  # fmt: skip
    return _("Now {measure} is {value}.", measure=name, value=number(own))


def measure_notes(state: EffectsState, effects: HeadEffects) -> list[str]:
    """Returns where effects say little, or are of other numbers than those that the model itself computes with."""
    notes = []
    if isinstance(state.metric, Probability) and not SATURATED <= effects.own <= 1 - SATURATED:
        notes.append(
            _(
                "The probability is {value}: the softmax is saturated, so that heads change it little, whatever they "
                "do to the logits. Measure the logit, or the difference of two logits.",
                value=number(effects.own),
            )
        )
    if np.isinf(effects.heads).any() or np.isinf(effects.mlps).any():
        notes.append(_("An effect is infinite where the model without a part rules out a token that it may say now."))
    if state.run.linearized.model is not state.source.model().model:
        notes.append(_("The model has weights of half precision. Effects are measured in a copy in float32."))
    return notes


def effect_colors(state: EffectsState) -> tuple[bool, tuple[str, str]]:
    """Returns whether effects have the colors of the opposite shares, as a part without which the measure falls is for
    it, and labels for the lowest and the highest effect."""
    metric = state.metric
    if isinstance(metric, Loss):
        return False, (_("against"), _("for the text"))
    if isinstance(metric, KL | Cosine):
        return isinstance(metric, Cosine), ("", "")
    against, favored = for_and_against(state.run.token_text(metric.token))
    return True, (favored, against)


def effect_text(effect: float, estimated: bool = False, spread: float = 0.0) -> str:
    """Returns an effect, with its standard deviation over texts, or with a word that it is an estimate, or that it is
    not known yet."""
    if np.isnan(effect):
        return _("not measured yet")
    if estimated:
        return _("about {effect}, estimated", effect=signed(effect))
    return f"{signed(effect)} ± {number(spread)}" if spread > 0 else signed(effect)


def _token(state: EffectsState, token: int | str | None) -> str:
    if isinstance(token, int):
        return _("“{word}”", word=state.run.token_text(token))
    return _("the average token") if token else ""
