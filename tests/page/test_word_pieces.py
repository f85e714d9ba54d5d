"""A note on texts whose words a model reads in pieces."""

import re

import pytest

from attnviz.models import MINILM, SMOLLM2
from attnviz.sources.model import load_model
from attnviz.ui.model_menu import word_pieces_note

GERMAN = "Das Tier überquerte die Straße nicht, weil es zu müde war."
ENGLISH = "The animal didn't cross the street because it was too tired."


@pytest.mark.parametrize("name", [MINILM, SMOLLM2])
def test_german_in_an_english_model_is_said_to_be_read_in_pieces(name) -> None:
    model, words = load_model(name), re.findall(r"(?:^| )\w+", GERMAN)
    pieces = sum(map(len, model.tokenizer(words, add_special_tokens=False)["input_ids"]))
    note = word_pieces_note(name, GERMAN)
    assert (
        f"{model.name} reads the {len(words)} words of this text as {pieces} word pieces. "
        "It has been trained mostly on English." == note
    )
    assert "the first 93 words" in word_pieces_note(name, " ".join([GERMAN] * 40))


@pytest.mark.parametrize("text", [ENGLISH, "", "überqueren", "1 2 3 4 5 6", "x" * 100_000])
def test_other_texts_have_no_note(text) -> None:
    assert word_pieces_note(MINILM, text) == ""
