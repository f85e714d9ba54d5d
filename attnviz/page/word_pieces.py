"""A note on a text whose words a model reads in pieces."""

import re

from attnviz.base.language import N_, _
from attnviz.models import ENGLISH
from attnviz.sources.model import load_model

WORD = re.compile(r"[^\W\d_]+")
MOST_CHARACTERS = 500  # that are read: some tokenizers are slow
FEWEST_WORDS, PIECES = 3, 1.5  # and per word, from which there is a note; few English sentences have 1.3


def word_pieces_note(name: str, text: str) -> str:
    """Returns how many pieces the words of a text are for a model, if they are many, and whether it has been trained
    on English; else an empty text, as for a text that the model cannot read."""
    model, start = load_model(name), text[:MOST_CHARACTERS]
    words = len(WORD.findall(start))
    if model.tokenizer is None or words < FEWEST_WORDS:
        return ""
    try:
        spans = model.text_inputs.encode(start)[1].spans
    except ValueError:  # whose reason is shown where the text is read
        return ""
    pieces = sum(bool(WORD.search(start[first:end])) for first, end in spans)
    if pieces < PIECES * words:
        return ""
    message = N_("{name} reads the {words} words of this text as {pieces} word pieces.")
    message = (
        message if start == text else N_("{name} reads the first {words} words of this text as {pieces} word pieces.")
    )
    note = _(message, name=model.name, words=words, pieces=pieces)
    return f"{note} {_('It has been trained mostly on English.')}" if name in ENGLISH else note
