"""The values of metrics in a linearized pass."""

from typing import Any

from torch import Tensor

from attnviz.attribution.linearized_pass import (
    NO_LAYER,
    LinearizedPass,
    added_row,
    call_of,
    check_place,
    check_scores,
    key_count,
    of_head,
    query_weights,
    score_factor,
    values_of_head,
)
from attnviz.attribution.metrics import Activation, CarriedValue, Logit, LogitDifference, Metric, Score
from attnviz.base.formatting import enumeration
from attnviz.base.language import N_, value_error
from attnviz.tracing.call import MASKED
from attnviz.tracing.linearized_run import LinearizedRun
from attnviz.tracing.read_positions import NO_POSITION, read_position
from attnviz.tracing.residual_writer import ResidualWriter

LOGITS = ("logits", "prediction_logits")  # of a head that predicts tokens beside another one, as BERT has
NO_TOKEN = N_("There is no token {index}: there are {count}, counted from 0.")


def metric_value(metric: Metric, linearized: LinearizedPass, ran: tuple[Any, LinearizedRun]) -> tuple[Tensor, float]:
    """Returns the value of a metric in a run, and what a bias of positions adds to it; what is held is that of the
    pass."""
    output, run = ran
    match metric:
        case Logit(token, position):
            return _of_token(logits_at(linearized, output, position), token), 0.0
        case LogitDifference(token, other, position):
            logits = logits_at(linearized, output, position)
            return _of_token(logits, token) - (_mean(logits) if other == "mean" else _of_token(logits, other)), 0.0
        case Score(layer, head, query, key, over):
            heads = linearized.heads_of(layer, head, query)
            for index in (key, over):
                if isinstance(index, int):
                    check_place(NO_POSITION, index, key_count(heads))
            return _score(metric, heads, run.heads[layer])
        case CarriedValue(layer, head, position, source, direction):
            heads = linearized.heads_of(layer, head, position)
            check_place(NO_POSITION, source, key_count(heads))
            weight = query_weights(heads, head, position)[source]
            return weight * (values_of_head(run.heads[layer], head)[source] @ direction), 0.0
        case Activation(layer, position, direction):
            states = getattr(output, "hidden_states", None) or getattr(output, "decoder_hidden_states", None)
            if states is None:
                raise value_error(
                    "This model does not return its hidden states. Give output_hidden_states=True with the batch."
                )
            check_place(NO_LAYER, layer, len(states))
            position = read_position(position, linearized.read(states[layer].shape[1]))
            return states[layer][0, position] @ direction, 0.0


def logits_at(linearized: LinearizedPass, output: Any, position: int) -> Tensor:
    """Returns the logits at a position, or of the whole example. Raises ValueError if there are none."""
    logits = known_logits(output)
    if logits.ndim == 3:  # of one example, which may be along either axis
        logits = logits[:, 0] if logits.shape[1] == 1 else logits[0]
    elif logits.ndim < 2 or len(logits) == 1:  # of labels
        return logits.flatten()
    return logits[read_position(position, linearized.read(len(logits)))]


def logits_of(output: Any) -> Tensor | None:
    """Returns the logits of tokens or labels that a model has returned, or None if there are none."""
    named = (getattr(output, name, None) for name in LOGITS)
    logits = output if isinstance(output, Tensor) else next((one for one in named if one is not None), None)
    return logits if isinstance(logits, Tensor) and logits.ndim <= 3 else None


def known_logits(output: Any) -> Tensor:
    """Returns the logits of tokens or labels. Raises ValueError if there are none."""
    if (logits := logits_of(output)) is not None:
        return logits
    if others := [name for name in getattr(output, "keys", list)() if "logits" in name]:
        raise value_error(
            "This model has no logits of tokens or labels, but {names}, which are not measured here. Choose another "
            "model.",
            names=enumeration(others),
        )
    raise value_error(
        "This model has no logits: it has no head that predicts tokens or labels. Choose another model, or another "
        "measure."
    )


def _of_token(logits: Tensor, token: int) -> Tensor:
    check_place(NO_TOKEN, token, len(logits))
    return logits[token]


def _mean(logits: Tensor) -> Tensor:
    """Returns the mean of the logits of tokens that the model can give: it may have ruled some out."""
    return logits[logits.isfinite()].mean()


def _score(metric: Score, fixed: ResidualWriter, current: ResidualWriter) -> tuple[Tensor, float]:
    is_of_key = metric.side == "key"
    query = of_head(call_of(fixed if is_of_key else current).query, fixed, metric.head)[metric.query]
    keys = of_head(call_of(current if is_of_key else fixed).key, fixed, metric.head)
    query, keys = (query.detach(), keys) if is_of_key else (query, keys.detach())
    added = added_row(fixed, metric.head, metric.query)
    check_scores(fixed, metric.head, metric.query, added)
    if min(added[metric.key], added[metric.over] if isinstance(metric.over, int) else 0) <= MASKED:
        raise value_error("The mask forbids this key to the query. Choose another key.")
    key, bias = keys[metric.key], added[metric.key]
    if metric.over == "mean":
        allowed = added > MASKED
        key, bias = key - keys[allowed].mean(0), bias - added[allowed].mean()
    elif metric.over is not None:
        key, bias = key - keys[metric.over], bias - added[metric.over]
    return query @ key * score_factor(fixed), float(bias)
