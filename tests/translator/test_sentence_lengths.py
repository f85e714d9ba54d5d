"""Attention against one vector for a whole sentence, by the length of the sentence."""

from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.translator import EXAMPLES, load
from attnviz.translator.encoder_decoder import D_MODEL, FIXED_VECTOR, ForwardPass, create_model
from attnviz.translator.sentence_lengths import (
    COMPARED,
    LENGTHS,
    SENTENCES,
    accuracy_by_length,
    matching_words,
    sentences_by_length,
    shipped_accuracies,
)
from attnviz.translator.translation import source_ids


def test_the_sentences_were_kept_apart_and_are_of_every_length(as_installed):
    found = sentences_by_length()
    assert list(found) == list(LENGTHS)
    for length, sentences in found.items():
        assert len({one.english for one in sentences}) == SENTENCES
        assert {len(one.english) for one in sentences} == {length}
        assert {one.split for one in sentences} == {"test"}


@pytest.mark.parametrize("variant", COMPARED)
def test_the_shipped_weights_are_as_good_as_the_file_says(variant, as_installed):
    shipped = shipped_accuracies()[variant]
    found = accuracy_by_length(load(variant), sentences_by_length())
    assert [one.length for one in found] == [one.length for one in shipped] == list(LENGTHS)
    for a, b in zip(found, shipped, strict=True):
        assert a.sentences == pytest.approx(b.sentences, abs=1 / SENTENCES + 1e-4)
        assert a.words == pytest.approx(b.words, abs=0.01)


def test_one_vector_does_for_short_sentences_and_not_for_long_ones():
    attention, fixed = shipped_accuracies().values()
    assert all(one.sentences >= 0.85 for one in attention)
    assert all(one.sentences == 1 for one in fixed if one.length <= 7)
    assert all(one.sentences <= 0.1 for one in fixed if one.length >= 14)


def test_all_of_a_sentence_goes_through_one_vector_of_the_same_size():
    model = load(FIXED_VECTOR).model
    short, long = ([example.split()] for example in (EXAMPLES[3], EXAMPLES[5]))
    for english in (short, long):
        assert model.encode(source_ids(english), ForwardPass()).shape == (1, 1, D_MODEL)
    # Padding is not in the mean.
    padded = model.encode(source_ids([*short, *long]), ForwardPass(lengths=torch.tensor([len(short[0]), len(long[0])])))
    torch.testing.assert_close(padded[:1], model.encode(source_ids(short), ForwardPass()), atol=1e-5, rtol=1e-4)
    cross = load(FIXED_VECTOR).translate(EXAMPLES[0]).layers(use="cross")
    for layer in cross:
        assert layer.inputs.key_tokens == ("sentence",)
        assert layer.mechanism(layer.inputs).weights.eq(1).all()


def test_all_else_is_the_same_model():
    assert {name: one.shape for name, one in create_model(FIXED_VECTOR).state_dict().items()} == {
        name: one.shape for name, one in create_model("scaled dot").state_dict().items()
    }


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_matching_words_are_as_many_as_can_be(one, other):
    matches = matching_words(one, other)
    assert [one[i] for i, _ in matches] == [other[j] for _, j in matches]
    assert matches == sorted(set(matches))
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(matches))

    def parts(text):
        return {"".join(some) for count in range(len(text) + 1) for some in combinations(text, count)}

    assert len(matches) == max(map(len, parts(one) & parts(other)))
