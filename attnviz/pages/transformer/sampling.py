"""The next word: its probabilities at a temperature, and the word that is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.cached_property import cached_property
from attnviz.base.language import value_error
from attnviz.models.sampling import drawn_index, random_number


@dataclass(frozen=True, eq=False)
class NextWord:
    """The choice of the next word by its logits.

    At temperature 0 the likeliest word has probability 1 (greedy decoding). The drawn word follows from `seed`. Words
    are told apart by their indices: several tokens of a vocabulary may have the same text.

    Example:
        >>> choice = NextWord(("cat", "dog"), torch.tensor([2.0, 0.0]), temperature=2.0)
        >>> choice.probabilities
        tensor([0.7311, 0.2689])
        >>> choice.words[choice.greedy]
        'cat'
    """

    words: Sequence[str]
    logits: Float[Tensor, " words"]
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise value_error(
                "A temperature of 0 or more is expected; {temperature} was given.", temperature=self.temperature
            )

    @cached_property
    def probabilities(self) -> Float[Tensor, " words"]:
        """softmax(logits / temperature)."""
        if self.temperature == 0:
            return torch.nn.functional.one_hot(self.logits.argmax(), len(self.words)).to(self.logits)
        return (self.logits / self.temperature).softmax(-1)

    @property
    def greedy(self) -> int:
        """The index of the word with the largest probability."""
        return int(self.logits.argmax())

    @cached_property
    def random_number(self) -> float:
        """The random number of the seed, from 0 to below 1."""
        return random_number(self.seed)

    @cached_property
    def drawn(self) -> int:
        """The index of the word into whose part of the line from 0 to 1 the random number falls; likelier words come
        first."""
        return drawn_index(self.probabilities, self.random_number)

    def likeliest(self, count: int) -> list[int]:
        """Returns the indices of the likeliest words, the drawn one as the last if it is not among them."""
        order = self.logits.argsort(descending=True, stable=True)[:count].tolist()
        return order if self.drawn in order else [*order[:-1], self.drawn]
