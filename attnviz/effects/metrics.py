"""What an effect is measured by: a number for each example of a batch that a model has read."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from attnviz.attribution.linearized_pass import check_place, read_of_stack
from attnviz.attribution.metric_values import NO_TOKEN, known_logits
from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.base.formatting import short_repr
from attnviz.base.language import value_error
from attnviz.tracing.forward_arguments import ForwardArguments, forward_parameters
from attnviz.tracing.optional_transformers import is_encoder_decoder
from attnviz.tracing.read_positions import read_position

BITS = 1 / math.log(2)  # in a nat
LOSS_TOKENS = 64  # whose losses are computed at once


@dataclass(frozen=True)
class Probability:
    """The probability of a token at a position; of a label, where the output has no positions."""

    token: int
    position: int = -1


@dataclass(frozen=True)
class Loss:
    """The mean of −log₂ p of the tokens from `first` to `last`, each from those before it, in bits; without `last`, to
    the end of the text. Padding is not among them, and predicts none."""

    first: int = 1
    last: int | None = None


@dataclass(frozen=True)
class KL:
    """The Kullback–Leibler divergence KL(before ‖ after) of the distribution of the next token, or of labels, in bits
    (Kullback & Leibler 1951, "On Information and Sufficiency"); 0 where nothing is changed."""

    position: int = -1


@dataclass(frozen=True)
class Cosine:
    """The cosine of a text's vector and the vector that it has where nothing is changed, where it is 1: the mean of the
    last hidden states that are read, or the first of them."""

    pooling: Literal["mean", "first"] = "mean"


# One's own is a function of what the model returns and of its arguments by name, to a number for each example.
MetricFunction: TypeAlias = Callable[[Any, Mapping[str, Any]], Tensor]
NamedMetric: TypeAlias = Logit | LogitDifference | Probability | Loss | KL | Cosine
EffectMetric: TypeAlias = NamedMetric | MetricFunction


@dataclass(eq=False)
class Measurement:
    """A metric of what a model returns for a batch of several examples of the same length.

    `reference` is what KL and Cosine compare with, as `compared` of another run gives it; by default it is that of the
    last example. Of several texts, each has the metric of its own `rows` of the output.
    """

    metric: EffectMetric
    model: nn.Module
    arguments: ForwardArguments
    reference: Tensor | None = None
    rows: slice = field(default_factory=lambda: slice(None))

    def __post_init__(self) -> None:
        if not isinstance(self.metric, NamedMetric) and not callable(self.metric):
            raise value_error(
                "A metric is a named one, such as LogitDifference(token, other), or a function of the output and the "
                "batch; this is {metric}. Several are measured one by one.",
                metric=short_repr(self.metric),
            )

    @property
    def options(self) -> dict[str, int]:
        """Arguments of the model by which it computes no more logits than the metric reads."""
        is_known = not callable(self.metric) and has_last_logits(self.model, self.arguments)  # one's own may read any
        return {"logits_to_keep": self.positions_kept} if is_known else {}

    @property
    def positions_kept(self) -> int:
        """The number of last positions whose logits the metric reads; of one's own metric it is not known."""
        assert not callable(self.metric)
        tokens = self._ids.shape[-1] if self._ids is not None else 1
        match self.metric:
            case Loss(first):
                return max(1, tokens - first + 1)
            case Cosine():
                return 1
            case metric:
                return -self._place(metric.position, tokens)

    @property
    def _ids(self) -> Tensor | None:
        """The token ids of the text that the model predicts."""
        return predicted_ids(self.arguments)

    def values(self, output: Any) -> Float[Tensor, " examples"]:
        """Returns a named metric for each example of an output. Raises ValueError if the output does not have what it
        is of."""
        assert not callable(self.metric)
        match self.metric:
            case Loss(first, last):
                return self._losses(output, first, last)
            case KL():
                return kl_divergences(*self._before_and_after(output))
            case Cosine():
                before, after = self._before_and_after(output)
                return torch.cosine_similarity(after, before, dim=-1)
        logits = self._logits(output, self.metric.position)
        match self.metric:
            case Probability(token):
                return self._of_token(logits.softmax(-1), token)
            case Logit(token):
                return self._of_token(logits, token)
            case LogitDifference(token, other):
                if other == "mean":
                    finite = logits.isfinite()
                    means = logits.where(finite, 0).sum(-1) / finite.sum(-1)
                else:
                    means = self._of_token(logits, other)
                return self._of_token(logits, token) - means

    def compared(self, output: Any) -> Float[Tensor, "examples width"] | None:
        """Returns what KL and Cosine compare: logarithms of probabilities, or vectors; None for another metric."""
        match self.metric:
            case KL(position):
                return self._logits(output, position).log_softmax(-1)
            case Cosine(pooling):
                return self._vectors(output, pooling)
        return None

    def _before_and_after(self, output: Any) -> tuple[Tensor, Tensor]:
        after = self.compared(output)
        assert after is not None
        return after[-1:] if self.reference is None else self.reference, after

    def _of_token(self, logits: Tensor, token: int) -> Tensor:
        check_place(NO_TOKEN, token, logits.shape[-1])
        return logits[:, token]

    def _all_logits(self, output: Any) -> Tensor:
        logits = known_logits(output)
        if logits.ndim < 2:
            raise value_error("The logits of this model have no axis of examples. Choose another model.")
        return logits[self.rows]

    def _logits(self, output: Any, position: int) -> Tensor:
        logits = self._all_logits(output)
        if logits.ndim == 2:
            return logits.double()
        tokens = self._ids.shape[-1] if self._ids is not None else 0
        return logits[:, self._place(position, max(tokens, logits.shape[1]))].double()

    def _read(self, count: int) -> Tensor:
        """Returns which of the positions that the model predicts at are read."""
        return read_of_stack(self.model, self.arguments, count)

    def _place(self, position: int, count: int) -> int:
        """Returns a position that is read, counted from the end, which all logits have that are kept."""
        return read_position(position, self._read(count)) - count

    def _losses(self, output: Any, first: int, last: int | None) -> Tensor:
        logits, ids = self._all_logits(output), self._ids
        if ids is None or logits.ndim != 3 or not _can_generate(self.model):
            raise value_error("This model predicts no next tokens, so it has no loss of a text. Choose another metric.")
        if is_encoder_decoder(self.model) and "decoder_input_ids" not in self.arguments.by_name:
            raise value_error("The loss is of what the decoder has written. Give decoder_input_ids with the batch.")
        count = ids.shape[-1]
        last = count - 1 if last is None else last
        if not 1 <= first <= last < count:
            raise value_error(
                "The loss is of tokens from {first} to {last}; of this text it may be from 1 to {count}.",
                first=first,
                last=last,
                count=count - 1,
            )
        read = self._read(count).to(logits.device)
        predicted = (read[first : last + 1] & read[first - 1 : last]).nonzero().flatten() + first
        if not len(predicted):
            raise value_error("All these tokens are padding, or follow it, so there is no loss of them. Choose others.")
        ids, losses = ids.to(logits.device)[-1], []
        for part in predicted.split(LOSS_TOKENS):
            predicting = logits[:, part - 1 - count].double().flatten(0, 1)
            of_rows = cross_entropy(predicting, ids[part].repeat(len(logits)), reduction="none")
            losses.append(of_rows.unflatten(0, (len(logits), -1)))
        return torch.cat(losses, 1).mean(-1) * BITS

    def _vectors(self, output: Any, pooling: str) -> Tensor:
        states = getattr(output, "last_hidden_state", None)
        if states is None:
            raise value_error(
                "This model returns no hidden states as its output. Choose another metric than the cosine."
            )
        states = states[self.rows].double()[:, self._read(states.shape[1]).to(states.device)]
        return states[:, 0] if pooling == "first" else states.mean(1)


def predicted_ids(arguments: ForwardArguments) -> Tensor | None:
    """Returns the token ids of the text that a model predicts; None where it is called with none."""
    ids = arguments.by_name.get("decoder_input_ids", arguments.by_name.get("input_ids"))
    if ids is None:
        ids = next((value for value in arguments.args if isinstance(value, Tensor)), None)
    return ids if isinstance(ids, Tensor) and not ids.is_floating_point() else None


def has_last_logits(model: nn.Module, arguments: ForwardArguments) -> bool:
    """Returns whether a model computes the logits of some last positions alone, if it is called so."""
    return predicted_ids(arguments) is not None and "logits_to_keep" in forward_parameters(model)


def measured(
    measurements: Sequence[Measurement], output: Any, arguments: ForwardArguments
) -> Float[Tensor, "texts rows"]:
    """Returns the metric of each of several texts in the rows of an output for `arguments`; one's own metric is
    computed once."""
    functions = {id(each.metric): each.metric for each in measurements if callable(each.metric)}
    of_functions = {key: _of_examples(metric(output, arguments.by_name)) for key, metric in functions.items()}
    return torch.stack(
        [
            of_functions[id(each.metric)][each.rows] if id(each.metric) in functions else each.values(output)
            for each in measurements
        ]
    )


def kept_logits(measurements: Sequence[Measurement]) -> dict[str, int]:
    """Returns arguments of the model by which it computes no more logits than metrics read."""
    options = [each.options for each in measurements]
    return {"logits_to_keep": max(each["logits_to_keep"] for each in options)} if all(options) else {}


def _of_examples(values: Any) -> Float[Tensor, " examples"]:
    """Returns the values of one's own metric. Raises ValueError if they are not one number for each example."""
    if not isinstance(values, Tensor) or values.ndim != 1 or values.is_complex():
        got = f"a tensor of shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise value_error(
            "A metric returns a tensor with one number for each example of the batch; this one returns {got}.", got=got
        )
    return values.double()


def kl_divergences(
    before: Float[Tensor, "*examples numbers"], after: Float[Tensor, "*examples numbers"]
) -> Float[Tensor, " *examples"]:
    """Returns Σ p · log₂(p / q) by the logarithms of p and q, in bits; what p rules out adds nothing."""
    return torch.where(before.isneginf(), 0, before.exp() * (before - after)).sum(-1) * BITS


def _can_generate(model: nn.Module) -> bool:
    can_generate = getattr(model, "can_generate", None)
    return can_generate is None or bool(can_generate())
