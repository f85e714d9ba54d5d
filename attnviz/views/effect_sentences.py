"""Effects in sentences."""

from attnviz.effects.metrics import KL, Cosine, EffectMetric, Logit, LogitDifference, Loss, Probability
from attnviz.figures.shares import signed
from attnviz.formatting import fixed, number
from attnviz.language import _
from attnviz.state.effects import EffectsState
from attnviz.views.why_answer import plain_word


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
            return _("the KL divergence of what is said from what is said now, in bits")
        case Loss(first):
            word = plain_word(run.predicting[first - 1])
            return _("the loss of the text after “{word}”, in bits a token", word=word)
    return _("the cosine of the text’s vector with that which it has now")


def measure_text(metric: EffectMetric, value: float) -> str:
    """Returns a value of a measure."""
    return number(value) if isinstance(metric, Probability | KL | Cosine) else fixed(value)


def measure_sentence(state: EffectsState, own: float) -> str:
    """Returns the measure where nothing is taken away."""
    name = measure_name(state)
    if isinstance(state.metric, KL | Cosine):
        return _("Measured is {measure}: {value} where nothing is taken away.", measure=name,
                 value=measure_text(state.metric, own))  # fmt: skip
    return _("Now {measure} is {value}.", measure=name, value=measure_text(state.metric, own))


def effect_sentence(name: str, effect: float, estimated: bool = False) -> str:
    """Returns what a measure changes by without a part of the model."""
    if estimated:
        return _("{name}: about {effect}, estimated", name=name, effect=signed(effect))
    return _("{name}: {effect}", name=name, effect=signed(effect))


def _token(state: EffectsState, token: int | str | None) -> str:
    if isinstance(token, int):
        return _("“{word}”", word=state.run.token_text(token))
    return _("the average token") if token else ""
