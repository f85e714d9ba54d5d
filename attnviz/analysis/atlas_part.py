"""What each head of a model does over many texts: its metrics, examples of where it looks, the tokens that it looks at
and from, and the heads that behave alike. Texts are read in parts that can be merged, so that memory is bounded and
parts may be computed anywhere.

A weight is ordinary where the key is not the first token, no special one, not padding and not the query itself: what a
head gives to those is in its metrics.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.analysis.atlas_checks import are_examples, are_sums, has_shapes
from attnviz.analysis.atlas_examples import KINDS, RANDOM, WEIGHT, WRITTEN, Examples
from attnviz.analysis.atlas_mlps import MlpCounts, MlpReader, mlp_places
from attnviz.analysis.head_metrics import HEAD_METRICS, HeadMetric, KeyTokens, QueryBlock, metric_values, summed
from attnviz.attribution.float32_weights import in_float32
from attnviz.attribution.linearized_pass import LinearizedPass
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import value_error
from attnviz.effects.value_norms import output_maps
from attnviz.layer import LayerId
from attnviz.models.text_inputs import Tokens
from attnviz.models.texts import Texts
from attnviz.results import MeasuredResult, checked
from attnviz.tracing.changed_run import LayerChange, run_changed
from attnviz.tracing.forward_arguments import ForwardArguments, example_arguments, forward_parameters
from attnviz.tracing.run_changes import LayerHeads, ModulePlace, changed_modules

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with transformers

SAMPLED = 1_024  # texts whose values are kept
COMPARED_ROWS = 64  # of a text, by which heads are compared
LOOKED = ("looked_at", "looked_from")
# Of parts, which can be merged with others.
DTYPES = (
    dict.fromkeys(("values", *LOOKED, "alike"), torch.float32)
    | dict.fromkeys(("sums", "squares"), torch.float64)
    | dict.fromkeys(("texts", "counts", "tokens", "occurrences", "compared", "lengths"), torch.int64)
)


@dataclass(frozen=True, eq=False)
class AtlasPart(MeasuredResult):
    """What is counted over some texts. Heads of all layers follow each other, `layers` has the layer of each."""

    layers: tuple[LayerId, ...]  # of each head
    heads: tuple[int, ...]  # the number of each head in its layer
    texts: Int[Tensor, " sampled"]  # the numbers of the texts whose values are kept
    values: Float[Tensor, "sampled metrics heads"]
    counts: Int[Tensor, "metrics heads"]  # texts in which a metric is defined
    sums: Float[Tensor, "metrics heads"]
    squares: Float[Tensor, "metrics heads"]
    examples: dict[str, Examples]
    tokens: Int[Tensor, " tokens"]  # ids that occur
    occurrences: Int[Tensor, " tokens"]  # wherever they are read
    looked_at: Float[Tensor, "heads tokens"]  # the ordinary weight that a token gets as key
    looked_from: Float[Tensor, "heads tokens"]  # and that it gives as query
    alike: Float[Tensor, "heads heads"]  # the sum over texts of the cosine of ordinary weights
    compared: Int[Tensor, "heads heads"]  # texts in that sum
    lengths: Int[Tensor, "read 3"]  # of each text: its number, its tokens, and those that a decoder has written
    mlps: MlpCounts

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> "AtlasPart":
        """Returns what was saved. Raises TypeError if its parts do not fit each other, or cannot have their numbers."""
        made = cast("AtlasPart", checked(cls, parts))
        heads, metrics, tokens = len(made.heads), len(made.counts), len(made.tokens)
        shapes = {
            "values": (len(made.texts), metrics, heads), "counts": (metrics, heads), "sums": (metrics, heads),
            "squares": (metrics, heads), "occurrences": (tokens,), "looked_at": (heads, tokens),
            "looked_from": (heads, tokens), "alike": (heads, heads), "compared": (heads, heads),
            "lengths": (len(made.lengths), 3),
        }  # fmt: skip
        if not (
            has_shapes(made, shapes)
            and all(one.dtype == DTYPES.get(name) for name, one in vars(made).items() if isinstance(one, Tensor))
            and len(made.layers) == heads
            and all(isinstance(layer, LayerId) for layer in made.layers)
            and are_examples(made.examples, KINDS, heads)
            and made.mlps.is_possible(len(made.texts))
        ):
            raise TypeError("the parts of an atlas's part do not fit each other")
        sums = [getattr(made, name) for name in ("counts", "squares", "occurrences", *LOOKED, "compared")]
        if not (
            are_sums(*sums, made.texts, made.tokens, made.lengths)
            and bool(made.sums.isfinite().all() and made.alike.isfinite().all() and not made.values.isinf().any())
            and bool((made.tokens.diff() > 0).all() and (made.texts.sort().values.diff() > 0).all())
        ):
            raise TypeError("a part of an atlas cannot have these numbers")
        return made

    def is_of(self, first: int, count: int, metrics: int) -> bool:
        """Returns whether it is of at most `count` texts whose numbers begin at `first`, and has so many metrics."""
        last = first + count
        examples = [*self.examples.values(), *self.mlps.examples.values()]
        places = [one.places[..., 0][one.order > -torch.inf] for one in examples]
        numbers = torch.cat([self.texts, self.lengths[:, 0], *places])
        return len(self.counts) == metrics and bool(((numbers >= first) & (numbers < last)).all())

    def _heads_read(self) -> tuple[object, ...]:
        return self.layers, self.heads, [one.values.shape[2] for one in self.examples.values()], self.mlps.layers

    @classmethod
    def merged(cls, parts: Sequence["AtlasPart"]) -> "AtlasPart":
        """Returns what is counted over the texts of all parts. Raises ValueError if their heads are not the same."""
        first = parts[0]
        if any(part._heads_read() != first._heads_read() for part in parts):
            raise value_error("These texts are read by different heads. Give texts that the model reads in one way.")
        tokens = torch.cat([part.tokens for part in parts]).unique()
        columns = [torch.searchsorted(tokens, part.tokens) for part in parts]

        def by_token(name: str) -> Tensor:
            whole = torch.zeros(*getattr(first, name).shape[:-1], len(tokens), dtype=getattr(first, name).dtype)
            for part, column in zip(parts, columns, strict=True):
                whole.index_add_(-1, column, getattr(part, name))
            return whole

        def total(name: str) -> Tensor:
            return torch.stack([getattr(part, name) for part in parts]).sum(0)

        return cls(
            first.layers,
            first.heads,
            torch.cat([part.texts for part in parts])[:SAMPLED],
            torch.cat([part.values for part in parts])[:SAMPLED],
            total("counts"),
            total("sums"),
            total("squares"),
            {kind: Examples.merged([part.examples[kind] for part in parts]) for kind in first.examples},
            tokens,
            by_token("occurrences"),
            by_token("looked_at"),
            by_token("looked_from"),
            total("alike"),
            total("compared"),
            torch.cat([part.lengths for part in parts]),
            MlpCounts.merged([part.mlps for part in parts], SAMPLED),
        )


@dataclass(frozen=True, eq=False)
class CountedTokens:
    """The tokens of one axis of the maps of several texts of the same length."""

    ids: Int[Tensor, "texts tokens"]
    special: Bool[Tensor, "texts tokens"]
    read: Bool[Tensor, "texts tokens"]  # all but padding

    @property
    def first(self) -> Int[Tensor, " texts"]:
        """The position of the first token that is read."""
        return self.read.long().argmax(-1)

    @property
    def ordinary(self) -> Bool[Tensor, "texts tokens"]:
        """Which tokens are read, and neither special nor the first."""
        is_first = torch.arange(self.ids.shape[1]) == self.first[:, None]
        return self.read & ~self.special & ~is_first


def read_part(
    model: "LoadedModel",
    texts: Texts,
    first: int = 0,
    *,
    metrics: Sequence[HeadMetric] = HEAD_METRICS,
    seed: int = 0,
    norms: Sequence[Float[Tensor, "heads d_v d_v"] | None] | None = None,
) -> AtlasPart:
    """Returns what is counted over texts, whose numbers begin at `first`.

    A text is read without padding, beside others of the same length. `seed` is that of the random examples, which do
    not depend on the other texts. `norms` are `written_norms`, by default those of the first text. Raises ValueError if
    the model cannot read a text, or for a model without attention.
    """
    exact = in_float32(model.model)
    norms = written_norms(model, texts) if norms is None else norms
    options = {"logits_to_keep": 1} if "logits_to_keep" in forward_parameters(exact) else {}
    places, counted = mlp_places(exact, texts), cast("AtlasPart | None", None)
    for numbers, batch in texts.same_shape():
        end_if_unwanted()
        arguments = example_arguments(exact, batch)
        reader = _Reader(texts, numbers, arguments, first, metrics, seed, norms, places)
        modules = changed_modules(reader.mlps.runs, lambda: len(numbers))  # noqa: B023
        run_changed(exact, arguments.repeated(1, **options), reader.change, lambda _: modules)  # noqa: B023
        part = reader.part()
        counted = part if counted is None else AtlasPart.merged([counted, part])
    assert counted is not None  # there is a text
    return counted


def written_norms(model: "LoadedModel", texts: Texts) -> list[Float[Tensor, "heads d_v d_v"] | None]:
    """Returns, for each layer, the quadratic forms that give the squared norm of what heads write of a value, by
    `output_maps` for the first text; none where the model's outputs are no sums."""
    exact = in_float32(model.model)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            maps = output_maps(LinearizedPass(exact, example_arguments(exact, texts[0])))
        return [None if one is None else torch.einsum("whd,whe->hde", one, one).float() for one in maps]
    except (ValueError, NotImplementedError):
        return []


class _Reader:
    """Counts of one batch of texts of the same length, layer by layer while the model runs."""

    def __init__(
        self,
        texts: Texts,
        numbers: list[int],
        arguments: ForwardArguments,
        first: int,
        metrics: Sequence[HeadMetric],
        seed: int,
        norms: Sequence[Float[Tensor, "heads d_v d_v"] | None],
        places: Sequence[ModulePlace],
    ) -> None:
        self.mlps = MlpReader(places, [first + number for number in numbers], seed, self._ordinary_queries)
        self.layer_ids: dict[int, LayerId] = {}
        self.texts, self.numbers, self.arguments, self.first = texts, numbers, arguments, first
        self.metrics, self.seed, self.norms = metrics, seed, norms
        self.ids: list[LayerId] = []
        self.counts: list[int] = []  # of heads
        self.values: list[Float[Tensor, "texts metrics heads"]] = []
        self.examples: dict[str, list[Examples]] = {kind: [] for kind in KINDS}
        self.looked: list[tuple[Tensor, Tensor, CountedTokens, CountedTokens]] = []
        self.ordinary: list[tuple[object, Float[Tensor, "texts heads cells"]]] = []  # with the kind of the layer
        self._factors: dict[object, list[Tensor | None]] = {}
        self._axes: dict[bool, CountedTokens] = {}

    def change(self, layer: int, heads: int) -> LayerChange:
        """Returns the change of a layer, which changes nothing, and counts its weights."""

        def count_heads(run: LayerHeads) -> None:
            weights = run.attention(run.call(), slice(None))[1]
            self.count(layer, run.id, weights, run.call().value)

        return LayerChange(heads=count_heads, weights=lambda weights: self.count(layer, LayerId(index=layer), weights))

    def count(self, layer: int, id: LayerId, weights: Tensor, values: Tensor | None = None) -> None:
        """Counts the weights (texts, heads, queries, keys) of a layer, and what it writes of its values."""
        if len(weights) != len(self.numbers):
            raise value_error("A layer of this model has several maps for a text, so that they cannot be counted.")
        self.layer_ids[layer] = id
        weights, heads = weights.detach().abs().float(), weights.shape[1]
        keys, queries = self.axis(id.stack != "decoder" or id.cross), self.axis(id.stack != "decoder")
        self.ids += [id] * heads
        self.counts += range(heads)
        self.values.append(self._metrics(id, weights, queries, keys))
        allowed = queries.read[:, :, None] & keys.ordinary[:, None]
        if not id.cross:
            allowed = allowed & ~torch.eye(weights.shape[-1], dtype=torch.bool)
        ordinary = weights * allowed[:, None]
        norms = self._norms(layer, values, heads)
        self._keep(WEIGHT, ordinary, ordinary)
        self._keep(WRITTEN, ordinary * (norms[:, :, None] if norms is not None else 0), ordinary, values)
        self._keep_random(len(self.values), ordinary)
        self.looked.append((ordinary.sum(2), ordinary.sum(3), queries, keys))
        step = max(1, -(-weights.shape[2] // COMPARED_ROWS))
        rows = ordinary[:, :, step - 1 :: step].flatten(2)
        rows = rows / rows.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
        self.ordinary.append(((id.stack, id.cross, rows.shape[2]), rows))

    def axis(self, of_source: bool) -> CountedTokens:
        """Returns the tokens of the source, or of what a decoder has written."""
        if of_source not in self._axes:
            name = "input_ids" if of_source else "decoder_input_ids"
            ids = self.arguments.by_name[name]
            special = torch.zeros(ids.shape, dtype=torch.bool)
            for row, number in enumerate(self.numbers):
                special[row, list(self._tokens(number)[0 if of_source else 1].special)] = True
            read = [self.arguments.read(ids.shape[1], not of_source, row) for row in range(len(ids))]
            self._axes[of_source] = CountedTokens(ids.cpu(), special, torch.stack(read))
        return self._axes[of_source]

    def _ordinary_queries(self, layer: int) -> Bool[Tensor, "texts tokens"]:
        return self.axis(self.layer_ids[layer].stack != "decoder").ordinary

    def _tokens(self, number: int) -> tuple[Tokens, Tokens]:
        """Returns the tokens of a text, and those that a decoder has written."""
        inputs = self.texts.inputs[number]
        assert inputs is not None  # of a string that a loaded model reads
        return inputs.source, inputs.target or Tokens()

    def _lengths(self, number: int) -> tuple[int, int]:
        source, target = self._tokens(number)
        return len(source.tokens), len(target.tokens)

    def _metrics(
        self, id: LayerId, weights: Tensor, queries: CountedTokens, keys: CountedTokens
    ) -> Float[Tensor, "texts metrics heads"]:
        read = weights * keys.read[:, None, None]
        allowed = queries.read[:, None, :, None] & (read > 0).any(1, keepdim=True)  # what some head looks at
        rows = QueryBlock(read, read.sum(-1), allowed)
        kind = id.stack, id.cross
        if kind not in self._factors:
            self._factors[kind] = [
                None if metric.one_sequence and id.cross else self._factor(metric, queries, keys)
                for metric in self.metrics
            ]
        values = [
            torch.full(weights.shape[:2], torch.nan, dtype=torch.float64)
            if metric.one_sequence and id.cross
            else metric_values(summed(metric, rows, factor))
            for metric, factor in zip(self.metrics, self._factors[kind], strict=True)
        ]
        return torch.stack(values, 1)

    def _factor(self, metric: HeadMetric, queries: CountedTokens, keys: CountedTokens) -> Tensor | None:
        q, k = torch.arange(queries.ids.shape[1])[:, None], torch.arange(keys.ids.shape[1])
        factors = []
        for ids, special, first, read in zip(keys.ids, keys.special, keys.first.tolist(), keys.read, strict=True):
            factor = metric.factors(q, k, KeyTokens(ids, special, first))
            if factor is None:
                return None
            factors.append(factor.float() * read)
        return torch.stack(factors)[:, None]

    def _norms(self, layer: int, values: Tensor | None, heads: int) -> Float[Tensor, "texts heads keys"] | None:
        """Returns the norms of what heads write from each key at a weight of 1."""
        form = self.norms[layer] if layer < len(self.norms) else None
        if form is None or values is None or values.shape[-1] != form.shape[-1]:
            return None
        of_heads = values.float().repeat_interleave(heads // values.shape[1], 1)
        return ((of_heads @ form) * of_heads).sum(-1).clamp(min=0).sqrt()

    def _keep(self, kind: str, numbers: Tensor, weights: Tensor, values: Tensor | None = None) -> None:
        """Keeps the pair with the largest number of each text and head."""
        order, cells = numbers.flatten(2).max(-1)
        self._keep_cells(kind, order.where(order > 0, -torch.inf), cells, weights, values)

    def _keep_random(self, layer: int, weights: Tensor) -> None:
        """Keeps a pair of each text and head: a query at random, and one of its keys by weight."""
        totals = weights.sum(-1)
        queries, orders, shares = [], [], []
        for row, number in enumerate(self.numbers):
            generator = torch.Generator().manual_seed(hash((self.seed, self.first + number, layer)) % (1 << 62))
            order, share, draw = torch.rand(3, weights.shape[1], generator=generator)
            possible = (totals[row] > 0).any(0).nonzero().flatten()
            place = (draw * len(possible)).long().clamp(max=max(0, len(possible) - 1))
            queries.append(possible[place] if len(possible) else torch.zeros_like(place))
            orders.append(order)
            shares.append(share)
        query, share = torch.stack(queries), torch.stack(shares)
        rows = weights.gather(2, query[..., None, None].expand(-1, -1, 1, weights.shape[-1]))[:, :, 0]
        reached = rows.cumsum(-1) >= (share * rows.sum(-1))[..., None]
        key = (reached & (rows > 0)).long().argmax(-1)
        order = torch.stack(orders).where(rows.sum(-1) > 0, -torch.inf)
        self._keep_cells(RANDOM, order, query * weights.shape[-1] + key, weights)

    def _keep_cells(
        self, kind: str, order: Tensor, cells: Tensor, weights: Tensor, values: Tensor | None = None
    ) -> None:
        (texts, heads, _queries, keys), rows = weights.shape, torch.arange(len(cells))[:, None]
        text = (torch.tensor(self.numbers) + self.first)[:, None].expand_as(cells)
        places = torch.stack([text, cells // keys, cells % keys], -1)
        weight = weights.flatten(2).gather(2, cells[..., None])[..., 0]
        read = weights.new_zeros(texts, heads, 0)
        if values is not None:
            read = values[rows, torch.arange(heads) // (heads // values.shape[1]), cells % keys].float()
        fields = (order.float(), weight.float(), places.int(), read)
        self.examples[kind].append(Examples.merged([Examples(*(one.transpose(0, 1) for one in fields))]))

    def part(self) -> AtlasPart:
        """Returns the counts of the batch, after the model has run."""
        values = torch.cat(self.values, 2)
        known = ~values.isnan()
        tokens = torch.cat([axis.ids.flatten() for axis in self._axes.values()]).unique()
        occurrences = torch.zeros(len(tokens), dtype=torch.int64)
        for axis in self._axes.values():
            ids = torch.searchsorted(tokens, axis.ids[axis.read])
            occurrences.index_add_(0, ids, torch.ones_like(ids))

        def looked(of_keys: bool) -> Tensor:
            rows = []
            for at_keys, at_queries, queries, keys in self.looked:
                amounts, axis = (at_keys, keys) if of_keys else (at_queries, queries)
                row = torch.zeros(amounts.shape[1], len(tokens))
                places = torch.searchsorted(tokens, axis.ids.flatten())
                rows.append(row.index_add_(1, places, amounts.transpose(0, 1).flatten(1)))
            return torch.cat(rows)

        alike, compared = _cosines(self.ordinary)
        return AtlasPart(
            tuple(self.ids),
            tuple(self.counts),
            torch.tensor(self.numbers) + self.first,
            values.float(),
            known.sum(0),
            values.nan_to_num(0).sum(0),
            values.nan_to_num(0).square().sum(0),
            {kind: Examples.of_layers(of_layers) for kind, of_layers in self.examples.items()},
            tokens,
            occurrences,
            looked(True),
            looked(False),
            alike,
            compared,
            torch.tensor([[number + self.first, *self._lengths(number)] for number in self.numbers]),
            self.mlps.counts([replace(self.layer_ids[place.layer], cross=False) for place in self.mlps.places]),
        )


def _cosines(rows: Sequence[tuple[object, Tensor]]) -> tuple[Tensor, Tensor]:
    """Returns the sums over texts of the cosines of rows (texts, heads, cells), of heads in layers of the same kind,
    and of how many texts they are."""
    heads = [one.shape[1] for _kind, one in rows]
    sums, counts = torch.zeros(sum(heads), sum(heads)), torch.zeros(sum(heads), sum(heads), dtype=torch.int64)
    starts = [sum(heads[:i]) for i in range(len(heads))]
    for kind in {kind for kind, _one in rows}:
        layers = [i for i, (other, _one) in enumerate(rows) if other == kind]
        places = torch.cat([torch.arange(starts[i], starts[i] + heads[i]) for i in layers])
        texts = len(rows[layers[0]][1])
        for text in range(texts):  # one by one: all together would be copied thrice
            joined = torch.cat([rows[i][1][text] for i in layers])
            sums[places[:, None], places] += joined @ joined.T
        counts[places[:, None], places] = texts
    return sums, counts
