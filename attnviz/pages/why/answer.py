"""The answer of Why: a number as a sum, the term of it that is shown, and how they are named and drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float

from attnviz.attribution.attribution import Attribution, WriterShare
from attnviz.attribution.circuit import LEAST_SHARE, CircuitNode, circuit, size
from attnviz.attribution.metrics import CarriedValue, Logit, LogitDifference, Metric, Score
from attnviz.attribution.named_pass import DECODER, NamedPass
from attnviz.attribution.sum_term import SumTerm
from attnviz.attribution.trail import StepQuestion, TrailStep
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import plain_word
from attnviz.base.language import _, option_name
from attnviz.figures import Chart
from attnviz.figures.chart_spec import PointsSpec
from attnviz.figures.circuit import DrawnNode, circuit_drawing
from attnviz.figures.shares import for_and_against, signed, word_shares
from attnviz.page.head_numbers import HeadNumbers, Place
from attnviz.pages.why.state import SumState, WhyState

UNITS = 12  # of an MLP that are drawn
LAST = 3  # terms of the last sum that are drawn behind a trail
LEAST_READ = 2e-3  # of the absolute values of all terms

_by_word: "WeakKeyDictionary[Attribution, Float[np.ndarray, ' columns']]" = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class HeadReading:
    """What a head read at a position: its weights, and its share by the token that it read it from."""

    term: WriterShare
    layer: int
    head: int
    keys: Sequence[str]
    weights: Float[np.ndarray, " keys"]
    sources: Float[np.ndarray, " keys"]

    @property
    def strongest_key(self) -> int:
        """The key with the largest weight."""
        return int(self.weights.argmax())

    @property
    def strongest_source(self) -> int:
        """The key with the largest share."""
        return int(np.abs(self.sources).argmax())

    def step(self, question: StepQuestion, source: int) -> TrailStep:
        """Returns a question about the head and one of its keys."""
        return TrailStep(question, self.layer, self.head, self.term.position, source)


@dataclass(frozen=True, eq=False)
class WhyAnswer:
    """The sums from a question to the end of a trail, and the term that was chosen of the last."""

    run: NamedPass
    trail: tuple[TrailStep, ...]
    chosen: SumTerm | None
    sums: tuple[Attribution, ...]

    @property
    def metric(self) -> Metric:
        """The number that was asked for."""
        return self.sums[0].metric

    @property
    def attribution(self) -> Attribution:
        """The sum that is shown."""
        return self.sums[-1]

    @cached_property
    def numbers(self) -> HeadNumbers:
        """The shares of heads, MLPs and inputs, which are summed over positions: they add up to the number."""
        shown, counts = self.attribution, np.array(self.run.heads)
        heads = shown.heads.sum(-1).numpy().astype(float)
        heads[np.arange(heads.shape[1]) >= counts[:, None]] = np.nan
        mlps = np.full(len(counts), np.nan)
        mlps[[*self.mlp_layers]] = 0
        np.add.at(mlps, [*self.mlp_layers], shown.mlps.sum(-1).numpy())
        inputs = shown.constant + shown.bias, float(shown.embeddings.sum())
        return HeadNumbers(
            _("Shares of heads and MLPs"),
            self.run.ids,
            heads,
            sign=for_and_against(self.favored),
            mlps=mlps,
            inputs=inputs,
        )

    def place(self, term: SumTerm | WriterShare) -> Place:
        """Returns where the number of a term is among those of heads."""
        if term.layer is None:
            return -1, self.attribution.heads.shape[1]
        if term.head is None:
            return self.mlp_layers[term.layer], self.attribution.heads.shape[1]
        return term.layer, term.head

    @cached_property
    def terms_by_place(self) -> dict[Place, SumTerm]:
        """The largest term of each place that has one."""
        ordered = sorted(self.attribution.terms, key=lambda share: abs(share.share))
        return {self.place(share): SumTerm.from_share(share) for share in ordered}

    @cached_property
    def mlp_layers(self) -> tuple[int, ...]:
        """The layer with whose attention each MLP is."""
        return self.run.layers_of_mlps(self.sums[0])

    @cached_property
    def term(self) -> WriterShare | None:
        """The term that is shown: the chosen one, or None if there is none such; without a choice the head with the
        largest share of the number's own sign, if that is LEAST_SHARE of the absolute values of all terms, or else the
        largest such term."""
        if self.chosen is not None:
            return next((share for share in self.attribution.terms if SumTerm.from_share(share) == self.chosen), None)
        terms = self.attribution.terms
        least = LEAST_SHARE * sum(abs(term.share) for term in terms)
        heads = [term for term in terms if term.head is not None and self._toward(term) >= least]
        return max(heads or terms, key=self._toward)

    @cached_property
    def largest_of_each_sign(self) -> list[WriterShare]:
        """The largest terms with the sign of the number and with the other one; none of a sign that no term has."""
        terms = self.attribution.terms
        first, last = max(terms, key=self._toward), min(terms, key=self._toward)
        return [*[first] * (self._toward(first) > 0), *[last] * (self._toward(last) < 0)]

    def _toward(self, term: WriterShare) -> float:
        """Returns a share, with the opposite sign if the number is negative."""
        return term.share if self.attribution.total >= 0 else -term.share

    @cached_property
    def reading(self) -> HeadReading | None:
        """What the head that is shown has read; None for another term, or if its weights are not known."""
        return None if self.term is None else self.reading_of(self.term)

    def reading_of(self, term: WriterShare) -> HeadReading | None:
        """Returns what a head has read; None for another term, or if its weights are not known."""
        layer, head = term.layer, term.head
        if layer is None or head is None or not self.attribution.knows_weights(layer):
            return None
        try:
            weights = self.run.weights(layer, head, term.position).double().numpy()
        except ValueError:  # they do not give what the head wrote
            return None
        sources = self.attribution.sources(layer, head, term.position).numpy()
        keys = tuple(map(plain_word, self.run.keys(layer)))
        return HeadReading(term, layer, head, keys, weights, sources)

    def next_step(self) -> TrailStep | None:
        """Returns the step into the largest share of the number's own sign that a head carries; None if none is
        LEAST_SHARE of the sum."""
        least = LEAST_SHARE * size(self.attribution)
        heads = [term for term in self.attribution.terms if term.head is not None and self._toward(term) >= least]
        for term in sorted(heads, key=self._toward, reverse=True):
            if reading := self.reading_of(term):
                return reading.step("value", reading.strongest_source)
        return None

    # Names

    def word(self, term: WriterShare) -> str:
        """Returns the token at which a term is."""
        return self.columns[self.column(term)]

    def writer(self, term: WriterShare) -> str:
        """Returns the name of what has written a term."""
        return _("embedding") if term.layer is None else self.numbers.name(self.place(term))

    def short_name(self, term: WriterShare) -> str:
        """Returns the name of what has written a term in tables and drawings: 23.3 for a head, MLP 28; empty for an
        embedding."""
        return "" if term.layer is None else self.numbers.short_name(self.place(term))

    @cached_property
    def parts(self) -> dict[str, float]:
        """The sum by kinds of writers; those that are 0 are left out."""
        shown = self.attribution
        parts = {
            _("heads"): float(shown.heads.sum()),
            _("MLPs"): float(shown.mlps.sum()),
            _("embeddings"): float(shown.embeddings.sum()),
            _("constant"): shown.constant,
            _("bias of positions"): shown.bias,
        }
        return {name: value for name, value in parts.items() if abs(value) >= 0.005}

    @property
    def favored(self) -> str:
        """What positive shares of the sum are for: the token that is said, or the key; empty for another number."""
        metrics = [one.metric for one in self.sums if not isinstance(one.metric, CarriedValue)]
        match metrics[-1]:
            case Score(layer, key=key):
                return plain_word(self.run.keys(layer)[key])
            case Logit(token) | LogitDifference(token):
                return self.run.token_text(token)
        return ""

    # Pictures

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The tokens of all texts as sentences have them, the encoder's before the decoder's."""
        return tuple(map(plain_word, self.run.columns))

    def column(self, term: WriterShare) -> int:
        """Returns the place of a term's token among `columns`."""
        return term.position + self.run.first_column(term.stack)

    def source_column(self, layer: int, source: int) -> int:
        """Returns the place among `columns` of a token that the heads of a layer read."""
        return source + (0 if self.run.ids[layer].cross else self.run.first_column(self.run.ids[layer].stack))

    @property
    def by_word(self) -> Float[np.ndarray, " columns"]:
        """The sum by tokens: of heads by those that they read, of all else, and of heads with less than LEAST_READ of
        the sum, by those at which they wrote."""
        if (known := _by_word.get(self.attribution)) is not None:
            return known
        shares, terms = np.zeros(len(self.columns)), self.attribution.terms
        least = LEAST_READ * sum(abs(term.share) for term in terms)
        for term in terms:
            reading = self.reading_of(term) if term.head is not None and abs(term.share) >= least else None
            if reading is None:
                shares[self.column(term)] += term.share
            else:
                first = self.source_column(reading.layer, 0)
                shares[first : first + len(reading.sources)] += reading.sources
        _by_word[self.attribution] = shares
        return shares

    def term_chart(self) -> Chart[PointsSpec] | None:
        """Returns the picture of the shown term: what a head has read, or the parts of an MLP; None if it cannot be
        opened. Raises ValueError if the parts are not known."""
        if self.reading is not None:
            return word_shares(self.reading.sources, self.reading.keys, self.reading.weights)
        if self.term is None or self.term.layer is None or self.term.head is not None:
            return None
        shares = self._mlp_shares(self.term.layer, self.term.position)
        largest = sorted(shares, key=lambda name: -abs(shares[name]))[:UNITS]
        return word_shares(np.array([shares[name] for name in largest]), largest)

    def _mlp_shares(self, mlp: int, position: int) -> dict[str, float]:
        """Returns the shares of the hidden units of an MLP, or of a mixture those of its experts. Raises ValueError if
        neither are known."""
        try:
            units = self.attribution.neurons(mlp, position).tolist()
        except ValueError:
            experts = self.attribution.experts(mlp, position)
            return {
                _("expert {number}", number=name) if isinstance(name, int) else name: share
                for name, share in experts.items()
            }
        return {_("unit {number}", number=unit): share for unit, share in enumerate(units)}

    def trail_drawing(self) -> Chart[PointsSpec]:
        """Returns the drawing of the terms that have been opened, and of the largest terms of the last sum."""
        steps, nodes = self.trail, []
        for i, (step, opened) in enumerate(zip(steps, self.sums[1:], strict=True)):
            term = WriterShare(opened.total, step.position, step.layer, step.head, self.run.ids[step.layer].stack)
            nodes.append(CircuitNode(term, step.source, i - 1 if i else None))
        nodes += [CircuitNode(term, None, len(steps) - 1) for term in self.attribution.largest(LAST)]
        return self._drawing(nodes, [step.question for step in steps])

    def tree_drawing(self) -> Chart[PointsSpec]:
        """Returns the drawing of all terms of at least LEAST_SHARE of the number, five sums deep."""
        return self._drawing(circuit(self.sums[0]))

    def _drawing(self, nodes: Sequence[CircuitNode], questions: Sequence[StepQuestion] = ()) -> Chart[PointsSpec]:
        rest = len(nodes) - len(questions)  # the terms behind the trail
        each: list[StepQuestion] = [*questions, *[questions[-1] if questions else "value"] * rest]
        drawn = [self._drawn(node, question) for node, question in zip(nodes, each, strict=True)]
        layers = [option_name(name) for name in self.run.layers]
        return circuit_drawing(drawn, self.columns, layers, self._metric_column, signed(self.sums[0].total))

    @property
    def _metric_column(self) -> int:
        """The place among `columns` of the token at which the number is."""
        if isinstance(self.metric, Score):
            return self.metric.query + self.run.first_column(self.run.ids[self.metric.layer].stack)
        position = self.metric.position % len(self.run.predicting)
        return position + self.run.first_column(DECODER)

    def _drawn(self, node: CircuitNode, question: StepQuestion) -> DrawnNode:
        term, share = node.term, signed(node.term.share)
        facts = {"writer": self.writer(term), "word": self.word(term), "share": share}
        sentence, source = _("{writer} at {word}: {share}", **facts), None
        level = -1
        if term.layer is not None:
            level = self.mlp_layers[term.layer] if term.head is None else term.layer
        if term.layer is not None and node.source is not None:
            source = self.source_column(term.layer, node.source)
            sentence = _("{writer}, from {source} to {word}: {share}", source=self.columns[source], **facts)
        place, name = (self.column(term), level), self.short_name(term)
        if name == facts["writer"]:  # too long: the row names the layer
            name = "MLP" if term.head is None else str(term.head)
        return DrawnNode(name, sentence, term.share, *place, term.head is not None, source, node.parent, question)


@dataclass(frozen=True, eq=False)
class StateAnswer(WhyAnswer):
    """The answer to a state."""

    state: WhyState | SumState


def why_answer(state: WhyState) -> StateAnswer:
    """Returns the sums of a state. Raises ValueError if one of them is not a sum."""
    run, trail = state.run, state.trail
    return StateAnswer(run, trail, state.term, run.sums(state.metric, trail), state)
