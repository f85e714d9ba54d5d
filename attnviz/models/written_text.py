"""Texts that a language model writes after a prompt, which can be continued, and branch where a reader chooses."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise

from torch import Tensor

from attnviz.base.formatting import grouped
from attnviz.base.language import value_error
from attnviz.base.settings import writing_seconds, written_tokens
from attnviz.base.text import continuation
from attnviz.base.token_texts import joined_bytes, vocabulary_tokens
from attnviz.models.chat import ROLES, ChatMessage, encode_chat
from attnviz.models.generation import Step, writing
from attnviz.models.model import LoadedModel
from attnviz.models.sampling import Sampler
from attnviz.models.text_inputs import Tokens
from attnviz.models.token_choices import TokenChoice
from attnviz.trace import Trace
from attnviz.trace.memory import layer_bytes

MOST_READ = 2_048  # tokens of a prompt: each takes about 0.1 MB in all layers of a small model
MAX_BYTES = 256 << 20  # of the layers of a model's texts that can be continued
_lock = threading.Lock()
OnStep = Callable[[float, "WrittenText"], None]  # gets the share that is written, and the text so far


class Ending(StrEnum):
    """Why a text is not written on."""

    NONE = ""  # it is being written
    COUNT = "count"  # it has as many tokens as were asked for
    END_TOKEN = "end token"  # noqa: S105 - not a password
    STOP_STRING = "stop string"
    LIMIT = "limit"  # of the positions of the model, or of the tokens that a host allows
    SECONDS = "seconds"  # the time that a host allows has passed


@dataclass(frozen=True, eq=False)
class WrittenText:
    """A prompt and what a model has written after it."""

    prompt_tokens: tuple[str, ...]  # before the first written one; of an encoder those that it reads, and the start
    special: tuple[int, ...]  # of them, those that stand for no text
    encoder_length: int  # tokens of the prompt that an encoder reads; 0 for a decoder alone
    roles: tuple[str, ...]  # of the tokens of a chat; empty of another text
    steps: tuple[Step, ...]
    ending: Ending
    answer: str = ""  # of a chat, what is written, as a text; empty while it is being written
    are_words: bool = False  # the tokens, without the spaces between them
    of_image: tuple[int, ...] = ()  # the positions of the tokens that stand for an image

    @property
    def prompt_length(self) -> int:
        """The number of tokens before the first written one."""
        return len(self.prompt_tokens)

    @property
    def trace(self) -> Trace:
        """The attention of all tokens that the model has read: of all but the last written one."""
        return self.steps[-1].trace

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the prompt, and the written ones."""
        return (*self.prompt_tokens, *(step.token for step in self.steps))

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the text that are the tokens, with the spaces between words and with whole characters."""
        if not self.are_words:
            return tuple(joined_bytes(self.tokens))
        return tuple(continuation(before, token) for before, token in pairwise(("", *self.tokens)))


def encode_prompt(
    model: LoadedModel, prompt: str | Sequence[ChatMessage], image: bytes | None = None
) -> tuple[dict[str, Tensor], Tokens, tuple[str, ...]]:
    """Returns the batch of a prompt, which may be about an image, its tokens, and of a chat their roles."""
    if not isinstance(prompt, str):
        return encode_chat(model, prompt, image)
    if image is None:
        return *model.text_inputs.encode(prompt), ()
    inputs = model.encode(prompt, image=image)
    return inputs.batch, inputs.source, ()


class Writer:
    """Writes one text; its tokens are kept, so that it can be continued."""

    def __init__(
        self, model: LoadedModel, prompt: str | Sequence[ChatMessage], sampling: Sampler,
        choices: Sequence[TokenChoice], image: bytes | None = None,
    ) -> None:  # fmt: skip
        self.steps: list[Step] = []
        self._model, self._sampling, self._choices = model, sampling, tuple(choices)
        self._batch, self._tokens, self.roles = encode_prompt(model, prompt, image)
        tokens, special = self._tokens.tokens, self._tokens.special
        own = len(tokens)
        start: tuple[str, ...] = ()
        if model.is_encoder_decoder:
            start = (vocabulary_tokens(model.tokenizer, [model.text_inputs.start_token()])[0].name,)
        self.encoder_length = own if start else 0
        self.prompt_tokens = (*tokens, *start)
        self.roles = self.roles and (*self.roles, *[""] * len(start))
        self.special = (*special, *range(own, own + len(start)))
        limit = min(model.limit - 1, MOST_READ)
        if own > limit:
            if image is not None:
                raise value_error(
                    "The image and the prompt have {count} tokens together; {name} writes after at most {limit} here. "
                    "Take a smaller image, or shorten the prompt.",
                    count=grouped(own),
                    name=model.name,
                    limit=grouped(limit),
                )
            raise value_error(
                "This prompt has {count} tokens; {name} writes after at most {limit} here. Shorten it.",
                count=grouped(own),
                name=model.name,
                limit=grouped(limit),
            )
        self._limit = min(written_tokens(), model.limit - (1 if start else own))
        self._generator: Iterator[Step] | None = None
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """The bytes of the layers."""
        return layer_bytes(self.steps[-1].trace) if self.steps else 0

    def begin_with(self, other: "Writer") -> None:
        """Takes the tokens before the last choice from a text that is the same up to there: they are read at once."""
        *_others, last = self._choices
        if len(other.steps) >= last.position:
            known = [step.token_id for step in other.steps[: last.position]]
            self._choices = (TokenChoice(0, (*known, *last.ids)),)

    def write(self, count: int, progress: OnStep = lambda share, text: None) -> WrittenText:
        """Writes until there are `count` tokens, or it ends; calls `progress` with each token."""
        ending, end = Ending.COUNT, time.monotonic() + writing_seconds()
        for number in range(count):
            if number < len(self.steps):
                continue
            if number >= self._limit:
                ending = Ending.LIMIT
                break
            if self.steps and time.monotonic() > end:
                ending = Ending.SECONDS
                break
            if not self._write_to(number):
                ending = Ending(self.steps[-1].end)
                break
            progress(len(self.steps) / count, self._text(count, Ending.NONE))
        return self._text(count, ending)

    def _write_to(self, number: int) -> bool:
        """Writes the token of this number, if nobody else has meanwhile; returns whether there is one."""
        with self._lock:
            while number >= len(self.steps):
                self._generator = self._generator or self._begin()
                try:
                    step = next(self._generator, None)
                except BaseException:
                    # A generator that has failed gives nothing more: whoever asks next begins anew.
                    self._generator, self.steps = None, []
                    raise
                if step is None:
                    return False
                self.steps.append(step)
            return True

    def _begin(self) -> Iterator[Step]:
        return writing(
            self._model.model, self._model.tokenizer, self._batch, self._limit, **asdict(self._sampling),
            forced={one.position: one.ids for one in self._choices},
            tokens=self._tokens.tokens, special=self._tokens.special,
        )  # fmt: skip

    def _text(self, count: int, ending: Ending) -> WrittenText:
        steps, roles, answer = tuple(self.steps[:count]), self.roles, ""
        if roles:
            roles = (*roles, *[ROLES[-1]] * len(steps))
            ids = [step.token_id for step in steps]
            answer = str(self._model.tokenizer.decode(ids, skip_special_tokens=True)) if ending else ""
        are_words = getattr(self._model.tokenizer, "tokens_are_words", False)
        return WrittenText(
            self.prompt_tokens, self.special, self.encoder_length, roles, steps, ending, answer, are_words,
            self._tokens.of_image,
        )  # fmt: skip


class Writers:
    """The latest texts, which can be continued, in bounded memory."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._writers: OrderedDict[Hashable, Writer] = OrderedDict()
        self._lock = threading.Lock()

    def write(
        self, count: int, model: LoadedModel, prompt: str | Sequence[ChatMessage], sampling: Sampler,
        choices: Sequence[TokenChoice], progress: OnStep = lambda share, text: None, image: bytes | None = None,
    ) -> WrittenText:  # fmt: skip
        """Returns a text with at most `count` written tokens; only those that are not known yet are written.

        `prompt` is a text, or the messages of a chat, and may be about an `image`, the content of a file. Raises
        ValueError if the model cannot read the prompt.
        """
        base = prompt if isinstance(prompt, str) else tuple(prompt), sampling, image
        key = (*base, tuple(choices))
        writer = self._find(key)
        if writer is None:
            writer = Writer(model, prompt, sampling, choices, image)
            before = self._find((*base, tuple(choices[:-1]))) if choices else None
            if before is not None:
                writer.begin_with(before)
            with self._lock:
                writer = self._writers.setdefault(key, writer)
        text = writer.write(count, progress)
        self._drop_oldest()
        return text

    def _find(self, key: Hashable) -> Writer | None:
        with self._lock:
            if key in self._writers:
                self._writers.move_to_end(key)
            return self._writers.get(key)

    def _drop_oldest(self) -> None:
        with self._lock:
            sizes = [writer.size for writer in self._writers.values()]
            while len(sizes) > 1 and sum(sizes) > self.max_bytes:
                self._writers.popitem(last=False)
                sizes.pop(0)


def writers_of(model: LoadedModel) -> Writers:
    """Returns the texts of a model that can be continued; they are dropped with the model."""
    with _lock:
        model.writers = model.writers or Writers(MAX_BYTES)
        return model.writers
