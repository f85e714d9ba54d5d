"""A text that a model has read, whose numbers can be written as sums."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from attnviz.attribution.attribution import Attribution, attribution_of
from attnviz.attribution.linearized_pass import LinearizedPass, call_of, in_float32, query_weights
from attnviz.attribution.metrics import Metric
from attnviz.attribution.trail import TrailStep
from attnviz.language import value_error
from attnviz.layer import LayerId
from attnviz.text import shorten_token
from attnviz.tracing.forward_arguments import forward_arguments
from attnviz.turns import turn

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel, ModelInputs  # with huggingface_hub

DECODER = "decoder"
MOST_BYTES = 128 << 20  # of the numbers of a text, and of its sums that are kept
NUMBER = "#"  # before the id of a token that cannot be typed
NUMBERED = re.compile(rf"{NUMBER}[0-9]{{1,9}}")
_float32: "WeakKeyDictionary[LoadedModel, nn.Module]" = WeakKeyDictionary()


@dataclass(eq=False)
class TextAttribution:
    """A forward pass of a model over a text, with the names of its layers and tokens, and the sums that were asked for.

    Positions are those of a layer's own tokens: an encoder and a decoder have their own.
    """

    model: "LoadedModel"
    inputs: "ModelInputs"
    linearized: LinearizedPass
    work: int  # steps of a forward pass
    _sums: dict[tuple[object, tuple[TrailStep, ...]], Attribution] = field(default_factory=dict)

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers, which are all different."""
        _, run = self.linearized.ran
        names = [str(run.names.layer_id(writer.module)) for writer in run.heads]
        return tuple(name if names.count(name) == 1 else f"{name} · {i}" for i, name in enumerate(names))

    @cached_property
    def ids(self) -> tuple[LayerId, ...]:
        """The ids of the layers."""
        _, run = self.linearized.ran
        return tuple(run.names.layer_id(writer.module) for writer in run.heads)

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return tuple(writer.value.shape[2] for writer in self.linearized.ran[1].heads)

    @cached_property
    def mlp_layers(self) -> tuple[int, ...]:
        """The layer with whose attention each MLP is."""
        _, run = self.linearized.ran
        places = [(one.stack, one.index) for one in self.ids]
        layers = []
        for number, mlp in enumerate(run.mlps):
            name = run.names.layer_id(mlp.module)
            own = [i for i, place in enumerate(places) if place == (name.stack, name.index)]
            layers.append(own[-1] if own else min(number, len(places) - 1))
        return tuple(layers)

    def stack_tokens(self, stack: str) -> tuple[str, ...]:
        """Returns the tokens of a stack of layers."""
        is_target = stack == DECODER and self.inputs.target is not None
        return (self.inputs.target if is_target else self.inputs.source).tokens  # type: ignore[union-attr]

    def queries(self, layer: int) -> tuple[str, ...]:
        """Returns the tokens at whose positions the heads of a layer write."""
        count = self.linearized.ran[1].heads[layer].positions
        return _fitting(self.stack_tokens(self.ids[layer].stack), count)

    def keys(self, layer: int) -> tuple[str, ...]:
        """Returns the tokens that the heads of a layer may look at. Raises ValueError if its keys are not known."""
        writer = self.linearized.ran[1].heads[layer]
        stack = "encoder" if self.ids[layer].cross else self.ids[layer].stack
        return _fitting(self.stack_tokens(stack), call_of(writer).lengths[1])

    def weights(self, layer: int, head: int, position: int) -> Tensor:
        """Returns the weights of a head for a query, (keys,). Raises ValueError if they are not known."""
        return query_weights(self.linearized.heads_of(layer, head, position), head, position)

    @property
    def predicting(self) -> tuple[str, ...]:
        """The tokens after each of which the model gives a next one."""
        target = self.inputs.target
        return self.inputs.source.tokens if target is None else target.tokens

    @property
    def names_labels(self) -> bool:
        """Whether the logits are those of labels, not of tokens."""
        return self.model.outputs == "labels"

    def logits(self, position: int) -> Tensor:
        """Returns the logits of the labels, or of the token after a position."""
        logits = self.linearized.ran[0].logits.detach()[0]
        return logits if self.names_labels else logits[position]

    def name(self, token: int) -> str:
        """Returns the text that `token_id` knows a token, or a label, by: a word, or the number of the token."""
        if self.names_labels:
            return self.model.labels[token]
        text = str(self.model.tokenizer.decode([token]))
        word = text.strip(" ")
        return word if word and self._typed(word) == [token] else f"{NUMBER}{token}"

    def token_text(self, token: int) -> str:
        """Returns a token, or a label, as sentences have it."""
        if self.names_labels:
            return self.model.labels[token]
        return shorten_token(str(self.model.tokenizer.decode([token]))).strip(" ") or f"{NUMBER}{token}"

    def token_id(self, name: str) -> int:
        """Returns the token, or the label, of a name; the first token of a word that has several. Raises ValueError if
        there is none."""
        if self.names_labels:
            if name in self.model.labels:
                return self.model.labels.index(name)
            raise value_error("{name} is not a label of this model. Choose one of the menu.", name=name)
        if NUMBERED.fullmatch(name):
            return int(name[1:])
        ids = self._typed(name)
        if not ids:
            raise value_error("The model has no token for “{name}”. Type another word.", name=name)
        return ids[0]

    def likeliest(self, position: int, count: int) -> list[tuple[int, float]]:
        """Returns the likeliest tokens after a position, or labels, with their probabilities."""
        probabilities = self.logits(position).softmax(-1).topk(min(count, len(self.logits(position))))
        return list(zip(probabilities.indices.tolist(), probabilities.values.tolist(), strict=True))

    def attribution(self, metric: Metric, trail: Sequence[TrailStep] = ()) -> Attribution:
        """Returns a number as a sum, or the last of the sums that the steps of a trail open. Raises ValueError if one
        of them is not a sum."""
        key = metric, tuple(trail)
        if key not in self._sums:
            before = self.attribution(metric, trail[:-1]) if trail else None
            with turn(self.work):
                made = attribution_of(self.linearized, metric) if before is None else trail[-1].attribution(before)
            self._sums[key] = made
            while len(self._sums) > self._most_sums:
                del self._sums[next(iter(self._sums))]
        return self._sums[key]

    @cached_property
    def _most_sums(self) -> int:
        _, run = self.linearized.ran
        size = sum(writer.value.nbytes for writer in (*run.embeddings, *run.heads, *run.mlps))  # as of its gradients
        return max(2, MOST_BYTES // size)

    def _typed(self, word: str) -> list[int]:
        try:
            return self.model.text_inputs.word_ids(word)
        except ValueError:  # of a tokenizer that has no token for it
            return []


def read_text(model: "LoadedModel", text: str, written: str | None = None, work: int = 0) -> TextAttribution:
    """Returns the pass of a model over a text; `written` is what a decoder has written, by default what it writes by
    itself, and `work` the number of steps of a forward pass. Raises ValueError if the model cannot read the text, or
    if the pass takes too much memory."""
    with torch.no_grad():
        inputs = model.encode(text, written)
    exact = _float32.get(model) or _float32.setdefault(model, in_float32(model.model))
    linearized = LinearizedPass(exact, forward_arguments(exact, (inputs.batch,), {}), most_bytes=MOST_BYTES)
    with model.refusals():
        _ = linearized.without_writers
    return TextAttribution(model, inputs, linearized, work)


def _fitting(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    return tokens if len(tokens) == count else tuple(map(str, range(count)))
