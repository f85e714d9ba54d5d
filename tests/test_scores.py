import math
import re

import pytest
import torch
from torch.nn.functional import cosine_similarity

from attnviz.scores import SCORES, Additive, Cosine, Dot, General, ScaledDot, Score

QUERY, KEY = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(1)).split([2, 3], dim=1)
WIDER_KEY = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2))
SEEDED = [General(seed=3), Additive(seed=3), Additive(hidden=5, seed=3)]


def check(score, query, key, formula):
    """Compares with a formula for one query and one key in float64, asked for every pair."""
    pairs = zip(query.double(), key.double(), strict=True)
    expected = torch.tensor([[[float(formula(q, k)) for k in ks] for q in qs] for qs, ks in pairs])
    torch.testing.assert_close(score(query, key), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("score", "formula"),
    [
        (Dot(), lambda q, k: q @ k),
        (ScaledDot(), lambda q, k: q @ k / math.sqrt(6)),
        (ScaledDot(scale=-0.3), lambda q, k: q @ k * -0.3),
        (ScaledDot(scale=0.0), lambda q, k: 0.0),
        (Cosine(), lambda q, k: cosine_similarity(q, k, dim=0)),
        (Cosine(tau=0.1), lambda q, k: cosine_similarity(q, k, dim=0) / 0.1),
    ],
    ids=lambda part: repr(part) if isinstance(part, Score) else "",
)
def test_scores_without_weights_as_torch_in_float64(score, formula):
    check(score, QUERY, KEY, formula)


def test_cosine_of_a_vector_of_length_zero_is_0():
    assert Cosine()(torch.zeros(1, 4), torch.ones(1, 4)).item() == 0


@pytest.mark.parametrize("key", [KEY, WIDER_KEY], ids=["same width", "other width"])
def test_general_and_additive_are_their_formulas(key):
    width = key.shape[-1]
    weight, w_q, w_k, v = torch.randn(6, width), torch.randn(7, 6), torch.randn(7, width), torch.randn(7)
    check(General(weight), QUERY, key, lambda q, k: q @ weight.double() @ k)
    check(
        Additive(w_q, w_k, v),
        QUERY,
        key,
        lambda q, k: v.double() @ torch.tanh(w_q.double() @ q + w_k.double() @ k),
    )


def test_additive_gives_the_same_for_many_queries_as_for_each():
    query, key = torch.randn(35, 6), torch.randn(4, 6)  # more queries than are expanded at a time
    each = torch.cat([Additive()(one[None], key) for one in query])
    torch.testing.assert_close(Additive()(query, key), each)


def test_additive_draws_only_what_is_not_given():
    # With W_k = 0 and v = 1 what is left is the sum of tanh(W_q q).
    score = Additive(key_weight=torch.zeros(8, 4), vector=torch.ones(8), hidden=99)
    raw = score(QUERY, WIDER_KEY)
    assert torch.equal(raw, raw[..., :1].expand_as(raw))
    assert raw.abs().min() > 0


@pytest.mark.parametrize("score", SEEDED, ids=repr)
def test_a_seed_gives_the_same_numbers_again_and_another_seed_others(score):
    again = type(score)(**vars(score))
    other = type(score)(**(vars(score) | {"seed": 4}))
    assert torch.equal(score(QUERY, WIDER_KEY), again(QUERY, WIDER_KEY))
    assert not torch.isclose(score(QUERY, WIDER_KEY), other(QUERY, WIDER_KEY)).any()


def test_the_numbers_of_a_seed_stay_the_same_tomorrow():
    two, three = torch.eye(2), torch.eye(3)
    general = torch.tensor([[0.6291, -0.1198, -0.8895], [0.2321, -0.4428, -0.5710]])
    seven = torch.tensor([[-0.5422, -0.5416, -0.0159], [-0.2780, 0.5852, -0.3905]])
    additive = torch.tensor([[1.4151, 0.7230, 1.0580], [0.9717, 0.0652, 1.1369]])
    torch.testing.assert_close(General()(two, three), general, atol=1e-4, rtol=0)
    torch.testing.assert_close(General(seed=7)(two, three), seven, atol=1e-4, rtol=0)
    torch.testing.assert_close(Additive()(two, three), additive, atol=1e-4, rtol=0)


@pytest.mark.parametrize("score", SEEDED, ids=repr)
def test_drawing_numbers_leaves_the_random_state_of_others_alone(score):
    before = torch.get_rng_state()
    score(torch.ones(1, 9), torch.ones(1, 9))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("score", SEEDED, ids=repr)
def test_what_was_drawn_while_reading_a_model_can_still_be_differentiated(score):
    width = 11  # drawn by no other test
    with torch.inference_mode():
        score(torch.ones(1, width), torch.ones(1, width))
    query = torch.ones(1, width, requires_grad=True)
    score(query, torch.ones(1, width)).sum().backward()
    assert query.grad.abs().max() > 0


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("score", [Dot(), ScaledDot(), ScaledDot(1.0), Cosine()], ids=repr)
def test_vectors_of_different_widths_are_refused_in_words(score):
    sentence = f"{type(score).__name__} needs queries and keys of the same width; queries have 6, keys 4."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        score(QUERY, WIDER_KEY)


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (General(torch.ones(4, 6)), "W must have shape (6, 4) for these vectors; it has (4, 6)."),
        (Additive(query_weight=torch.ones(3, 5)), "W_q must have shape (3, 6) for these vectors; it has (3, 5)."),
        (Additive(key_weight=torch.ones(3, 6)), "W_k must have shape (3, 4) for these vectors; it has (3, 6)."),
    ],
    ids=["W", "W_q", "W_k"],
)
def test_weights_that_do_not_fit_the_vectors_are_refused_in_words(score, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        score(QUERY, WIDER_KEY)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ({"key_weight": torch.ones(2, 4)}, "W_k must have shape (3, 4) for these vectors; it has (2, 4)."),
        ({"vector": torch.ones(2)}, "v must have shape (3,) for these vectors; it has (2,)."),
    ],
    ids=["W_k", "v"],
)
def test_weights_that_do_not_fit_each_other_are_refused_in_words(weights, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Additive(query_weight=torch.ones(3, 6), **weights)(QUERY, WIDER_KEY)


@pytest.mark.parametrize(("tau", "said"), [(0.0, "0.0"), (-1.0, "-1.0"), (math.nan, "nan")])
def test_a_tau_that_is_not_above_0_is_refused(tau, said):
    with pytest.raises(ValueError, match=rf"Cosine needs a finite τ above 0; it got {said}\."):
        Cosine(tau)


@pytest.mark.parametrize("hidden", [0, -1])
def test_an_additive_score_without_hidden_units_is_refused(hidden):
    with pytest.raises(ValueError, match="hidden"):
        Additive(hidden=hidden)(QUERY, KEY)


@pytest.mark.parametrize("make", [General, lambda weight: Additive(query_weight=weight)], ids=["General", "Additive"])
@pytest.mark.parametrize("shape", [(2, 3), (700, 900)], ids=["small", "large"])
def test_scores_are_equal_when_their_weights_hold_the_same_numbers(make, shape):
    weight = torch.randn(shape)
    changed = weight.clone()
    changed[1, 2] += 1e-3
    score, same, other = make(weight), make(weight.clone()), make(changed)
    assert score == same
    assert hash(score) == hash(same)
    assert repr(score) == repr(same)
    assert score != other
    assert repr(score) != repr(other)
    assert len({score, same, other}) == 2


def test_scores_with_the_same_numbers_in_another_shape_or_place_differ():
    weight = torch.arange(6.0)
    assert General(weight.view(2, 3)) != General(weight.view(3, 2))
    assert Additive(query_weight=weight.view(2, 3)) != Additive(key_weight=weight.view(2, 3))
    assert General() != Additive()
    assert General() != "General(weight=None, seed=0)"


@pytest.mark.parametrize("make", [General, lambda weight: Additive(key_weight=weight)], ids=["General", "Additive"])
def test_layout_and_training_do_not_make_a_difference(make):
    weight = torch.arange(6.0).view(2, 3)
    assert make(weight) == make(weight.T.contiguous().T)
    assert make(weight) == make(weight.clone().requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_any_number_format_can_be_told_apart(dtype):
    weight = torch.arange(6.0).view(2, 3)
    assert General(weight.to(dtype)) == General(weight.to(dtype))
    assert General(weight.to(dtype)) != General(weight)


def test_a_score_says_what_it_is():
    assert repr(ScaledDot()) == "ScaledDot(scale=None)"
    assert repr(General(seed=2)) == "General(weight=None, seed=2)"
    assert re.fullmatch(r"General\(weight=<2×3 torch.float32 [0-9a-f]{16}>, seed=0\)", repr(General(torch.ones(2, 3))))


@pytest.mark.parametrize("score", [cls() for cls in SCORES], ids=repr)
def test_any_leading_axes(score):
    query, key = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    raw = score(query, key)
    assert raw.shape == (2, 3, 4, 6)
    torch.testing.assert_close(raw[1, 2], score(query[1, 2], key[1, 2]))


@pytest.mark.parametrize("score", [cls() for cls in SCORES], ids=repr)
def test_a_score_computes_in_the_precision_of_its_vectors(score):
    single, double = score(QUERY, KEY), score(QUERY.double(), KEY.double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=0)
