"""A sentence with small vectors and matrices; nothing is learned."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.formatting import grouped
from attnviz.base.language import N_, _, value_error
from attnviz.base.text import check_text, shorten_token
from attnviz.biases import Bias, sinusoids
from attnviz.masks import Full, Mask
from attnviz.mechanism import Mechanism
from attnviz.pages.steps.computation import Computation, HeadMatrices, StepsExample
from attnviz.pages.steps.matrix import Matrix
from attnviz.pages.steps.operations import Product
from attnviz.sources.toy import embedding

WIDTH = 4  # numbers of a token's vector: few enough to be read, even, half sines and half cosines
DRAWN = N_("drawn at random, not learned")
LETTERS = N_("drawn from the word’s letters, so it means nothing")
FEWEST_WORDS, MOST_WORDS = 2, 8  # tokens of a sentence


@dataclass(frozen=True)
class SentenceExample(StepsExample):
    """A sentence, a second one for cross-attention, and the attention between them.

    Without a second sentence the keys come from the first: self-attention. Vectors are toy vectors: an embedding made
    from the word, plus a sinusoid for its position; weight matrices are drawn from their names.
    """

    text: str = field(default="the cat sat down", metadata={"label": N_("Sentence")})
    second: str | None = field(default=None, metadata={"label": N_("Second sentence")})
    d_k: int = field(default=4, metadata={"min": 2, "max": 8, "label": N_("Width of a key, dₖ")})
    heads: int = field(default=1, metadata={"min": 1, "max": 4, "label": N_("Number of heads")})
    mask: Mask = Full()
    biases: tuple[Bias, ...] = ()

    def __post_init__(self) -> None:
        if not 2 <= self.d_k <= 8:
            raise value_error("The width of a key, d_k, must be from 2 to 8 here; it is {d_k}.", d_k=self.d_k)
        if not 1 <= self.heads <= 4:
            raise value_error("From 1 to 4 heads are written out; there cannot be {heads}.", heads=self.heads)

    @property
    def origin(self) -> str:
        origin = _("Every word is a vector. Multiplied by three matrices it becomes a query, a key and a value")
        second = [_("keys and values come from the second sentence")] if self.second is not None else []
        return f"{'; '.join([origin, *second])}."

    def build(self, computation: Computation) -> tuple[Mechanism, list[HeadMatrices]]:
        """Adds the vectors of the sentences, and the weight matrices, queries, keys and values of each head."""
        origin = _("{drawn}, plus sine waves of its position", drawn=_(LETTERS))
        words = _words(self.text, "sentence")
        x = y = computation.add_input(
            "X",
            "X",
            _("a vector for each word: {drawn}", drawn=_(LETTERS)),
            _token_vectors(words),
            words,
            origin,
            "queries",
            of_queries=True,
        )
        if self.second is not None:
            words = _words(self.second, _("second sentence"))
            about = _("the second sentence: {drawn}", drawn=_(LETTERS))
            y = computation.add_input("Y", "Y", about, _token_vectors(words), words, origin, "keys")
        mechanism = Mechanism(biases=self.biases, mask=self.mask)
        return mechanism, [self._head(computation, head, x, y) for head in range(self.heads)]

    def output_matrix(self) -> tuple[Float[Tensor, "joined width"], str]:
        joined = self.heads * self.d_k
        matrix = embedding("output of all heads", joined * WIDTH).reshape(joined, WIDTH).double() / math.sqrt(joined)
        return matrix, _(DRAWN)

    def _head(self, computation: Computation, head: int, x: Matrix, y: Matrix) -> HeadMatrices:
        makes = (
            N_("makes {many}: columns {first} to {last} of all heads’; {drawn}")
            if self.heads > 1
            else N_("makes {many}: {drawn}")
        )
        first, last = head * self.d_k + 1, (head + 1) * self.d_k
        query, key, value = (
            computation.add_input(
                f"W{role[0]}{head}",
                f"W_{role[0]}",
                _(makes, many=_(many), first=first, last=last, drawn=_(DRAWN)),
                _weights(role, head, self.d_k),
                x.columns,
                _(DRAWN),
                many,
                head=head,
            )
            for role, many in (("query", N_("queries")), ("key", N_("keys")), ("value", N_("values")))
        )
        return (
            computation.add(f"Q{head}", "Q", _("queries"), "queries", Product(), x, query, head=head),
            computation.add(f"K{head}", "K", _("keys"), "keys", Product(), y, key, head=head, of_queries=False),
            computation.add(f"V{head}", "V", _("values"), "values", Product(), y, value, head=head, of_queries=False),
        )


def _words(text: str, name: str) -> tuple[str, ...]:
    tokens = tuple(map(shorten_token, check_text(text).split()))
    if not FEWEST_WORDS <= len(tokens) <= MOST_WORDS:
        count = _("1 word") if len(tokens) == 1 else _("{count} words", count=grouped(len(tokens)))
        raise ValueError(
            f"The {name} has {count}; every number of {FEWEST_WORDS} to {MOST_WORDS} words can be shown. "
            f"{'Shorten' if len(tokens) > MOST_WORDS else 'Lengthen'} it."
        )
    return tokens


def _token_vectors(tokens: tuple[str, ...]) -> Float[Tensor, "tokens width"]:
    return (torch.stack([embedding(token, WIDTH) for token in tokens]) + sinusoids(len(tokens), WIDTH)).double()


def _weights(role: str, head: int, d_k: int) -> Float[Tensor, "width d_k"]:
    """Drawn with a spread that keeps a vector's length; no word has this name, which holds a space."""
    return embedding(f"{role} of head {head}", WIDTH * d_k).reshape(WIDTH, d_k).double() / math.sqrt(WIDTH)
