"""A text that a model has read, whose numbers can be written as sums."""

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import torch

from attnviz.attribution.float32_weights import in_float32
from attnviz.attribution.linearized_pass import LinearizedPass
from attnviz.attribution.named_pass import MOST_BYTES, NamedPass
from attnviz.base.language import value_error
from attnviz.base.token_texts import NUMBER, token_names
from attnviz.tracing.forward_arguments import example_arguments

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel, ModelInputs  # with huggingface_hub
    from attnviz.models.text_inputs import TextInputs

NUMBERED = re.compile(rf"{NUMBER}[0-9]{{1,9}}")


@dataclass(eq=False)
class TextAttribution(NamedPass):
    """A pass of a model over a text, whose tokens are found by what a person types."""

    text_inputs: "TextInputs" = field(kw_only=True)  # without the loaded model, with which the passes of its texts end

    def name(self, token: int) -> str:
        """Returns the text that `token_id` knows a token, or a label, by: a word, or the number of the token."""
        if self.names_labels:
            return self.labels[token]
        return self.text_inputs.token_name(token)

    def token_id(self, name: str) -> int:
        """Returns the token, or the label, of a name; the first token of a word that has several. Raises ValueError if
        there is none."""
        if self.names_labels:
            if name in self.labels:
                return self.labels.index(name)
            raise value_error("{name} is not a label of this model. Choose one of the menu.", name=name)
        return self.typed_token(name)

    def typed_token(self, name: str) -> int:
        """Returns the token of a word, or the first of several, or that of a number. Raises ValueError if there is
        none."""
        if NUMBERED.fullmatch(name):
            return int(name[1:])
        ids = self._typed(name)
        if not ids:
            raise value_error("The model has no token for “{name}”. Type another word.", name=name)
        return ids[0]

    def _typed(self, word: str) -> list[int]:
        try:
            return self.text_inputs.word_ids(word)
        except ValueError:  # of a tokenizer that has no token for it
            return []


def read_text(
    model: "LoadedModel", text: str, written: str | None = None, work: int = 0, most_bytes: int = MOST_BYTES
) -> TextAttribution:
    """Returns the pass of a model over a text; `written` is what a decoder has written, by default what it writes by
    itself, and `work` the number of steps of a forward pass. Raises ValueError if the model cannot read the text, or
    if the pass takes more memory than `most_bytes`."""
    with torch.no_grad():
        inputs = model.encode(text, written)
    return read_inputs(model, inputs, bool(written), work, most_bytes)


def read_inputs(
    model: "LoadedModel",
    inputs: "ModelInputs",
    is_written: bool = False,
    work: int = 0,
    most_bytes: int = MOST_BYTES,
) -> TextAttribution:
    """Returns the pass of a model over the inputs of a text, as `read_text`; `is_written` says whether the decoder has
    written something else than what it writes by itself."""
    exact = in_float32(model.model)
    linearized = LinearizedPass(exact, example_arguments(exact, inputs.batch), most_bytes=most_bytes)
    with model.refusals():
        _ = linearized.without_writers
    target = None if inputs.target is None else inputs.target.tokens
    # Of what a decoder has written by itself a word before its end.
    opening = len(target) // 2 if target is not None and not is_written else -1
    names = partial(token_names, model.tokenizer)
    return TextAttribution(
        linearized, inputs.source.tokens, target, opening, names, work, text_inputs=model.text_inputs
    )
