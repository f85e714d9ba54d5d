import math
import re

import pytest
import torch

from attnviz import Mechanism
from attnviz.biases import rotated, sinusoids
from attnviz.sources.toy import Toy, embedding

TEXT = "the cat saw the dog"


def inputs(*args, **more):
    return Toy(*args, **more).layers()[0].inputs


def same(one, other):
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("query", "key", "value"))


def side_by_side(heads):
    """The vectors that were cut into heads."""
    return heads.transpose(0, 1).flatten(1)


def test_one_layer_of_tokens_as_they_stand_between_white_space():
    (layer,) = Toy(" Don't \t stop,\nbelieving: 🙂 naïve ", width=8, heads=2).layers()
    assert layer.inputs.query_tokens == layer.inputs.key_tokens == ("Don't", "stop,", "believing:", "🙂", "naïve")
    assert layer.inputs.query.shape == layer.inputs.key.shape == layer.inputs.value.shape == (2, 5, 4)
    assert (layer.kind, layer.mechanism) == ("self", Mechanism())
    assert layer.inputs.special_queries == layer.inputs.special_keys == ()


def test_the_same_token_has_the_same_numbers_tomorrow():
    for token, numbers in [("it", [0.8889, 1.1795, 0.9995, 0.4489]), ("naïve", [-0.0213, 0.8153, 0.6831, 0.6008])]:
        torch.testing.assert_close(embedding(token, 4), torch.tensor(numbers), atol=1e-4, rtol=0)


def test_the_same_text_has_the_same_numbers_tomorrow():
    first = inputs("it is", width=4, heads=2)
    query = torch.tensor([[[-0.1741, -0.9121], [0.0296, 1.6685]], [[0.0412, 1.3173], [-0.1254, 0.4334]]])
    torch.testing.assert_close(first.query, query, atol=1e-4, rtol=0)
    torch.testing.assert_close(first.key[0, 0], torch.tensor([2.2089, -1.3990]), atol=1e-4, rtol=0)
    torch.testing.assert_close(first.value[1, 1], torch.tensor([1.2859, 0.3602]), atol=1e-4, rtol=0)


def test_the_same_token_has_the_same_vector_at_any_place():
    # Projections are linear: what is left between two places of a token is their positions, whatever the token is.
    cats, dogs = inputs("cat sat cat"), inputs("dog ran dog home")
    torch.testing.assert_close(cats.key[:, 0] - cats.key[:, 2], dogs.key[:, 0] - dogs.key[:, 2])
    torch.testing.assert_close(dogs.key[:, 0], inputs("dog").key[:, 0])
    assert not torch.isclose(cats.key[:, 0], dogs.key[:, 0]).all()


def test_a_token_changes_no_other():
    one, other = inputs("the cat saw the dog"), inputs("the cat saw the bird")
    torch.testing.assert_close(one.query[:, :4], other.query[:, :4])
    assert not torch.isclose(one.query[:, 4], other.query[:, 4]).any()


def test_numbers_change_only_when_a_setting_changes():
    assert same(inputs(TEXT), inputs(TEXT))
    assert not torch.isclose(inputs(TEXT).query, inputs(TEXT, seed=1).query, atol=1e-6).all(-1).any()
    wide, narrow = inputs(TEXT, heads=2), inputs(TEXT, heads=8)
    for name in ("query", "key", "value"):  # the number of heads only cuts
        assert torch.equal(side_by_side(getattr(wide, name)), side_by_side(getattr(narrow, name)))


def test_order_changes_positions_alone():
    a, b, ab, ba = (side_by_side(inputs(text).value) for text in ("a a", "b b", "a b", "b a"))
    torch.testing.assert_close(ab, torch.stack([a[0], b[1]]))
    torch.testing.assert_close(ba, torch.stack([b[0], a[1]]))
    assert not torch.isclose(ab[0], ba[1]).all()


@pytest.mark.parametrize("width", [64, 512])
def test_embeddings_have_mean_0_and_variance_1(width):
    vectors = torch.stack([embedding(f"word {i}", width) for i in range(400)])
    assert vectors.mean().abs() < 0.02
    assert vectors.var() == pytest.approx(1, abs=0.02)
    assert vectors.abs().max() <= math.sqrt(3) + 1e-6
    alike = torch.nn.functional.normalize(vectors) @ torch.nn.functional.normalize(vectors).T - torch.eye(400)
    assert alike.abs().max() < 6 / math.sqrt(width)


def test_a_projection_keeps_lengths_about_as_they_are():
    before = torch.stack([embedding(token, 64) for token in TEXT.split()]) + sinusoids(5, 64)
    for name in ("query", "key", "value"):
        after = side_by_side(getattr(inputs(TEXT, width=64), name))
        torch.testing.assert_close(after.norm(dim=-1), before.norm(dim=-1), rtol=0.35, atol=0)


@pytest.mark.parametrize(("positions", "width"), [(1, 2), (7, 6), (512, 32)])
def test_position_encodings_as_in_the_paper(positions, width):
    expected = torch.empty(positions, width)
    for position in range(positions):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            expected[position, 2 * i], expected[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    torch.testing.assert_close(sinusoids(positions, width), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("rotary", ["half split", "interleaved"])
def test_rotary_positions_take_the_place_of_the_sinusoid(rotary):
    turned = inputs(TEXT, rotary=rotary)
    plain = [embedding(token, 64) @ Toy()._projection("query") for token in TEXT.split()]
    query = torch.stack(plain).unflatten(-1, (4, 16)).transpose(0, 1)
    torch.testing.assert_close(turned.query, rotated(query, rotary))
    assert torch.equal(turned.value[:, 0], turned.value[:, 3])  # "the" has the same value at both places
    there = Mechanism()(inputs("cat saw cat saw cat", rotary=rotary)).raw
    torch.testing.assert_close(there[:, 0, 1], there[:, 2, 3])  # one step from "cat" to "saw", wherever
    assert not torch.isclose(there[:, 0, 1], there[:, 0, 3]).any()


@pytest.mark.parametrize(
    ("toy", "sentence"),
    [
        (Toy(""), "There is no text yet. Type a word or a sentence."),
        (Toy(" \n\t"), "There is no text yet. Type a word or a sentence."),
        (Toy("half \ud83d"), "half a character (a lone surrogate)"),
        (Toy("word " * 513), "This text has 513 tokens, and this page reads at most 512. Shorten the text."),
        (Toy("word " * 1234), "This text has 1,234 tokens, and this page reads at most 512. Shorten the text."),
        (Toy(TEXT, width=65), "The embedding width must be even, half sines and half cosines; it is 65. Use 66."),
        (
            Toy(TEXT, width=12, heads=5),
            "Vectors of width 12 cannot be cut into 5 equal heads. Choose one of 1, 2, 3, 4",
        ),
        (Toy(TEXT, width=12, heads=4, rotary="half split"), "so each head needs an even count of them; here it is 3."),
        (
            Toy(TEXT, width=12, heads=0),
            "Vectors of width 12 cannot be cut into 0 equal heads. Choose one of 1, 2, 3, 4",
        ),
    ],
    ids=["empty", "blank", "half", "long", "longer", "odd", "heads", "odd heads", "no heads"],
)
def test_what_cannot_be_shown_is_refused_in_words(toy, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        toy.layers()


def test_the_longest_text_is_read_whole():
    assert inputs("word " * 512, width=2, heads=1).queries == 512
