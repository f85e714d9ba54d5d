"""The search for a phrase, against a loop over all positions."""

import random

import pytest

from attnviz.analysis.token_search import find_phrase


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
