"""The circuits of a head: what it writes, which keys it prefers, and with which heads it composes."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from attnviz.attribution.text_attribution import TextAttribution
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import grouped, number, percent, plain_word
from attnviz.base.language import _
from attnviz.effects.ablation import Head
from attnviz.effects.head_circuits import Composition, HeadCircuits
from attnviz.figures.shares import signed
from attnviz.layer import head_name
from attnviz.page.head_numbers import HeadNumbers
from attnviz.page.model_circuits import circuits_of_model
from attnviz.pages.effects.state import EffectsState

if TYPE_CHECKING:
    pass  # with huggingface_hub

LISTED = 8  # tokens, and heads
SAMPLED = 256  # tokens of the vocabulary, drawn at random
FIRST = 10  # ranks
LONGEST = 24  # characters of a token in a table


class TokenRow(NamedTuple):
    """A token, and its place in standard deviations from the mean of all tokens."""

    token: str
    value: str


class CompositionRow(NamedTuple):
    """The head that writes, the head that reads it, and how much above what circuits without a relation have."""

    writer: Head
    reader: Head
    above_random: str


@dataclass(frozen=True, eq=False)
class CircuitsView:
    """The circuits of one head of a model, for one token that it looks at, or from."""

    run: TextAttribution  # a pass of the model, which has names of heads and tokens
    circuits: HeadCircuits
    head: Head
    token: int
    kind: Composition

    @property
    def head_name(self) -> str:
        """The name of the head."""
        return self.name(self.head)

    @property
    def word(self) -> str:
        """The token, as sentences have it."""
        return plain_word(self.text(self.token))

    def name(self, head: Head) -> str:
        """Returns the name of a head."""
        return head_name(self.run.layers[head[0]], head[1])

    def text(self, token: int) -> str:
        """Returns the text of a token, with its spaces."""
        return self.run.names([token])[0]

    # OV

    @cached_property
    def writes(self) -> Tensor:
        """How much the head raises the logit of each token when it looks at the token. Raises ValueError if that is not
        known."""
        return self.circuits.writes(*self.head, self.token)

    @property
    def raised(self) -> list[TokenRow]:
        """The tokens that it raises the most."""
        return self._rows(self.writes, largest=True)

    @property
    def lowered(self) -> list[TokenRow]:
        """The tokens that it lowers the most."""
        return self._rows(self.writes, largest=False)

    @property
    def written_sentence(self) -> str:
        """What the head does to the logit of the token that it looks at."""
        own, count = float(self.writes[self.token]), grouped(len(self.writes))
        facts = {"head": self.head_name, "word": self.word, "value": number(abs(own)), "count": count}
        if own >= 0:
            rank = grouped(int((self.writes > own).sum()) + 1)
            return _(
                "When {head} looks at “{word}”, it raises “{word}” itself by {value} standard deviations: number "
                "{rank} of all {count} tokens.",
                rank=rank,
                **facts,
            )
        rank = grouped(int((self.writes < own).sum()) + 1)
        return _(
            "When {head} looks at “{word}”, it lowers “{word}” itself by {value} standard deviations: number {rank} of "
            "all {count} tokens that it lowers.",
            rank=rank,
            **facts,
        )

    @cached_property
    def copied_shares(self) -> tuple[float, float]:
        """The shares of random tokens that are among the first ranks of what the head raises, and lowers, the most when
        it looks at them."""
        count = len(self.circuits.tokens)
        tokens = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:SAMPLED]
        ranks = self.circuits.own_ranks(*self.head, tokens)
        return float((ranks < FIRST).float().mean()), float((ranks >= count - FIRST).float().mean())

    @property
    def copying_score(self) -> float | None:
        """The copying score of the head; None if it is not known."""
        try:
            score = float(self.circuits.copying[self.head])
        except ValueError:
            return None
        return None if math.isnan(score) else score

    @property
    def copying_sentence(self) -> str:
        """Whether the head copies or suppresses what it looks at. Raises ValueError if that is not known."""
        score = float(self.circuits.copying[self.head])
        raised, lowered = map(percent, self.copied_shares)
        return _(
            "Its copying score is {score}. Of {sampled} random tokens, {raised} are among the {first} that it raises "
            "the most when it looks at them, and {lowered} among the {first} that it lowers the most.",
            score=signed(score),
            sampled=SAMPLED,
            raised=raised,
            lowered=lowered,
            first=FIRST,
        )

    def copying_scores(self) -> HeadNumbers:
        """Returns the copying scores of all heads. Raises ValueError if they are not known."""
        scores, sign = self.circuits.copying.double().numpy(), (_("suppresses"), _("copies"))
        return HeadNumbers(_("Copying scores of heads"), self.run.ids, scores, largest=1.0, sign=sign)

    # QK

    @cached_property
    def scores(self) -> Tensor:
        """The scores that the token gives to each token as its key. Raises ValueError if they are not known."""
        return self.circuits.preferred_keys(*self.head, self.token)

    @property
    def preferred(self) -> list[TokenRow]:
        """The tokens with the largest scores."""
        return self._rows(self.scores, largest=True)

    @property
    def avoided(self) -> list[TokenRow]:
        """The tokens with the lowest scores."""
        return self._rows(self.scores, largest=False)

    # Composition

    @cached_property
    def composition(self) -> HeadNumbers:
        """How much the head composes with each other one, above circuits without a relation."""
        above_random = self.circuits.composition(self.kind, *self.head) - self.circuits.random_composition
        title = _("Composition of {head} with other heads", head=self.head_name)
        return HeadNumbers(title, self.run.ids, above_random.double().numpy(), sign=(_("below"), _("above random")))

    @property
    def compositions(self) -> list[CompositionRow]:
        """The heads with which it composes the most."""
        return [
            CompositionRow(min(place, self.head), max(place, self.head), self.composition.text(place))
            for place in self.composition.strongest(LISTED)
        ]

    @property
    def composition_note(self) -> str:
        """What the numbers of composition are."""
        return _(
            "Frobenius norm of the product of both circuits, divided by both norms, above that of random circuits, "
            "{random} (Elhage et al. 2021).",
            random=number(self.circuits.random_composition),
        )

    def _rows(self, values: Tensor, *, largest: bool) -> list[TokenRow]:
        numbers, tokens = values.topk(min(LISTED, len(values)), largest=largest)
        names = self.run.names(tokens.tolist())
        return [
            TokenRow(name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…", signed(value))
            for name, value in zip(names, numbers.tolist(), strict=True)
        ]


def circuits_view(state: EffectsState) -> CircuitsView:
    """Returns the circuits of the chosen head, by default of the one that copies or suppresses most. Raises ValueError
    if there are none, or if there is no such token."""
    circuits = circuits_of_model(state.source.model(), state.run, state.token_vectors, state.source.forward_work)
    head = opening_head(circuits) if state.head is None else state.head
    circuits.check_token(token := state.run.typed_token(state.reads))
    return CircuitsView(state.run, circuits, head, token, state.composition)


def opening_head(circuits: HeadCircuits) -> Head:
    """Returns the head that copies, or suppresses, most after the first layer, or the last one where that is not
    known."""
    layers, heads = circuits.shape
    try:
        copying = circuits.copying[1:].nan_to_num(0).abs()
    except ValueError:
        return layers - 1, 0
    layer, head = divmod(int(copying.argmax()), heads)
    return layer + 1, head
