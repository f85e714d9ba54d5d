"""The translation word by word, as it is said on the page."""

import re
from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.state.steps import ABOUT_SIMILARITY, SIMILARITIES
from attnviz.translator import EXAMPLES, Translation, generate_sentences, load, next_words, parse_sentence
from attnviz.translator.grammar import random_sentence
from attnviz.translator.lexicon import ENGLISH, MARKS
from attnviz.ui.transformer.controls import vocabulary
from attnviz.ui.transformer.word_by_word import in_french, likeliest, looks, pieces, translation_verdict


def text(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


@pytest.fixture(scope="module")
def cars() -> Translation:
    return load().translate(EXAMPLES[0])


def test_pieces_are_the_words_and_together_the_text() -> None:
    for one in islice(generate_sentences("test"), 40):
        translation = load().translate(" ".join(one.english))
        assert "".join(pieces(translation)) == translation.text
        assert tuple(piece.strip() for piece in pieces(translation)) == translation.french


def test_words_appear_one_by_one(cars: Translation) -> None:
    for step in range(len(cars.steps)):
        html = in_french(cars, step)
        assert text(html) == f"{cars.text} end"  # the same room at every step
        hidden = re.findall(r"<i[^>]*>([^<]+)</i>", html)
        assert hidden == [*cars.french, "end"][step + 1 :]
        assert re.findall(r"<mark>([^<]+)</mark>", html) == [[*cars.french, "end"][step]]


def test_right_is_what_the_grammar_says(cars: Translation) -> None:
    assert "Correct" in translation_verdict(cars)
    wrong = Translation(("the", "small", "red", "cat", "is", "beautiful", "."), cars.steps)
    assert "le petit chat rouge est beau." in translation_verdict(wrong)
    assert "attnviz-wrong" in translation_verdict(wrong)


@pytest.mark.parametrize(
    ("english", "said"),
    [
        ("the cat .", "After “the cat” it expects “of”, “often”, “always”, “sees” …, not “.”."),
        ("cat sleeps .", "At the beginning it expects “the”, “a”, “an”, “my” …, not “cat”."),
        ("the cat sleeps . the dog runs .", "one sentence at a time, and more follows “the cat sleeps .”."),
    ],
)
def test_where_a_sentence_cannot_be_read_is_said(cars: Translation, english: str, said: str) -> None:
    assert said in translation_verdict(Translation(tuple(english.split()), cars.steps))


@given(st.integers(0, 99_999), st.data())
def test_what_is_not_read_is_where_no_word_of_the_grammar_stands(cars: Translation, seed: int, data: st.DataObject):
    words = list(random_sentence(Random(seed)).english)
    at = data.draw(st.integers(0, len(words) - 1))
    words[at] = data.draw(st.sampled_from(ENGLISH))
    said = str(translation_verdict(Translation(tuple(words), cars.steps)))
    if parse_sentence(tuple(words)):
        assert "It never saw sentences like this" not in said
    elif found := re.search("(?:After “(.*)”|At the beginning) it expects .*, not “(.*)”[.]", said):
        begun = tuple((found[1] or "").split())
        assert begun == tuple(words[: len(begun)])
        assert words[len(begun)] == found[2]
        assert found[2] not in next_words(begun)
    else:
        whole = re.search("more follows “(.*)”", said)
        assert parse_sentence(tuple(whole[1].split()))


def test_five_words_with_their_probabilities(cars: Translation) -> None:
    step = cars.steps[2]
    rows = re.findall(r"<tr.*?</tr>", likeliest(step))
    assert len(rows) == 5
    assert ["attnviz-taken" in row for row in rows] == [True, False, False, False, False]
    assert text(rows[0]) == f"voiture{step.probability:.2f}"
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", likeliest(step))]
    assert widths == [round(100 * probability, 1) for _, probability in step.likeliest()]
    assert "&lt;end&gt;" in likeliest(cars.steps[-1])


def test_what_a_word_looks_at_is_said(cars: Translation) -> None:
    weights = np.array([0.1, 0.2, 0, 0.7, 0, 0, 0])
    assert (
        looks(cars, 2, "Layer 1, head 3", weights)
        == "When writing “voiture”, layer 1, head 3 gives 0.70 of its attention to “car”."
    )
    assert looks(cars, 7, "Layer 0, head 1", weights).startswith("When ending the sentence, layer 0, head 1 gives 0.70")


def test_the_words_it_knows_are_all_and_no_other() -> None:
    named = re.findall(r"<dd>(.*?)</dd>", vocabulary())
    assert {word for line in named for word in re.findall(r"[^\s,·]+", line)} == set(ENGLISH) - set(MARKS)


def test_every_similarity_is_explained() -> None:
    assert re.findall(r"\*\*(.*?):\*\*", ABOUT_SIMILARITY) == list(SIMILARITIES)
