"""Texts that an encoder reads by itself, before a decoder writes, as in `generate()`.

A text is recognized by the numbers that the encoder has made of it: so it keeps its tokens where a batch is repeated or
put in another order.
"""

from dataclasses import dataclass

from torch import Tensor

from attnviz.tracing.cached_keys import fingerprints
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.recording import Recording


@dataclass(eq=False)
class EncoderPass:
    """A forward pass of an encoder, with its recording until that is in a trace."""

    recording: Recording | None


@dataclass(frozen=True, eq=False)
class EncodedText:
    """A text that an encoder has read."""

    ids: tuple[int, ...]
    encoding: EncoderPass
    is_recorded: bool  # and not another one of the batch


class EncodedTexts:
    """The texts that the encoder of a model has read, by their fingerprints."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, ...], EncodedText] = {}
        self._last = EncoderPass(None)

    def add(self, recording: Recording, arguments: ForwardArguments, states: Tensor) -> None:
        """Adds the texts of a forward pass of an encoder that made these states (examples, tokens, width)."""
        self._last = EncoderPass(recording)
        for example, prints in enumerate(_fingerprints(states)):
            ids = arguments.ids("input_ids", example)
            self._texts[prints] = EncodedText(ids, self._last, example == recording.example)

    def find(self, states: Tensor, example: int) -> EncodedText | None:
        """Returns the text of an example of which an encoder has made these states (examples, tokens, width)."""
        [prints] = _fingerprints(states[example : example + 1] if len(states) > 1 else states)
        return self._texts.get(prints)

    def take_last(self) -> Recording | None:
        """Returns the last recording if it is in no trace, once."""
        recording, self._last.recording = self._last.recording, None
        return recording


def begin_with_encoder(recording: Recording, text: EncodedText | None) -> None:
    """Begins the recording of a decoder with the layers of the encoder that read its text, once, or says that they are
    missing; also if it is not known what text that is."""
    if text is None:
        names = "" if recording.names.source.tokens else ", and its tokens have their places as names"
        recording.notes.append(f"The encoder is not shown: it ran before{names}. Let it run with the decoder.")
    elif text.encoding.recording is not None:
        if text.is_recorded:
            recording.begin_with(text.encoding.recording)
        else:
            recording.notes.append("The encoder is not shown: it was recorded for another example of its batch.")
        text.encoding.recording = None


def _fingerprints(states: Tensor) -> list[tuple[int, ...]]:
    return [tuple(one) for one in fingerprints(states[:, None]).tolist()]
