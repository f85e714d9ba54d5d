"""A transformers model with its tokenizer and picture input."""

import copy
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.base.formatting import quoted
from attnviz.base.language import N_, _, later, value_error
from attnviz.base.text import continuation, shorten_token
from attnviz.base.turns import turn
from attnviz.models.image_inputs import ImageInputs, image_inputs
from attnviz.models.image_text_inputs import ImageTextInputs
from attnviz.models.input_image import InputImage
from attnviz.models.number_types import quantized_bits
from attnviz.models.random_tokens import repeated_random_tokens
from attnviz.models.readable_errors import INPUT_ERRORS, reason
from attnviz.models.text_inputs import GENERATED, MOST_TOKENS, TextInputs, Tokens
from attnviz.models.tokenizer_process import TokenizerProcess
from attnviz.trace import Trace
from attnviz.trace.memory import layer_bytes
from attnviz.tracing import capture, model_lock
from attnviz.tracing.forward_arguments import forward_parameters

MOST_MISSING = 3  # sentences about layers, if none can be shown
MAX_TRACE_BYTES = 256 << 20  # of the layers of the latest examples, for each model
MOST_LARGE = 2  # examples of more than half of these bytes: as many as stand side by side
SHORT_TEXT = 1_000  # characters, which a model reads in less time than a person waits

ExampleKey = tuple[str, str | None, str | None]  # the text, the second text, the picture's digest


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """One example: the batch for the model, and the tokens for the axes."""

    batch: dict[str, Tensor]
    source: Tokens = field(default_factory=Tokens)  # of the text, or of a pair of texts one after the other
    target: Tokens | None = None  # of what the decoder has written so far, where there is one


class LoadedModel:
    """A transformers model: one forward pass at a time, but that a short text does not wait for a long one; the layers
    of the latest examples are cached.

    `outputs` is what `output` returns: "next token", "labels" or "token labels" (logits), "sentence vector", or ""
    (nothing). `lock` is held during every forward pass, including captures; hold it while you change the model.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        outputs: str = "",
        pooling: str = "",
        notes: tuple[Callable[[], str], ...] = (),
        folder: Path | None = None,
        most_tokens: int = MOST_TOKENS,
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.outputs, self.pooling, self._notes = outputs, pooling, notes
        self.parameter_count = model.num_parameters()
        self.size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
        self.text_inputs = TextInputs(name, model, tokenizer, most_tokens)
        self.image_inputs: ImageInputs | ImageTextInputs | None = image_inputs(model.config, folder)
        if isinstance(tokenizer, TokenizerProcess) and tokenizer.images:
            self._take_images(tokenizer)
        self.lock = model_lock(model)
        # Made before anybody runs the model: later, a copy could have the hooks of whoever is running it.
        self._twin = _twin(model) if self.is_decoder_only and not hasattr(model, "hf_device_map") else None
        self._reading = threading.Lock()  # of the examples
        self._examples: OrderedDict[ExampleKey, tuple[ModelInputs, Trace, int]] = OrderedDict()  # and bytes
        self.writers: Any = None  # of the texts that can be continued (written_text.writers_of); they end with it

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the model."""
        return tuple(note() for note in self._notes)

    @property
    def precision(self) -> str:
        """How precise its weights are, such as “4-bit, from a GGUF file”; empty where they are as they were saved."""
        bits = quantized_bits(getattr(self.model.config, "gguf_type", ""))
        return _("{bits}-bit, from a GGUF file", bits=bits) if bits else ""

    @property
    def title(self) -> str:
        """Its name, with the precision of its weights where that is less than the original’s."""
        return f"{self.name} ({self.precision})" if self.precision else self.name

    @property
    def limit(self) -> int:
        """The largest number of tokens."""
        return self.text_inputs.limit

    @property
    def modality(self) -> str:
        """The input of the model: "text", "picture" or "text and picture"."""
        names, config = forward_parameters(self.model), self.model.config
        if "input_ids" not in names:
            return "picture"
        if self.puts_images_into_texts:
            return "text and picture"
        # Two towers, as CLIP has them, or a picture in one row with the text, as ViLT has it, need both; a language
        # model that can also see has a token that stands for a picture, and reads without one.
        towers = hasattr(config, "text_config") and hasattr(config, "vision_config")
        in_a_row = hasattr(config, "image_size") and hasattr(config, "patch_size")
        sees = any(hasattr(config, name) for name in ("image_token_id", "image_token_index"))
        return "text and picture" if (towers or in_a_row) and not sees and "pixel_values" in names else "text"

    @property
    def puts_images_into_texts(self) -> bool:
        """Whether the model is a language model that can also see, whose processor is known."""
        return isinstance(self.image_inputs, ImageTextInputs)

    @property
    def reads_text_alone(self) -> bool:
        """Whether the model reads a text without an image."""
        return self.modality == "text" or self.puts_images_into_texts

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the model has an encoder and a decoder; the second text of a pair is then the decoder's."""
        return bool(getattr(self.model.config, "is_encoder_decoder", False))

    @property
    def has_chat_template(self) -> bool:
        """Whether the model reads chats: its tokenizer says how they are written."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    @property
    def is_decoder_only(self) -> bool:
        """Whether the model is a language model without an encoder."""
        return self.outputs == "next token" and not self.is_encoder_decoder

    @property
    def labels(self) -> list[str]:
        """The names of the labels of a classifier, in the order of their logits."""
        config = self.model.config
        return [shorten_token(str(config.id2label.get(i, i))) for i in range(config.num_labels)]

    def layers(
        self,
        text: str = "",
        pair: str | None = None,
        image: bytes | None = None,
        reader: Callable[..., tuple[ModelInputs, Trace] | None] | None = None,
    ) -> Trace:
        """Returns the attention of every layer for an example, from the cache if possible.

        `pair` is the second sentence of a pair, or what the decoder has written; without it, the decoder generates
        greedily. `image` is the content of a picture file, for vision models; without it, they get the example drawing.
        A `reader`, such as `CaptureProcess.read`, reads the example first, if it can. Raises ValueError if the model
        cannot read it.
        """
        pair, key = _example_key(text, pair, image)
        if (cached := self._find(key)) is not None:  # without waiting for a forward pass of somebody else
            return cached[1]
        if reader is not None and (read := reader(text, pair, image)) is not None:
            self._store(key, *read)
            return read[1]
        twin = self._twin if len(text) + len(pair or "") <= SHORT_TEXT else None
        with self._free_model(twin) as model:
            if (cached := self._find(key)) is not None:  # captured by another thread meanwhile
                return cached[1]
            with self.refusals():
                inputs = self._encode(text, pair, image)
                trace = self._capture(inputs, model)
            if not trace:
                raise value_error(
                    "Nothing of {name} can be shown. {reasons}",
                    name=self.name,
                    reasons=" ".join(trace.missing[:MOST_MISSING]),
                )
            self._store(key, inputs, trace)
            return trace

    def layers_of_random_tokens(self, seed: int) -> Trace:
        """Returns the attention of every layer for `repeated_random_tokens`.

        Raises ValueError if the model cannot read them.
        """
        with self.lock:
            with self.refusals():
                example = repeated_random_tokens(self.text_inputs, seed, decoder=self.is_encoder_decoder)
            return self._capture(ModelInputs(*example))

    def save_trace(
        self, folder: str | Path, text: str, layers: Sequence[int] | None = None, chunk: int | None = None
    ) -> Trace:
        """Writes the attention of a text into a folder while the model runs, and returns it, mapped from there.

        `layers` are the indices of those that are kept; a decoder reads `chunk` tokens at a time, if that is given.
        Raises ValueError if the model cannot read the text, or the folder cannot be written.
        """
        with self.lock:
            with self.refusals():
                inputs = self._encode(text, None, None)
            return self._capture(inputs, folder=folder, layers=layers, chunk=chunk)

    def forget_examples(self) -> None:
        """Frees the memory of the examples."""
        with self._reading:
            self._examples.clear()
            self.writers = None

    def has_captured(self, text: str = "", pair: str | None = None, image: bytes | None = None) -> bool:
        """Returns whether the attention of an example is in the cache."""
        return _example_key(text, pair, image)[1] in self._examples

    def input_image(self, image: bytes | None) -> InputImage | None:
        """Returns an image as the model sees it; None of a model that sees none, or of unknown size. Raises ValueError
        if it cannot be read."""
        if self.image_inputs is None or "picture" not in self.modality:
            return None
        with self.refusals():
            return self.image_inputs.input_image(image)  # type: ignore[arg-type]  # a language model is always given one

    def encode(self, text: str = "", pair: str | None = None, image: bytes | None = None) -> ModelInputs:
        """Returns the inputs of an example: its batch and its tokens."""
        pair, key = _example_key(text, pair, image)
        if (cached := self._find(key)) is not None:
            return cached[0]
        writes = self.is_encoder_decoder and pair is None and self.outputs == "next token"
        work = self.parameter_count * GENERATED // 10 if writes else 0  # all weights are read for each token
        with turn(work), self.lock, self.refusals():
            return self._encode(text, pair, image)

    @torch.no_grad()
    def output(self, inputs: ModelInputs) -> Float[Tensor, " numbers"]:
        """Returns the logits of the next token or of the labels, or the vector of the sentence. Logits of labels of
        tokens come one token after the other. Raises ValueError if the model has none of them."""
        if not self.outputs:
            raise value_error(
                "{name} gives neither a next token, nor labels, nor a vector of the whole sentence.", name=self.name
            )
        with self.lock:
            return self.extract_output(self.model(**self.forward_arguments(inputs)))

    def forward_arguments(self, inputs: ModelInputs) -> dict[str, Any]:
        """Returns the arguments of a forward pass from whose result `extract_output` gets the output."""
        last = self.outputs == "next token" and "logits_to_keep" in forward_parameters(self.model)
        return {**inputs.batch, "logits_to_keep": 1} if last else dict(inputs.batch)

    def extract_output(self, result: Any) -> Float[Tensor, " numbers"]:
        """Returns the output, as `output`, from the result of a forward pass."""
        if self.outputs == "next token":
            return result.logits[0, -1].float()
        if self.outputs in ("labels", "token labels"):
            return result.logits[0].float().flatten()
        states = result.last_hidden_state[0].float()
        return states.mean(0) if self.pooling == "mean" else states[0]

    def _encode(self, text: str, pair: str | None, image: bytes | None) -> ModelInputs:
        batch: dict[str, Tensor] = {}
        source, target = Tokens(), None
        modality = self.modality
        if isinstance(self.image_inputs, ImageTextInputs):
            if image is not None:
                text += continuation(text, pair) if pair else ""
                return ModelInputs(*self.image_inputs.encode(text, image)[:2])
        elif "picture" in modality:
            if self.image_inputs is None:
                raise value_error(
                    "{name} does not say how large the images are that it sees, up to 4,096 pixels.",
                    name=self.name,
                )
            batch["pixel_values"] = self.image_inputs.pixels(image).to(self.model.dtype)
        elif image is not None:
            raise value_error("{name} reads text, and sees no images.", name=self.name)
        if "text" in modality:
            if pair and self.is_decoder_only:
                pair = continuation(text, pair)
            encoded, source = self.text_inputs.encode(text, None if self.is_encoder_decoder else pair)
            batch |= encoded
        elif text.strip() or pair:
            raise value_error("{name} sees images, and reads no text.", name=self.name)
        if self.is_encoder_decoder:
            ids, target = self.text_inputs.decoder_inputs(batch, pair, generated=self.outputs == "next token")
            batch["decoder_input_ids"] = ids
        return ModelInputs(batch, source, target)

    def _take_images(self, tokenizer: TokenizerProcess) -> None:
        """Makes the model read images in texts, or notes why it does not."""
        if problem := tokenizer.images.get("problem"):
            self._notes += (
                later(
                    N_(
                        "{name} sees images, too, but its image processor is not supported here ({problem}), so it "
                        "reads the text alone."
                    ),
                    name=self.name,
                    problem=quoted(problem, 200),
                ),
            )
        elif "pixel_values" in forward_parameters(self.model) and not self.is_encoder_decoder:
            self.image_inputs = ImageTextInputs(self.text_inputs, tokenizer)

    @contextmanager
    def _free_model(self, twin: Any) -> Iterator[Any]:
        """Gives the model when no forward pass of it is under way; or its twin, if that is given, at once."""
        if twin is not None and not self.lock.acquire(blocking=False):
            with model_lock(twin):
                yield twin
            return
        if twin is None:
            self.lock.acquire()
        try:
            yield self.model
        finally:
            self.lock.release()

    def _capture(self, inputs: ModelInputs, model: Any = None, **options: Any) -> Trace:
        model, target = model or self.model, inputs.target or Tokens()
        # The head comes after all attention, and for a long text it would take more than everything else.
        return capture(
            model if self.is_encoder_decoder else _without_head(model),
            {name: tensor.to(self.model.device) for name, tensor in inputs.batch.items()},
            tokens=inputs.source.tokens,
            special=inputs.source.special,
            decoder_tokens=target.tokens,
            decoder_special=target.special,
            **options,
        )

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Raises ValueError with a sentence if the model fails on an example."""
        try:
            yield
        except NotImplementedError:
            raise
        except INPUT_ERRORS as error:
            raise value_error(
                "{name} fails on this example. The reason given is: {reason}", name=self.name, reason=reason(error)
            ) from error

    def _find(self, key: ExampleKey) -> tuple[ModelInputs, Trace] | None:
        with self._reading:
            if key not in self._examples:
                return None
            self._examples.move_to_end(key)
            inputs, trace, _ = self._examples[key]
            return inputs, trace

    def _store(self, key: ExampleKey, inputs: ModelInputs, trace: Trace) -> None:
        size = layer_bytes(trace)
        with self._reading:
            self._examples[key] = inputs, trace, size
            # Neither do large examples drop small ones, which others look at, nor small ones large ones, which take
            # long to be read again.
            large = [one for one, (*_, size) in self._examples.items() if size > MAX_TRACE_BYTES / 2]
            small = [one for one in self._examples if one not in large]
            dropped = large[:-MOST_LARGE]
            while sum(self._examples[one][2] for one in small) > MAX_TRACE_BYTES:
                dropped.append(small.pop(0))
            for one in dropped:
                del self._examples[one]


def _twin(model: Any) -> Any:
    """Returns the same model with the same parameters in modules of its own, so that both can run at a time."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared)


def _example_key(text: str, pair: str | None, image: bytes | None) -> tuple[str | None, ExampleKey]:
    """Returns the second text, or None, and a key for the example."""
    pair = pair if pair and pair.strip() else None
    return pair, (text, pair, hashlib.sha256(image).hexdigest() if image is not None else None)


def _without_head(model: Any) -> Any:
    """Returns the part of a model that all its heads share. That of DINOv3 has an encoder of the name of such a part,
    which reads no pixels."""
    base = model.base_model
    return base if model.main_input_name in forward_parameters(base) else model
