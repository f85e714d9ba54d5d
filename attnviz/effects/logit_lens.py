"""The logit lens: what a model would say if its stream after each layer were its last one."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from attnviz.attribution.linearized_pass import check_place, read_of_stack
from attnviz.attribution.metric_values import NO_TOKEN, logits_of
from attnviz.base.formatting import grouped
from attnviz.base.language import value_error
from attnviz.models.texts import each_text
from attnviz.results import MeasuredResult, grid_columns
from attnviz.tracing.forward_arguments import check_one_example, example_arguments
from attnviz.tracing.residual_stream import ResidualStream, residual_stream

LIKELIEST = 5  # tokens of each layer and position
MOST_BYTES = 2 << 30  # of the logits of all layers
POSITIONS = 64  # whose logits are computed at once, as the product with the head is slow for a few


@each_text
def logit_lens(
    model: nn.Module, batch: Any, *, most_bytes: int = MOST_BYTES
) -> Float[Tensor, "layers+1 positions vocabulary"]:
    """Returns the logits that the residual stream gives before the first layer, and after each.

    What comes after the last layer runs as the model has it: its final norm, which takes its scale from the stream that
    it gets, and its head, with a transform, a factor or a cap where it has them. Nothing is known of their names: the
    layers are the members of the list of modules in which attention has run, and the model runs again for each state of
    the stream with that in place of what its last layer returns. So the last row has the model's own logits. Of an
    encoder–decoder model, the layers and positions are the decoder's. Layers that end with a norm, as those of BERT,
    give a stream that is normalized already (nostalgebraist 2020, "interpreting GPT: the logit lens"). Logits of
    padding, which the attention mask hides, are NaN.

    `batch` is one example, as the model's tokenizer makes it. Raises ValueError if the model gives no logits of
    positions, or has no list of layers, or if the logits of all layers take more than `most_bytes` of memory: take
    `layer_predictions`, which keeps the likeliest tokens.
    """
    lens = _Lens.of_model(model, batch)
    if (size := lens.own.nbytes * len(lens.stream.states)) > most_bytes:
        raise value_error(
            "The logits of {layers} layers take {size} MB. Give a shorter text, or take layer_predictions.",
            layers=grouped(len(lens.stream.states) - 1),
            size=grouped(size >> 20),
        )
    return lens.at_read(torch.cat([*lens.logits()]))


@dataclass(frozen=True, eq=False)
class LayerPredictions(MeasuredResult):
    """The next tokens that the residual stream predicts before the first layer, and after each."""

    is_normalized: bool  # each layer ends with a norm
    tokens: Int[Tensor, "layers+1 positions likeliest"]  # the likeliest first
    probabilities: Float[Tensor, "layers+1 positions likeliest"]
    entropy: Float[Tensor, "layers+1 positions"]  # in bits
    logit: Float[Tensor, "layers+1 positions"]  # of the chosen token
    probability: Float[Tensor, "layers+1 positions"]  # of the chosen token
    rank: Int[Tensor, "layers+1 positions"]  # of the chosen token: 1 is the likeliest

    def columns(self) -> dict[str, Any]:
        """Returns the numbers of each layer, 0 before the first, and position, with the likeliest token."""
        numbers = {name: getattr(self, name) for name in ("entropy", "logit", "probability", "rank")}
        return grid_columns(("layer", "position"), likeliest=self.tokens[..., 0], **numbers)


@each_text
def layer_predictions(model: nn.Module, batch: Any, token: int = 0, count: int = LIKELIEST) -> LayerPredictions:
    """Returns the `count` likeliest tokens of each layer and position by `logit_lens`, the entropy of all, and the
    numbers of a chosen token; of padding they are NaN, tokens and ranks −1. The logits of one layer are in memory at a
    time.

    Raises ValueError as `logit_lens` does, and if there is no such token.
    """
    lens = _Lens.of_model(model, batch)
    check_place(NO_TOKEN, token, lens.own.shape[-1])
    blocks = [
        _predictions(block, token, count) for logits in lens.logits() for block in logits.flatten(0, 1).split(POSITIONS)
    ]
    shape = len(lens.stream.states), -1
    fields = (lens.at_read(torch.cat(parts).cpu().unflatten(0, shape)) for parts in zip(*blocks, strict=True))
    return LayerPredictions(lens.stream.is_normalized, *fields)


def _predictions(logits: Float[Tensor, "positions vocabulary"], token: int, count: int) -> tuple[Tensor, ...]:
    """Returns the fields of `LayerPredictions` of some positions."""
    probabilities, chosen = logits.double().softmax(-1), logits[:, token]
    likeliest = probabilities.topk(min(count, logits.shape[-1]))
    entropy = torch.special.entr(probabilities).sum(-1) / math.log(2)
    rank = (logits > chosen[:, None]).sum(-1) + 1
    return likeliest.indices, likeliest.values.float(), entropy.float(), chosen, probabilities[:, token].float(), rank


@dataclass(frozen=True, eq=False)
class _Lens:
    """The residual stream of an example, and the logits of the model itself."""

    stream: ResidualStream
    own: Float[Tensor, "positions vocabulary"]
    examples: int  # the axis of examples in logits
    read: Bool[Tensor, " positions"]

    @classmethod
    def of_model(cls, model: nn.Module, batch: Any) -> "_Lens":
        arguments = example_arguments(model, batch)
        check_one_example(arguments)
        stream = residual_stream(model, arguments)
        logits = logits_of(stream.output)
        if logits is None or logits.ndim < 3 or logits.shape[:2].numel() != stream.states[0].shape[:2].numel():
            raise value_error(
                "The logit lens reads logits at each position, and this model gives none. Choose a language model."
            )
        examples = 0 if len(logits) == 1 else 1
        own = logits.squeeze(examples).float()
        return cls(stream, own, examples, read_of_stack(model, arguments, len(own)))

    def at_read(self, numbers: Shaped[Tensor, "states positions *rest"]) -> Shaped[Tensor, "states positions *rest"]:
        """Returns numbers of positions without those of padding, in place: NaN, or −1."""
        numbers[:, ~self.read.to(numbers.device)] = torch.nan if numbers.is_floating_point() else -1
        return numbers

    def logits(self) -> Iterator[Float[Tensor, "states positions vocabulary"]]:
        """Returns the logits of the states, of several at once where they are short; those of the last state are the
        model's own."""
        states, count = self.stream.states[:-1], max(1, POSITIONS // len(self.own))
        for start in range(0, len(states), count):
            several = states[start : start + count]
            try:
                yield self._logits(several)
            except RuntimeError:  # of a model that needs as many examples as it was called with
                if len(several) == 1:
                    raise
                yield torch.cat([self._logits([state]) for state in several])
        yield self.own[None]

    def _logits(self, states: Sequence[Tensor]) -> Tensor:
        output = self.stream.output_of(torch.cat([*states], 0 if len(states[0]) == 1 else 1))
        logits = logits_of(output)
        assert logits is not None  # as it gave some before
        return logits.movedim(self.examples, 0).float()
