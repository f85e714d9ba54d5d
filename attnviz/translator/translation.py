"""Translation by a trained model: greedy decoding and teacher forcing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attnviz.base.cached_property import cached_property
from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer
from attnviz.translator.encoder_decoder import (
    END,
    MAX_POSITIONS,
    PAD,
    SOURCE_VOCABULARY,
    START,
    TARGET_VOCABULARY,
    AttentionRecord,
    ForwardPass,
    KeyValueCache,
    Transformer,
    Use,
)
from attnviz.translator.grammar import Sentence, parse_sentence
from attnviz.translator.typed_words import tokenize

SOURCE_IDS = {word: i for i, word in enumerate(SOURCE_VOCABULARY)}
TARGET_IDS = {word: i for i, word in enumerate(TARGET_VOCABULARY)}


@dataclass(frozen=True, eq=False)
class TranslationStep:
    """One step of decoding: the output word, and the probability of every word."""

    word: str
    probabilities: Float[Tensor, " words"]  # of the words in TARGET_VOCABULARY
    records: tuple[AttentionRecord, ...]  # every attention of this step, that of the encoder first


@dataclass(frozen=True, eq=False)
class Translation:
    """A translation, step by step."""

    english: tuple[str, ...]
    steps: tuple[TranslationStep, ...]  # the word of the last is <end>, unless it was cut off

    @cached_property
    def french(self) -> tuple[str, ...]:
        """The words, without <end>."""
        return tuple(step.word for step in self.steps if step.word != TARGET_VOCABULARY[END])

    @property
    def text(self) -> str:
        """The French text."""
        return detokenize(self.french)

    @cached_property
    def reference(self) -> Sentence | None:
        """The sentence with its reference translation and alignment; None if the grammar does not have it."""
        return parse_sentence(self.english)

    @property
    def alignment(self) -> tuple[tuple[int, ...], ...] | None:
        """The positions of the English words of each French word; None if this is not the reference translation."""
        return self.reference.alignment if self.reference and self.reference.french == self.french else None

    @property
    def decoder_inputs(self) -> tuple[str, ...]:
        """The word that goes into the decoder in each step: <start>, then the word before."""
        return ("<start>", *self.french)[: len(self.steps)]

    @property
    def decoder_rows(self) -> tuple[str, ...]:
        """The names of the decoder's rows: what goes in and what comes out, such as “petite → voiture”."""
        outputs = (step.word for step in self.steps)
        return tuple(f"{word} → {output}" for word, output in zip(self.decoder_inputs, outputs, strict=True))

    def layers(self, step: int = -1, use: Use | None = None) -> list[Layer]:
        """Returns the layers of a step, by default the last, or those of one use: of the encoder, then of each decoder
        layer.

        Row i of the decoder's queries is where French word i is predicted; see `decoder_rows`.
        """
        return [_layer(one, self) for one in self.steps[step].records if use in (None, one.use)]


def _layer(record: AttentionRecord, translation: Translation) -> Layer:
    """Returns the layer of one attention."""
    from_encoder, in_decoder = record.use == "encoder", record.use == "decoder"
    queries, keys = record.query.shape[-2], record.key.shape[-2]
    memory = translation.english if keys == len(translation.english) else ("sentence",)  # of a fixed vector
    inputs = Inputs(
        *(record.query[0], record.key[0], record.value[0]),
        translation.english if from_encoder else translation.decoder_rows[:queries],
        translation.decoder_inputs[:keys] if in_decoder else memory,
        special_queries=() if from_encoder else (0,),
        special_keys=(0,) if in_decoder else (),
    )
    kind = Kind.CROSS if record.use == "cross" else Kind.CAUSAL if record.is_causal else Kind.SELF
    return Layer(record.id, kind, inputs, record.mechanism)


@dataclass(frozen=True, eq=False)
class Translator:
    """A checkpoint of the model after `step` training steps.

    Example:
        >>> from attnviz.translator import load
        >>> load().translate("I like my new school .").text
        "j'aime ma nouvelle école."
    """

    model: Transformer
    variant: str
    step: int

    def __post_init__(self) -> None:
        self.model.eval().requires_grad_(False)

    def translate(self, text: str) -> Translation:
        """Translates a text by greedy decoding. Raises ValueError if it has a word that the translator does not
        know."""
        english = tokenize(text)
        encoded: list[AttentionRecord] = []
        memory = self.model.encode(source_ids([english]), ForwardPass(records=encoded))
        words, steps = [START], list[TranslationStep]()
        while words[-1] != END and len(words) <= MAX_POSITIONS:
            steps.append(self._step(torch.tensor([words]), memory, encoded))
            words.append(TARGET_IDS[steps[-1].word])
        return Translation(english, tuple(steps))

    def teacher_forced(self, english: tuple[str, ...], french: tuple[str, ...]) -> Translation:
        """Runs the decoder with teacher forcing: each step is given the French words before it, whatever it predicts.

        Words beyond the decoder's last position are left out.
        """
        encoded: list[AttentionRecord] = []
        memory = self.model.encode(source_ids([english]), ForwardPass(records=encoded))
        words = target_ids([french])[:, : MAX_POSITIONS + 1]
        steps = [
            replace(self._step(words[:, :length], memory, encoded), word=TARGET_VOCABULARY[int(words[0, length])])
            for length in range(1, words.shape[1])
        ]
        return Translation(english, tuple(steps))

    def _step(
        self, words: Int[Tensor, "1 words"], memory: Float[Tensor, "1 words width"], encoded: list[AttentionRecord]
    ) -> TranslationStep:
        """Returns the step that writes the likeliest word after some; `encoded` are the records of the encoder."""
        forward_pass = ForwardPass(records=list(encoded))
        probabilities = self.model.decode(words, memory, forward_pass)[0, -1].softmax(-1)
        word = TARGET_VOCABULARY[int(probabilities.argmax())]
        return TranslationStep(word, probabilities, tuple(forward_pass.records or ()))

    def translate_batch(self, sentences: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Returns the greedy translations of many sentences at once."""
        lengths = torch.tensor([len(words) for words in sentences])
        memory = self.model.encode(source_ids(sentences), ForwardPass(lengths))
        forward_pass = ForwardPass(lengths, KeyValueCache())
        french = torch.full((len(sentences), 1), START)
        while french.shape[1] <= MAX_POSITIONS and not (french == END).any(-1).all():
            word = self.model.decode(french, memory, forward_pass)[:, -1].argmax(-1)
            french = torch.cat([french, word[:, None]], -1)
        return [tuple(TARGET_VOCABULARY[word] for word in takewhile(END.__ne__, row[1:])) for row in french.tolist()]

    def exact_match(self, sentences: Sequence[Sentence]) -> float:
        """Returns the share of sentences whose greedy translation is right in every word."""
        translations = self.translate_batch([one.english for one in sentences])
        return sum(french == one.french for french, one in zip(translations, sentences, strict=True)) / len(sentences)

    def agreement(self, sentences: Sequence[Sentence]) -> Float[Tensor, "layers heads"]:
        """Returns the agreement of each head of the encoder–decoder attention with the true alignment, under teacher
        forcing.

        It is the share of French words whose row has its largest weight on an English word that they are aligned with.
        """
        lengths = torch.tensor([len(one.english) for one in sentences])
        records: list[AttentionRecord] = []
        forward_pass = ForwardPass(lengths=lengths, records=records)
        memory = self.model.encode(source_ids([one.english for one in sentences]), forward_pass)
        self.model.decode(target_ids([one.french for one in sentences]), memory, forward_pass)
        # (batch, heads, words, layers)
        keys = torch.stack([one.weights.argmax(-1) for one in records if one.use == "cross"], -1)
        agrees = [
            torch.isin(keys[i, :, j], torch.tensor(places))
            for i, one in enumerate(sentences)
            for j, places in enumerate(one.alignment)
        ]
        return torch.stack(agrees).float().mean(0).T


def source_ids(sentences: Sequence[tuple[str, ...]]) -> Int[Tensor, "sentences words"]:
    """Returns English words as ids, padded to the longest sentence.

    Example:
        >>> source_ids([("the", "cat", "sleeps", "."), ("I", "sleep", ".")]).shape
        torch.Size([2, 4])
    """
    return _padded([[SOURCE_IDS[word] for word in words] for words in sentences])


def target_ids(sentences: Sequence[tuple[str, ...]]) -> Int[Tensor, "sentences words"]:
    """Returns French words as ids between <start> and <end>, padded to the longest sentence."""
    return _padded([[START, *(TARGET_IDS[word] for word in words), END] for words in sentences])


def detokenize(french: Sequence[str]) -> str:
    """Returns French words as text, without a space after an apostrophe and before a full stop.

    Example:
        >>> detokenize(["l'", "enfant", "dort", "."])
        "l'enfant dort."
    """
    return re.sub(r"' | (?=\.)", lambda match: match.group().strip(), " ".join(french))


def _padded(rows: list[list[int]]) -> Int[Tensor, "sentences words"]:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
