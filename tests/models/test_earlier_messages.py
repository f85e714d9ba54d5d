"""The messages of a chat in a link: what is written is read, and anything else is refused."""

import pytest

from attnviz.base.text import CHARACTERS
from attnviz.models.earlier_messages import MOST_MESSAGES, format_messages, parse_messages


@pytest.mark.parametrize(
    "messages", [(), ("Hi", ""), ('“Hi”, "you"\n🦊', "<|im_end|>\\"), ("a", "b") * (MOST_MESSAGES // 2)], ids=len
)
def test_messages_are_written_as_they_are_read(messages):
    assert parse_messages(format_messages(messages)) == messages


@pytest.mark.parametrize(
    "text",
    [
        *["x", '["a"', '["a"]', '["a","b","c"]', "[1,2]", '["a",null]', '{"a":"b","c":"d"}', '"ab"', "null", "12"],
        *['["\\ud800","b"]', '["\ud800","b"]', "[" * 9_999, f'["a","{"b" * CHARACTERS}"]'],
        format_messages(("a", "b") * (MOST_MESSAGES // 2 + 1)),
    ],
    ids=lambda text: ascii(text[:9]),
)
def test_other_texts_are_not_messages(text):
    with pytest.raises(ValueError, match="not a list of messages"):
        parse_messages(text)
