"""Translating with a trained model, and what can be seen of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer
from attnviz.models.interventions import Intervention
from attnviz.translator.grammar import Sentence, check, parse
from attnviz.translator.model import (
    END,
    LIMIT,
    PAD,
    SOURCE,
    START,
    TARGET,
    Cache,
    Pass,
    Ran,
    Transformer,
    Use,
)

SOURCE_NUMBER = {word: i for i, word in enumerate(SOURCE)}
TARGET_NUMBER = {word: i for i, word in enumerate(TARGET)}


@dataclass(frozen=True, eq=False)
class Step:
    """One step of decoding: the word that came out, and how likely each was."""

    word: str
    probabilities: Float[Tensor, " words"]  # of the words in TARGET
    ran: tuple[Ran, ...]  # every attention of this step, that of the encoder first

    @property
    def probability(self) -> float:
        return float(self.probabilities[TARGET_NUMBER[self.word]])

    def likeliest(self, count: int = 5) -> list[tuple[str, float]]:
        """The likeliest words, with their probabilities."""
        best = self.probabilities.topk(count)
        return [(TARGET[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class Translation:
    """A translation, step by step."""

    english: tuple[str, ...]
    steps: tuple[Step, ...]  # the last one's word is <end>, unless there was no end to it

    @cached_property
    def french(self) -> tuple[str, ...]:
        """The words, without <end>."""
        return tuple(step.word for step in self.steps if step.word != TARGET[END])

    @property
    def finished(self) -> bool:
        """Whether it came to an end by itself."""
        return self.steps[-1].word == TARGET[END]

    @property
    def text(self) -> str:
        """The French as it is written."""
        return spelled(self.french)

    @cached_property
    def true(self) -> Sentence | None:
        """The sentence as the grammar has it, with the right translation and alignment; None if it has not."""
        return parse(self.english)

    @property
    def alignment(self) -> tuple[tuple[int, ...], ...] | None:
        """For each French word the places of its English ones; None unless this is the right translation."""
        return self.true.alignment if self.true and self.true.french == self.french else None

    def layers(self, step: int = -1, use: Use | None = None) -> list[Layer]:
        """Every attention, or those of one use, as it ran in a step, by default the last: of the encoder, then of each
        decoder layer.

        Row i of the decoder's queries is where French word i comes out; its token is what went in there, <start> or
        the word before.
        """
        ran = self.steps[step].ran
        fed = ("<start>", *self.french)[: ran[-1].query.shape[-2]]
        return [_layer(one, self.english, fed) for one in ran if use in (None, one.use)]


def _layer(ran: Ran, english: tuple[str, ...], fed: tuple[str, ...]) -> Layer:
    queries, keys = fed if ran.use != "encoder" else english, fed if ran.use == "decoder" else english
    inputs = Inputs(
        *(ran.query[0], ran.key[0], ran.value[0], queries, keys),
        special_queries=(0,) if ran.use != "encoder" else (),
        special_keys=(0,) if ran.use == "decoder" else (),
    )
    kind = Kind.CROSS if ran.use == "cross" else Kind.CAUSAL if ran.looks_back else Kind.SELF
    return Layer(ran.id, kind, inputs, ran.mechanism)


@dataclass(frozen=True, eq=False)
class Translator:
    """A model as it is after so many steps of training, ready to translate."""

    model: Transformer
    variant: str
    step: int

    def __post_init__(self) -> None:
        self.model.eval().requires_grad_(False)

    def translate(self, text: str, interventions: Sequence[Intervention] = (), *, beams: int = 1) -> Translation:
        """The French of a text: at every step the likeliest word or, of several beams, the likeliest whole.

        A search keeps as many beginnings as it has beams, those whose words have the greatest product of
        probabilities, and ends when the best of them is finished. Raises ValueError for a text that the
        translator cannot read.
        """
        if beams < 1:
            raise ValueError(f"A search needs 1 beam or more; {beams} were asked for.")
        english = check(text)
        encoded: list[Ran] = []
        memory = self.model.encode(source([english]), Pass(interventions, ran=encoded))
        beginnings = [_Beginning()]
        while not beginnings[0].done:
            grown = [one for one in beginnings if one.done]
            for before in beginnings:
                if not before.done:
                    ran = list(encoded)
                    french = torch.tensor([before.words])
                    scores = self.model.decode(french, memory, Pass(interventions, ran=ran))[0, -1].log_softmax(-1)
                    best = scores.topk(min(beams, len(TARGET)))
                    for score, word in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                        taken = Step(TARGET[word], scores.exp(), tuple(ran))
                        grown.append(_Beginning(before.score + score, (*before.words, word), (*before.steps, taken)))
            beginnings = sorted(grown, key=lambda one: -one.score)[:beams]
        return Translation(english, beginnings[0].steps)

    def told(self, english: tuple[str, ...], french: tuple[str, ...]) -> Translation:
        """What it does when these French words are put in, whatever it would have said: each step's word is theirs.

        Of more words than the decoder has places the first are taken.
        """
        encoded: list[Ran] = []
        memory = self.model.encode(source([english]), Pass(ran=encoded))
        words, steps = target([french]), list[Step]()
        for length in range(1, min(words.shape[1], LIMIT + 1)):
            ran = list(encoded)
            scores = self.model.decode(words[:, :length], memory, Pass(ran=ran))[0, -1]
            steps.append(Step(TARGET[int(words[0, length])], scores.softmax(-1), tuple(ran)))
        return Translation(english, tuple(steps))

    def translations(self, sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """The French of many sentences at once, at every step the likeliest word."""
        lengths = torch.tensor([len(words) for words in sentences])
        memory = self.model.encode(source(sentences), Pass(lengths=lengths))
        told = Pass(lengths=lengths, cache=Cache())
        french = torch.full((len(sentences), 1), START)
        while french.shape[1] <= LIMIT and not (french == END).any(-1).all():
            word = self.model.decode(french, memory, told)[:, -1].argmax(-1)
            french = torch.cat([french, word[:, None]], -1)
        return [tuple(TARGET[word] for word in takewhile(END.__ne__, row[1:])) for row in french.tolist()]

    def exact(self, sentences: Sequence[Sentence]) -> float:
        """The share of sentences whose translation is right in every word."""
        made = self.translations([one.english for one in sentences])
        return sum(french == one.french for french, one in zip(made, sentences, strict=True)) / len(sentences)

    def agreement(self, sentences: Sequence[Sentence]) -> Float[Tensor, "layers heads"]:
        """How far each head that looks at the English agrees with the true alignment.

        It is the share of French words for which the head's greatest weight, where the word comes out, lies on an
        English word that it stands for. The decoder is given the right words before.
        """
        lengths, ran = torch.tensor([len(one.english) for one in sentences]), list[Ran]()
        told = Pass(lengths=lengths, ran=ran)
        memory = self.model.encode(source([one.english for one in sentences]), told)
        self.model.decode(target([one.french for one in sentences]), memory, told)
        looked = torch.stack(
            [one.weights.argmax(-1) for one in ran if one.use == "cross"], -1
        )  # batch heads words layers
        agreed = [
            torch.isin(looked[i, :, j], torch.tensor(places))
            for i, one in enumerate(sentences)
            for j, places in enumerate(one.alignment)
        ]
        return torch.stack(agreed).float().mean(0).T


def source(sentences: Sequence[tuple[str, ...]]) -> Int[Tensor, "sentences words"]:
    """English words as numbers, padded to the longest sentence."""
    return _padded([[SOURCE_NUMBER[word] for word in words] for words in sentences])


def target(sentences: Sequence[tuple[str, ...]]) -> Int[Tensor, "sentences words"]:
    """French words as numbers between <start> and <end>, padded to the longest sentence."""
    return _padded([[START, *(TARGET_NUMBER[word] for word in words), END] for words in sentences])


def spelled(french: Sequence[str]) -> str:
    """French words as they are written, without a space after an apostrophe and before a full stop."""
    return re.sub(r"' | (?=\.)", lambda match: match.group().strip(), " ".join(french))


def _padded(rows: list[list[int]]) -> Int[Tensor, "sentences words"]:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


@dataclass(frozen=True)
class _Beginning:
    """The beginning of a translation in a search, and the logarithm of how likely it is."""

    score: float = 0.0
    words: tuple[int, ...] = (START,)
    steps: tuple[Step, ...] = ()

    @property
    def done(self) -> bool:
        return self.words[-1] == END or len(self.words) > LIMIT
