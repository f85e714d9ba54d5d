"""A transformers model with what turns a text or a picture into its input."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.capture import capture, model_lock
from attnviz.layer import Trace
from attnviz.models import image_inputs, text_inputs
from attnviz.models.refusals import INPUT_ERRORS, reason
from attnviz.models.text_inputs import Reading

BYTES_KEPT = 256 << 20  # of the layers of the latest examples, for each model


Asked = tuple[str, str | None, str | None]  # the text, the second text, the picture's digest


class Model:
    """A transformers model that reads: one forward at a time, the layers of the latest examples kept.

    `outputs` says what `output` gives: "next token" (a distribution's logits), "sentence vector", or "" (nothing).
    `lock` is held during every forward, a capture's too; hold it while you change the model for one of your own.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        outputs: str = "",
        pooling: str = "",
        notes: tuple[str, ...] = (),
        folder: Path | None = None,
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.outputs, self.pooling, self.notes = outputs, pooling, notes
        self.limit = text_inputs.limit(model, tokenizer)
        self.size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
        self.view = image_inputs.view(model.config, folder)
        self.lock = model_lock(model)
        self._kept: OrderedDict[Asked, tuple[Reading, Trace]] = OrderedDict()

    @property
    def reads(self) -> str:
        """What it is to be given: "text", "picture" or "text and picture"."""
        return text_inputs.reads(self.model)

    @property
    def decodes(self) -> bool:
        """Whether it has an encoder and a decoder: then the second text of a pair is the decoder's."""
        return bool(getattr(self.model.config, "is_encoder_decoder", False))

    def layers(self, text: str = "", pair: str | None = None, image: bytes | None = None) -> Trace:
        """Every layer's attention for this example; the same example gets the same layers while they are kept.

        `pair` is a second text: that of a pair of sentences, or what the decoder has written so far; without it the
        decoder goes on by itself, taking the likeliest token each time. `image` is a picture as a file's bytes, for
        models that see; without it they are shown a drawing. Raises ValueError, in words, for what cannot be read.
        """
        pair, asked = _asked(text, pair, image)
        with self.lock:
            if asked not in self._kept:
                with self._in_words():
                    given = self._given(text, pair, image)
                    target = given.target or text_inputs.Tokens()
                    # The head comes after all attention, and for a long text it would take more than everything else.
                    layers = capture(
                        self.model if self.decodes else self.model.base_model,
                        given.batch,
                        tokens=given.source.tokens,
                        special=given.source.special,
                        decoder_tokens=target.tokens,
                        decoder_special=target.special,
                    )
                if not layers:
                    raise ValueError(f"Nothing of {self.name} can be shown. {' '.join(layers.missing)}")
                if given.patches:
                    layers = replace(layers, layers=tuple(image_inputs.named(layer, given.patches) for layer in layers))
                self._keep(asked, given, layers)
            self._kept.move_to_end(asked)
            return self._kept[asked][1]

    def reading(self, text: str = "", pair: str | None = None, image: bytes | None = None) -> Reading:
        """The same example as the model takes it: its batch, its tokens, and which text each is from."""
        pair, asked = _asked(text, pair, image)
        with self.lock, self._in_words():
            return self._kept[asked][0] if asked in self._kept else self._given(text, pair, image)

    @torch.no_grad()
    def output(self, read: Reading) -> Float[Tensor, " numbers"]:
        """The logits of the next token, or the sentence's vector. Raises ValueError where the model has neither."""
        if not self.outputs:
            raise ValueError(f"{self.name} gives neither a next token nor a vector of the whole sentence.")
        with self.lock:
            return self.said(self.model(**self.given(read)))

    def given(self, read: Reading) -> dict[str, Any]:
        """What a forward is given in whose result `said` finds the output."""
        last = self.outputs == "next token" and "logits_to_keep" in text_inputs.taken(self.model)
        return {**read.batch, "logits_to_keep": 1} if last else dict(read.batch)

    def said(self, result: Any) -> Float[Tensor, " numbers"]:
        """The output, as `output` gives it, in what a forward of the model has returned."""
        if self.outputs == "next token":
            logits: Tensor = result.logits[0, -1].float()
            return logits
        states: Tensor = result.last_hidden_state[0].float()
        return states.mean(0) if self.pooling == "mean" else states[0]

    def _given(self, text: str, pair: str | None, image: bytes | None) -> Reading:
        return text_inputs.with_target(self, text_inputs.read(self, text, pair, image), pair)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except NotImplementedError:
            raise
        except INPUT_ERRORS as error:
            raise ValueError(f"{self.name} fails on this example. The reason given is: {reason(error)}") from error

    def _keep(self, asked: Asked, read: Reading, layers: Trace) -> None:
        self._kept[asked] = read, layers
        while len(self._kept) > 1 and sum(_bytes(kept) for _, kept in self._kept.values()) > BYTES_KEPT:
            self._kept.popitem(last=False)


def _asked(text: str, pair: str | None, image: bytes | None) -> tuple[str | None, Asked]:
    """The second text, if there is one, and what tells one example from another."""
    pair = pair if pair and pair.strip() else None
    return pair, (text, pair, hashlib.sha256(image).hexdigest() if image is not None else None)


def _bytes(held: Any) -> int:
    """The memory that tensors take, wherever in a value they are."""
    if isinstance(held, Tensor):
        return held.untyped_storage().nbytes()
    if isinstance(held, list | tuple):
        return sum(map(_bytes, held)) if not held or not isinstance(held[0], str | int | float | bool) else 0
    return sum(_bytes(getattr(held, field.name)) for field in fields(held)) if is_dataclass(held) else 0
