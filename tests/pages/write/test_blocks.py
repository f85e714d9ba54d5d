"""What Write shows: the text, the map and the branches, and the roles of a chat along the axes."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from attnviz.base.formatting import SPACE
from attnviz.models.token_choices import TokenChoice
from attnviz.models.written_text import Ending
from attnviz.page.blocks import Block, Figure, Listing, OtherStates, PlayedText, Summary, every_block, page_view
from attnviz.page.head_view import head_view
from attnviz.page.nodes import page_nodes
from attnviz.page.selection import Selection
from attnviz.pages.catalogue import BLOCKS
from attnviz.pages.write.blocks import ENDINGS, WrittenRows, growing_map, role_labels, with_roles, write_blocks
from attnviz.pages.write.state import WriteState, decoder_layers
from attnviz.sources.written import Written
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


def blocks(state, kind: type[Block]):
    return [block for block in every_block(write_blocks(state)) if isinstance(block, kind)]


def test_the_played_text_has_the_weights_of_the_head_and_pins_its_rows(saved) -> None:
    state = WriteState(model=str(saved / "llama"), prompt="the cat sat", length=4, layer=1, head=2)
    [text], [figure, *_others] = blocks(state, PlayedText), blocks(state, Figure)
    rows, content = state.layers[1].maps([2], slice(None))[0], text.content()
    assert content["tokens"] == state.text.parts
    assert figure.pinned == state.row == len(rows) - 1
    assert text.rows == len(rows)
    np.testing.assert_allclose(content["rows"], rows[-len(content["steps"]) :], rtol=1e-6)
    assert WriteState.read(text.opens(2)).pinned == 2
    assert blocks(WriteState.read(text.opens(2)), PlayedText)[0].pinned == 2
    assert text.opens(None) == state.link_with(pinned=None)


def test_the_quantities_are_those_of_the_pinned_query(saved) -> None:
    state = WriteState(model=str(saved / "llama"), prompt="the cat sat", length=4, layer=1, head=2, pinned=2)
    view = page_view(write_blocks(state))
    row = state.layers[1].maps([2], slice(2, 3))[0, 0].nan_to_num()
    assert [*view.quantities.values()][: len(row)] == pytest.approx(row.tolist())
    assert view.panels[0].row == 2
    assert BLOCKS["write"].view(state).quantities == view.quantities


def test_a_chat_has_turns_without_the_tokens_of_its_template(copied) -> None:
    source = chat(add_chat_template(copied("llama")))
    state = WriteState(model=source.name, prompt=source.prompt, chat=True, system=source.system, length=3)
    content, text = blocks(state, PlayedText)[0].content(), state.text
    assert [*content["turns"].values()] == ["system", "user", "assistant"]
    assert content["hidden"] == state.hidden_tokens
    assert sum(map(bool, text.roles)) == len(text.tokens) - len(state.hidden_tokens)
    assert {text.roles[i] for i in state.hidden_tokens} == {""}
    shown = blocks(state.updated(template_tokens=True), PlayedText)[0].content()
    assert (shown["turns"], shown["hidden"]) == ({}, [])


def test_branches_are_links_to_their_texts(saved) -> None:
    first, second = (TokenChoice(0, (5,)),), (TokenChoice(0, (5,)), TokenChoice(2, (7,)))
    state = WriteState(model=str(saved / "llama"), prompt="the cat sat", length=4, choices=second, branches=(first,))
    [others] = blocks(state, OtherStates)
    [listing] = [block for block in others.blocks if isinstance(block, Listing)]
    assert [len(indent) for indent, _anchor in listing.items] == [0, 1, 2]
    assert [anchor.is_current for _indent, anchor in listing.items] == [False, False, True]
    opened = [WriteState.read(anchor.link) for _indent, anchor in listing.items]
    assert [each.choices for each in opened] == [(), first, second]
    assert all(each.branches == (first, second) for each in opened)
    assert all(each.prompt == "the cat sat" for each in opened)


def test_while_a_text_is_written_its_map_has_room_and_no_numbers(saved) -> None:
    state = WriteState(model=str(saved / "llama"), prompt="the cat sat", length=6)
    steps = state.text.steps[:2]
    half = state.with_text(replace(state.text, steps=steps, ending=Ending.NONE))
    del half.values["pinned"]
    [figure, *_others] = blocks(half, Figure)
    assert len(figure.picture.spec.query_tokens) == len(half.layers[0].inputs.query_tokens) + 4
    assert figure.opens is None
    assert not blocks(half, Summary)
    assert page_nodes(write_blocks(state), "key").cells  # of the whole, rows open states
