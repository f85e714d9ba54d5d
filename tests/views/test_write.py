"""What Write shows: the roles of a chat along the axes of its maps."""

import re
from html import unescape

import pytest

from attnviz.formatting import SPACE
from attnviz.models.written_text import Ending
from attnviz.sources.written import Written
from attnviz.state.selection import Selection
from attnviz.state.write import decoder_layers
from attnviz.views.head_view import head_view
from attnviz.views.write import ENDINGS, WrittenRows, growing_map, role_labels, with_roles
from tests.support.tiny_models import add_chat_template

SAID = ["system: the", "user: a", "assistant: the", "user: the"]


def chat(folder, tokens=3):
    earlier = ("a dog", "the lazy dog")
    return Written("the fox", str(folder), True, "the fox stops", tokens=tokens, earlier=earlier)


def roles(labels):
    """The labels with a role, without marks of spaces, and their positions."""
    bold = {i: re.fullmatch("<b>(.*)</b>", label) for i, label in enumerate(labels)}
    return {i: unescape(match[1]).replace(SPACE, "") for i, match in bold.items() if match}


def named(source, index, grows=False):
    """The text, and the labels with roles of the queries and of the keys of a layer of the decoder."""
    text = source.write()
    selection = Selection(source=source, layers=decoder_layers(text), index=index, head=0)
    shown = head_view(selection).head_map
    spec = with_roles(growing_map(shown, 4) if grows else shown.chart(largest=1.0), WrittenRows(text, selection)).spec
    return text, roles(spec.query_labels), roles(spec.key_labels)


@pytest.mark.parametrize("grows", [False, True])
def test_each_message_of_a_decoder_has_its_role_on_both_axes(copied, grows):
    text, queries, keys = named(chat(add_chat_template(copied("llama"))), 0, grows)
    first = text.steps[0].token.strip()
    assert [*queries] == [*keys]
    assert [*keys.values()] == [*SAID, f"assistant: {first}"]
    assert [*queries.values()] == [*SAID, f"assistant: {first} → {text.steps[1].token.strip()}"]
    assert [*keys][-1] == text.prompt_length
    for i, label in keys.items():
        role, token = label.split(": ")
        assert (text.roles[i], text.tokens[i].strip()) == (role, token)


def test_of_the_first_written_token_there_is_no_row_yet(copied):
    _text, queries, keys = named(chat(add_chat_template(copied("llama")), tokens=1), 0, grows=True)
    assert [*queries.values()] == [*keys.values()] == SAID


def test_an_encoder_has_the_messages_and_a_decoder_its_answer(copied):
    source = chat(add_chat_template(copied("t5")))
    layers = decoder_layers(source.write())
    assert [layer.name for layer in layers] == ["decoder 0", "decoder 0 cross", "decoder 1", "decoder 1 cross"]
    text, queries, keys = named(source, 1)
    assert [label.split(": ")[0] for label in keys.values()] == ["system", "user", "assistant", "user"]
    assert [text.roles[i] for i in keys] == ["system", "user", "assistant", "user"]
    assert [*queries] == [1]  # after the token with which every text of the decoder starts
    assert queries[1].startswith("assistant: ")
    _text, queries, keys = named(source, 0)
    assert [*queries] == [*keys] == [1]


def test_a_text_that_is_not_a_chat_has_no_roles(saved):
    text, queries, keys = named(Written("the fox", str(saved / "llama"), tokens=3), 0)
    assert not queries
    assert not keys
    assert role_labels(["a", "b"], text, 0) == ("a", "b")


def test_each_way_to_end_has_its_sentence() -> None:
    assert {*ENDINGS} == {*Ending}
