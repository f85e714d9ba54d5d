"""A second text that a decoder reads right after the first."""

import pytest

from attnviz.base.text import continuation
from attnviz.models.smollm2 import smollm2


@pytest.mark.parametrize(
    ("text", "more", "as_read"),
    [
        ("The capital of France is", "Paris", " Paris"),  # as it is pasted
        ("The capital of France is", " Paris", " Paris"),
        ("The capital of France is ", "Paris", "Paris"),
        ("The capital of France is\n", "Paris", "Paris"),
        ("The answer is:", "42", " 42"),
        ("He said:", "“No”", " “No”"),
        ("to be", ", or not", ", or not"),
        ("well", "-known", "-known"),
        ("(", "see below", "see below"),
        ("“", "No", "No"),
        ("https://", "example.org", "example.org"),
        ("日本の首都は", "東京", "東京"),
        ("", "Paris", "Paris"),
    ],
)
def test_a_continuation_begins_a_word_of_its_own(text: str, more: str, as_read: str) -> None:
    assert continuation(text, more) == as_read


def test_a_pasted_continuation_is_read_as_the_whole_text_is() -> None:
    model, text, more = smollm2(), "The capital of France is", "Paris"
    inputs = model.encode(text, more)
    ids = inputs.batch["input_ids"][0].tolist()
    assert ids == model.encode(f"{text} {more}").batch["input_ids"][0].tolist()
    assert inputs.source.tokens[-1] == " Paris"
    assert inputs.source.segments == (0, 0, 0, 0, 0, 1)
    assert model.layers(text, more)[0].inputs.key_tokens == model.layers(f"{text} {more}")[0].inputs.key_tokens
