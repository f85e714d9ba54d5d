"""A pass of a model whose layers and tokens have names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from attnviz.attribution import linearized_pass
from attnviz.attribution.attribution import Attribution, attribution_of
from attnviz.attribution.float32_weights import in_float32
from attnviz.attribution.linearized_pass import OTHER_INPUTS, LinearizedPass, key_count, query_weights
from attnviz.attribution.metric_values import known_logits, logits_at, logits_of
from attnviz.attribution.metrics import Metric, Score
from attnviz.attribution.trail import TrailStep
from attnviz.base.cached_property import cached_property
from attnviz.base.text import shorten_token
from attnviz.base.token_texts import NUMBER, TokenTexts, texts_of_batch, token_names
from attnviz.base.turns import turn
from attnviz.layer import LayerId, layer_names, layer_numbers
from attnviz.tracing.forward_arguments import example_arguments
from attnviz.tracing.layer_naming import LayerNames, named_modules
from attnviz.tracing.optional_transformers import is_encoder_decoder
from attnviz.tracing.read_positions import read_position

DECODER = "decoder"
MOST_BYTES = 128 << 20  # of a pass in the app, as estimated, and of its sums that are kept


@dataclass(eq=False)
class NamedPass:
    """A pass of a model over an example, with the names of its layers and tokens, and the sums that have been computed.

    Positions are those of a layer's own tokens: an encoder and a decoder have their own. `source` are the names of the
    tokens of a text, `target` those of a decoder that has an encoder.
    """

    linearized: LinearizedPass
    source: tuple[str, ...] = ()
    target: tuple[str, ...] | None = None
    opening_position: int = -1  # of the logits that are asked for first
    names: Callable[[Sequence[int]], Sequence[str]] = lambda ids: [f"{NUMBER}{id}" for id in ids]  # of token ids
    work: int = 0  # steps of a forward pass
    _sums: dict[tuple[object, tuple[TrailStep, ...]], Attribution] = field(default_factory=dict)

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers, which are all different."""
        return layer_names(self.ids)

    @cached_property
    def ids(self) -> tuple[LayerId, ...]:
        """The ids of the layers."""
        _, run = self.linearized.ran
        return tuple(run.names.layer_id(writer.module) for writer in run.heads)

    @cached_property
    def layer_numbers(self) -> tuple[str, ...]:
        """The numbers of the layers, or their names where the numbers do not tell them apart."""
        return layer_numbers(self.ids)

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return tuple(writer.value.shape[2] for writer in self.linearized.ran[1].heads)

    def layers_of_mlps(self, attribution: Attribution) -> tuple[int, ...]:
        """Returns the layer with whose attention each MLP of a sum is."""
        return self._layers_of(attribution.mlp_layers)

    @property
    def mlp_layers(self) -> tuple[int, ...]:
        """The layer with whose attention each MLP is."""
        run = self.linearized.ran[1]
        return self._layers_of([run.names.layer_id(writer.module) for writer in run.mlps])

    def _layers_of(self, mlps: Sequence[LayerId]) -> tuple[int, ...]:
        places = [(layer.stack, layer.index) for layer in self.ids]
        layers = []
        for number, mlp in enumerate(mlps):
            own = [i for i, place in enumerate(places) if place == (mlp.stack, mlp.index)]
            layers.append(own[-1] if own else min(number, len(places) - 1))
        return tuple(layers)

    @cached_property
    def sequences(self) -> dict[str, tuple[str, ...]]:
        """The tokens of each sequence that the model reads, the encoder's before the decoder's; numbers where they have
        no names."""
        _, run = self.linearized.ran
        counts: dict[str, int] = {}
        for writer in (*run.heads, *run.mlps):  # an embedding may be one of distances
            name = self._sequence(writer.stack)
            counts[name] = max(counts.get(name, 0), writer.positions)
        return {name: _fitting(self._tokens(name), count) for name, count in counts.items()}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The tokens of all sequences, one after the other."""
        return tuple(token for tokens in self.sequences.values() for token in tokens)

    def first_column(self, stack: str) -> int:
        """Returns the place among `columns` of the first token of a stack of layers."""
        before = 0
        for name, tokens in self.sequences.items():
            if name == self._sequence(stack):
                return before
            before += len(tokens)
        return 0

    def queries(self, layer: int) -> tuple[str, ...]:
        """Returns the tokens at whose positions the heads of a layer write."""
        count = self.linearized.ran[1].heads[layer].positions
        return _fitting(self._tokens(self._sequence(self.ids[layer].stack)), count)

    def keys(self, layer: int) -> tuple[str, ...]:
        """Returns the tokens that the heads of a layer may look at. Raises ValueError if its keys are not known."""
        writer = self.linearized.ran[1].heads[layer]
        name = "" if self.ids[layer].cross else self._sequence(self.ids[layer].stack)
        return _fitting(self._tokens(name), key_count(writer))

    def weights(self, layer: int, head: int, position: int) -> Tensor:
        """Returns the weights of a head for a query, (keys,). Raises ValueError if they are not known."""
        return query_weights(self.linearized.heads_of(layer, head, position), head, position)

    @property
    def predicting(self) -> tuple[str, ...]:
        """The tokens at each of which the model gives logits."""
        name = DECODER if DECODER in self.sequences else next(iter(self.sequences))
        return self.sequences[name]

    @property
    def predicts_next(self) -> bool:
        """Whether logits at a token are those of the token after it."""
        can_generate = getattr(self.linearized.model, "can_generate", None)
        return can_generate is not None and bool(can_generate())

    @cached_property
    def labels(self) -> list[str]:
        """The names of the labels of a classifier, of texts or of tokens; none of a model that predicts tokens."""
        config: Any = getattr(self.linearized.model, "config", None)
        names, count = getattr(config, "id2label", None) or {}, known_logits(self.linearized.ran[0]).shape[-1]
        return [shorten_token(str(names.get(i, i))) for i in range(count)] if len(names) == count else []

    @property
    def names_labels(self) -> bool:
        """Whether the logits are those of labels of the whole example, not of something at each token."""
        output = self.linearized.ran[0]
        logits = logits_of(output)
        return logits is not None and logits.ndim < 3

    def logits(self, position: int) -> Tensor:
        """Returns the logits of the labels, or of the token after a position. Raises ValueError if there are none."""
        return logits_at(self.linearized, self.linearized.ran[0], position).detach()

    def without_padding(self, metric: Metric) -> Metric:
        """Returns a metric whose position is that of a token, where the last positions are padding."""
        if isinstance(metric, Score) or metric.position >= 0 or self.names_labels:
            return metric
        read = self.linearized.read(len(self.predicting))
        return metric if read[-1] else replace(metric, position=read_position(metric.position, read))

    def token_text(self, token: int) -> str:
        """Returns a token, or a label, as sentences have it."""
        if self.labels:
            return self.labels[token]
        return shorten_token(self.names([token])[0]).strip(" ") or f"{NUMBER}{token}"

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

    def sums(self, metric: Metric, trail: Sequence[TrailStep]) -> tuple[Attribution, ...]:
        """Returns the sums from a number to the end of a trail. Raises ValueError if one of them is not a sum."""
        return tuple(self.attribution(metric, trail[:count]) for count in range(len(trail) + 1))

    @cached_property
    def _most_sums(self) -> int:
        _, run = self.linearized.ran
        size = sum(writer.value.nbytes for writer in (*run.embeddings, *run.heads, *run.mlps))  # as of its gradients
        return max(2, MOST_BYTES // size)

    def _sequence(self, stack: str) -> str:
        """Returns the sequence that a stack of layers reads: empty for a text."""
        return stack if stack in OTHER_INPUTS or (stack == DECODER and self.target is not None) else ""

    def _tokens(self, sequence: str) -> tuple[str, ...]:
        return {"": self.source, DECODER: self.target or ()}.get(sequence, ())


def named_pass(
    model: nn.Module,
    batch: Any,
    tokens: TokenTexts = (),
    decoder_tokens: TokenTexts = (),
    most_bytes: int = linearized_pass.MOST_BYTES,
) -> NamedPass:
    """Returns the pass of a model over a batch, as `attribute` takes it. `tokens` and `decoder_tokens` are texts, or
    what makes texts of a list of token ids: a function or the model's tokenizer. Raises ValueError as `attribute`
    does."""
    exact = in_float32(model)
    arguments = example_arguments(exact, batch)
    has_two = is_encoder_decoder(exact)
    tokens = tokens or texts_of_batch(batch, 0)
    names = LayerNames.from_arguments(named_modules(exact), has_two, arguments, 0, tokens, decoder_tokens)
    linearized = LinearizedPass(exact, arguments, most_bytes=most_bytes)
    run = NamedPass(linearized, names.source.tokens, names.target.tokens if has_two else None)
    if callable(tokens) or hasattr(tokens, "convert_ids_to_tokens"):
        run.names = lambda ids: token_names(tokens, ids)
    with torch.no_grad():
        _ = run.linearized.ran
    return run


def _fitting(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    return tokens if len(tokens) == count else tuple(map(str, range(count)))
