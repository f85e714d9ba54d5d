"""Effects in sentences."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from attnviz.base.formatting import number, plain_word
from attnviz.base.language import _
from attnviz.effects.ablation import AblationKind
from attnviz.effects.compensation import Compensation
from attnviz.effects.metrics import KL, Cosine, Logit, LogitDifference, Loss, Probability
from attnviz.figures.shares import signed
from attnviz.page.text_list import against_and_for, logit_name
from attnviz.pages.effects.head_effects import HeadEffects
from attnviz.pages.effects.state import EffectsState, measures_many

LEAST_MEASURED = 10  # heads on which estimates are judged
SATURATED = 1e-3  # the distance of a probability from 0 or 1 at which it hardly changes with the logits


def measure_name(state: EffectsState) -> str:
    """Returns what an effect is measured by, as part of a sentence."""
    run, metric = state.run, state.metric
    match metric:
        case LogitDifference() | Logit():
            return logit_name(run, metric)
        case Probability(token):
            return _("the probability of {token}", token=_("“{word}”", word=run.token_text(token)))
        case KL():
            return _("the KL divergence (in bits) of what is said from what is said now")
        case Loss(first):
            word = plain_word(run.predicting[first - 1])
            return _("the loss (in bits a token) of the text after “{word}”", word=word)
    return _("the cosine of the text’s vector with that which it has now")


def measure_sentence(state: EffectsState, effects: HeadEffects) -> str:
    """Returns the measure where nothing is taken away."""
    name, own = measure_name(state), effects.own
    if isinstance(state.metric, KL | Cosine):
        return _("Measured is {measure}: {value} where nothing is taken away.", measure=name, value=number(own))
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
        notes.append(_("The model has weights of half precision. Effects are measured in float32."))
    return notes


def effect_colors(state: EffectsState) -> tuple[bool, tuple[str, str]]:
    """Returns whether effects have the colors of the opposite shares, as a part without which the measure falls is for
    it, and labels for the lowest and the highest effect."""
    metric = state.metric
    if isinstance(metric, Loss):
        return False, (_("against"), _("for the text"))
    if isinstance(metric, KL | Cosine):
        return isinstance(metric, Cosine), ("", "")
    texts = state.measured_texts if measures_many(state) else []
    against, favored = against_and_for(state.run, metric.token, texts)
    return True, (favored, against)


def progress_sentence(effects: HeadEffects) -> str:
    """Returns how much has been measured, of how many texts it is the mean, and how far off estimates are."""
    count, done = len(effects.measures), effects.texts
    if count > 1 and effects.is_complete:
        return _("The mean of {count} texts, ± its standard error.", count=count)
    if count > 1 and done > 1:
        return _("The mean of {done} of {count} texts so far, ± its standard error.", done=done, count=count)
    if count > 1 and done:
        return _("These are the effects in the first of {count} texts, so far.", count=count)
    if effects.is_complete:
        return _("Each head and each MLP has been measured by running the model without it.")
    if effects.estimated is None:
        return _("What has no color has not been measured yet.")
    text = _(
        "Heads that have not been measured yet have an estimate, by gradients: it is exact only where the rest of the "
        "model is linear."
    )
    return f"{text} {estimates_sentence(effects.estimated, effects.heads)}".strip()


def estimates_sentence(
    estimated: Float[np.ndarray, "layers heads"], measured: Float[np.ndarray, "layers heads"]
) -> str:
    """Returns how far estimates are off on the heads that have been measured; empty of a few heads."""
    known = np.isfinite(estimated) & np.isfinite(measured)
    if known.sum() < LEAST_MEASURED or not (estimated[known].std() and measured[known].std()):
        return ""
    farthest = np.abs(estimated - measured)[known].argmax()
    return _(
        "On the {count} heads that have been measured here, estimates have a correlation of {correlation} with the "
        "effects; the farthest is {estimate} where the effect is {effect}.",
        count=int(known.sum()),
        correlation=number(float(np.corrcoef(estimated[known], measured[known])[0, 1])),
        estimate=signed(float(estimated[known][farthest])),
        effect=signed(float(measured[known][farthest])),
    )


def both_effects(effect: str, value: float, other: float | None, kind: AblationKind) -> str:
    """Returns an effect in words; with what it is where zeros are written, or means in their place, if that has another
    sign or differs by more than half."""
    if other is None or not np.isfinite(value) or not differ(value, other):
        return effect
    names = {"effect": effect, "other": signed(other)}
    if kind == "zero":
        return _("{effect} if it writes zeros, but {other} if it writes its mean over other texts", **names)
    if kind == "mean":
        return _("{effect} if it writes its mean over other texts, but {other} if it writes zeros", **names)
    return _("{effect} if it writes its output on other texts, but {other} if it writes zeros", **names)


def differ(one: float, other: float) -> bool:
    """Returns whether two effects differ in sign, or by more than half of the larger."""
    return one * other < 0 or abs(one - other) > max(abs(one), abs(other)) / 2


def effect_text(effect: float, estimated: bool = False, error: float = 0.0) -> str:
    """Returns an effect, with its standard error over texts, or with a word that it is an estimate, or that it is not
    known yet."""
    if np.isnan(effect):
        return _("not measured yet")
    if estimated:
        return _("about {effect}, estimated", effect=signed(effect))
    return f"{signed(effect)} ± {number(error)}" if error > 0 else signed(effect)


def changes_sentence(made: Compensation, others: Sequence[tuple[str, float, float]], least: float) -> str:
    """Returns how what others write changes without a head: `others` are those that change most, with their shares with
    it and without it at the same scales of norms, and changes below `least` are small."""
    parts = "; ".join(
        _("{name} from {before} to {after}", name=name, before=signed(before), after=signed(after))
        for name, before, after in others
    )
    names = {
        "own": signed(made.of_head),
        "change": signed(made.of_others),
        "parts": parts,
        "effect": signed(made.effect),
        "direct": signed(made.direct) if np.isfinite(made.direct) else "",
    }
    if abs(made.of_others) < least:
        text = _("Without it, what others write changes the measure little, by {change} together.", **names)
    elif abs(made.effect - made.direct) > abs(made.effect) / 2 > abs(made.direct):
        text = _(
            "It works through others: without it, the measure changes by {direct} while all later heads and MLPs write "
            "what they write now, and by {effect} otherwise. Their shares change by {change}, most of all "
            "{parts}.",
            **names,
        )
    elif made.of_head * made.of_others < 0 and abs(made.of_others) <= abs(made.of_head):
        text = _(
            "Others make up for a part of it: without it, its own share changes by {own} and those of others by "
            "{change}, most of all {parts}.",
            **names,
        )
    else:
        text = _(
            "Without it, its own share changes by {own} and those of others by {change}, most of all {parts}.", **names
        )
    if abs(made.of_norms) < least:
        return text
    norms = _("The scales of norms, by which all shares change, add {change}.", change=signed(made.of_norms))
    return f"{text} {norms}"
