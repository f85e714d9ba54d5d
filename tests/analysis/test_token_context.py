"""The text around a token, for each way in which tokenizers mark words."""

import random

import pytest

from attnviz.analysis.token_context import TokenContext, find_phrase, marked_text, token_context

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


@pytest.mark.parametrize("seed", range(6))
def test_matches_are_those_of_a_loop(seed: int) -> None:
    rng = random.Random(seed)
    tokens = rng.choices(["a", "B", " ab", "##a", "##", "\n", "b a", "ba"], k=60)
    bare = ["" if token == "\n" else token.removeprefix("##" if token == "##a" else "-") for token in tokens]
    bare = [token.replace(" ", "").lower() for token in bare]
    for phrase in ("a", "AB", "a b", "bab", "##a", "##", "abc", "\n"):
        letters = phrase.removeprefix("##" if phrase == "##a" else "-").replace(" ", "").strip().lower()
        expected = [
            i for i, part in enumerate(bare) if letters and part and "".join(bare[i : i + 20]).startswith(letters)
        ]
        assert find_phrase(tokens, phrase) == expected, phrase


@pytest.mark.parametrize("phrase", ["", " ", "\n\t", "nowhere"])
def test_nothing_matches_an_empty_or_another_phrase(phrase: str) -> None:
    assert find_phrase(["a", "", "b"], phrase) == []
    assert find_phrase([], phrase) == []
    assert find_phrase(["", "\n"], "a") == []


def test_case_is_that_of_all_scripts() -> None:
    assert find_phrase(["STRASSE", "Straße", "ΣΑΣ"], "straße") == [0, 1]
    assert find_phrase(["ΣΑΣ", "σας"], "σασ") == [0, 1]


def test_marked_text_has_an_ellipsis_where_a_single_token_is_left_out() -> None:
    tokens = ["a", "b", "c", "d", "e"]
    assert "".join(part.text for part in marked_text(tokens, [4, 0], 1)) == "a b … d e"
    assert [part.position for part in marked_text(tokens, [4, 0], 1)] == [None, 0, None, 4, None]
    assert "".join(part.text for part in marked_text(tokens, [0, 3], 1)) == "a b c d e"
    assert "".join(part.text for part in marked_text([" a", " b", " c", " d", " e"], [1], 1)) == " a b c …"


def test_marked_text_has_an_ellipsis_where_one_token_is_before_or_after_it() -> None:
    assert "".join(part.text for part in marked_text(["a", "b", "c", "d", "e"], [2], 1)) == "… b c d …"
    assert "".join(part.text for part in marked_text(["a ", "b ", "c "], [1], 1)) == "a b c "
