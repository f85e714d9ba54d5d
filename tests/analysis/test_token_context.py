"""The text around a token, for each way in which tokenizers mark words."""

import pytest

from attnviz.analysis.token_context import TokenContext, token_context

WORDS = ["The", "cat", "(", "a", "tab", "##by", ")", "sat", ".", "##"]
BPE = ["The", " cat", " (", "a", " tab", "by", ")", " sat", ".", "\n"]


@pytest.mark.parametrize("position", range(10))
def test_the_whole_text_is_that_of_the_words(position: int) -> None:
    context = token_context(WORDS, position, 20)
    assert context.before + context.token + context.after == "The cat (a tabby) sat. ##"
    assert context.token == ["The", "cat", "(", "a", "tab", "by", ")", "sat", ".", "##"][position]
    context = token_context(BPE, position, 20)
    assert context.before + context.token + context.after == "".join(BPE)
    assert context.token == (BPE[position].strip() or "\n")


@pytest.mark.parametrize(("position", "width"), [(0, 1), (4, 2), (9, 1), (5, 0)])
def test_an_ellipsis_stands_where_the_text_goes_on(position: int, width: int) -> None:
    context = token_context(WORDS, position, width)
    assert context.before.startswith("… ") == (position - width > 0)
    assert context.after.endswith(" …") == (position + width < 9)


def test_what_is_marked_has_no_spaces() -> None:
    assert token_context([" a", " b", " c"], 1) == TokenContext(" a ", "b", " c")


def test_a_position_beyond_the_text_is_refused() -> None:
    with pytest.raises(IndexError, match="none at 10"):
        token_context(WORDS, 10)
