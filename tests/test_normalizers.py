import itertools
import math
import re
from types import SimpleNamespace

import entmax
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss

from attnviz import Inputs, Mechanism
from attnviz.biases import ALiBi, SoftCap
from attnviz.masks import Band, Causal, Full
from attnviz.normalizers import (
    NORMALIZERS,
    Differential,
    Entmax,
    Hard,
    Identity,
    Normalizer,
    ReLU,
    Sigmoid,
    Sink,
    Softmax,
    SoftmaxPlusOne,
    Softpick,
    Sparsemax,
    StickBreaking,
    TopK,
    Uniform,
)
from attnviz.scores import Cosine, General, ScaledDot

SPECIAL = [-100.0, -2.0, -1.0, 0.0, 1e-40, 1.0, 2.0, 100.0]  # few, so that they tie
EXTREME = [1e12, -1e12, 1e5, -1e5, 1e-12, -0.0]
ALL = [
    Softmax(),
    Softmax(0.01),
    Softmax(0.3),
    Softmax(100.0),
    Hard(),
    Uniform(),
    SoftmaxPlusOne(),
    Sink(),
    Sink(-3.0),
    Sink(50.0),
    Sparsemax(),
    Entmax(1.0),
    Entmax(1.1),
    Entmax(),
    Entmax(1.75),
    Entmax(2.0),
    Entmax(3.0),
    Entmax(4.0),
    TopK(),
    TopK(1),
    TopK(2),
    TopK(99),
    Sigmoid(),
    ReLU(),
    Softpick(),
    StickBreaking(),
    Differential(),
    Differential(0.0),
    Differential(0.3),
    Differential(1.0),
    Identity(),
]


def random_rows(count, special=SPECIAL):
    """Rows of 4 scores from −100 to 100 or of special ones, in which some keys are not allowed.

    The first row, and no other, has nothing allowed: tests also try the rest alone, as softmax then takes another way.
    """
    scores = torch.rand(count, 4, dtype=torch.float64) * 200 - 100
    picked = torch.tensor(special, dtype=torch.float64)[torch.randint(len(special), scores.shape)]
    scores = torch.where(torch.rand(scores.shape) < 0.6, picked, scores)
    allowed = torch.rand(scores.shape) < 0.7
    allowed[~allowed.any(-1), 0] = True
    allowed[0] = False
    return scores.masked_fill(~allowed, -torch.inf)


# What each is by definition: slow loops over one row of scores, with nothing that is not allowed in it.


def sigmoid(x):
    return math.exp(x) / (1 + math.exp(x)) if x < 0 else 1 / (1 + math.exp(-x))


def softmax(row, temperature=1.0, sink=None):
    entries = [score / temperature for score in row] + ([] if sink is None else [sink])
    shares = [math.exp(entry - max(entries)) for entry in entries]
    return [share / sum(shares) for share in shares[: len(row)]]


def projected(row, alpha):
    """Entmax: max((α − 1) s − τ, 0)^(1/(α − 1)), for the τ at which that adds up to 1, by halving."""

    scaled = [(alpha - 1) * (score - max(row)) for score in row]

    def weights(tau):
        return [max(score - tau, 0) ** (1 / (alpha - 1)) for score in scaled]

    low, high = -1.0, 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(weights(middle)) > 1 else (low, middle)
    return weights(low)


def top(row, k):
    last = sorted(row, reverse=True)[min(k, len(row)) - 1]
    shares = [math.exp(score - max(row)) if score >= last else 0 for score in row]
    return [share / sum(shares) for share in shares]


def softpick(row):
    return [max(math.expm1(s), 0) / (sum(abs(math.expm1(other)) for other in row) + 1e-8) for s in row]


def stick(row):
    return [sigmoid(row[j]) * math.prod(1 - sigmoid(row[k]) for k in range(j + 1, len(row))) for j in range(len(row))]


def by_definition(normalizer, row, second):
    n = len(row)
    match normalizer:
        case Softmax(temperature):
            return softmax(row, temperature)
        case Hard():
            return [row.count(max(row)) ** -1 if score == max(row) else 0 for score in row]
        case Uniform():
            return [1 / n] * n
        case SoftmaxPlusOne():
            return softmax(row, sink=0)
        case Sink(logit=logit):
            return softmax(row, sink=logit)
        case Sparsemax():
            return projected(row, 2)
        case Entmax(alpha):
            return softmax(row) if alpha == 1 else projected(row, alpha)
        case TopK(k):
            return top(row, k)
        case Sigmoid():
            return [sigmoid(score - math.log(n)) for score in row]
        case ReLU():
            return [max(score, 0) / n for score in row]
        case Softpick():
            return softpick(row)
        case StickBreaking():
            return stick(row)
        case Differential(lam):
            return [one - lam * two for one, two in zip(softmax(row), softmax(second), strict=True)]
        case Identity():
            return row


def called(normalizer, *maps):
    """What it makes of as many of these maps as it wants."""
    return normalizer(torch.stack(maps) if normalizer.maps > 1 else maps[0])


def second_map(scores):
    """Other scores, allowed where these are, for those that make weights of two maps."""
    scores = scores.detach()
    return torch.where(scores.isneginf(), scores, (scores * 1.7).sin() * 3)


def expected(normalizer, scores):
    def weights(row, second):
        keys = [key for key, score in enumerate(row) if score > -math.inf]
        shares = by_definition(normalizer, [row[key] for key in keys], [second[key] for key in keys]) if keys else []
        of_key = dict(zip(keys, shares, strict=True))
        return [of_key.get(key, 0.0) for key in range(len(row))]

    rows, seconds = (one.flatten(0, -2).tolist() for one in (scores, second_map(scores)))
    return torch.tensor(list(map(weights, rows, seconds)), dtype=torch.float64).view(scores.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("normalizer", ALL, ids=repr)
def test_as_its_definition_in_a_slow_loop(normalizer, dtype):
    scores = torch.randn(2, 3, 6, 9, dtype=dtype) * torch.tensor([0.3, 1, 3, 10, 30, 90], dtype=dtype)[:, None]
    scores[torch.rand(scores.shape) < 0.3] = -torch.inf
    scores[0, 0, 0] = -torch.inf
    scores[0, 1] = scores[0, 1].round()
    scores[0, 2, :, 1:] = -torch.inf
    weights = called(normalizer, scores, second_map(scores))
    assert weights.dtype == dtype
    sharp = isinstance(normalizer, Softmax) and normalizer.temperature < 1  # digits of the scores that it brings up
    close = {"atol": 1e-4 if sharp else 2e-6, "rtol": 2e-5} if dtype == torch.float32 else {"atol": 1e-9, "rtol": 1e-9}
    if isinstance(normalizer, Entmax) and normalizer.alpha > 2:
        close["atol"] = 2e-5  # as its docstring says
    torch.testing.assert_close(weights.double(), expected(normalizer, scores), **close)


@pytest.mark.parametrize("normalizer", ALL, ids=repr)
def test_ties_and_lone_keys_as_its_definition(normalizer):
    scores = random_rows(300)
    weights = expected(normalizer, scores)
    for first in (0, 1):
        ours = called(normalizer, scores[first:], second_map(scores[first:]))
        torch.testing.assert_close(ours, weights[first:], atol=2e-5, rtol=1e-9)


@pytest.mark.parametrize("normalizer", ALL, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("first", [0, 1])
def test_what_it_says_of_its_rows_holds_for_any_scores(normalizer, dtype, first):
    scores = random_rows(1000, SPECIAL + EXTREME)[first:].to(dtype).requires_grad_()
    weights = called(normalizer, scores, second_map(scores))
    allowed = ~scores.isneginf()
    assert weights.isfinite().all()
    assert (weights[~allowed] == 0).all()
    if normalizer.adds_up:
        torch.testing.assert_close(weights.sum(-1), allowed.any(-1).to(dtype), atol=1e-6, rtol=0)
    if not normalizer.negative:
        assert (weights >= 0).all()
    if not isinstance(normalizer, ReLU | Identity):
        assert (weights.abs() <= 1 + 1e-6).all()
    if isinstance(normalizer, SoftmaxPlusOne | Sink | Softpick | StickBreaking):
        assert (weights.sum(-1) <= 1 + 1e-6).all()
    if isinstance(normalizer, Differential):
        sums = (1 - normalizer.lam) * allowed.any(-1)
        torch.testing.assert_close(weights.sum(-1), sums.to(dtype), atol=1e-6, rtol=0)
    if weights.requires_grad:
        (weights * torch.arange(4)).sum().backward()
        assert scores.grad.isfinite().all()
        assert (scores.grad[~allowed] == 0).all()


@pytest.mark.parametrize("normalizer", [cls() for cls in (*NORMALIZERS, Identity)], ids=repr)
def test_what_it_says_of_its_rows_is_not_said_in_vain(normalizer):
    scores = torch.randn(50, 4) * 3
    weights = called(normalizer, scores, torch.randn(50, 4) * 3)
    assert normalizer.adds_up == torch.allclose(weights.sum(-1), torch.ones(50))
    assert normalizer.negative == bool((weights < 0).any())
    assert normalizer.adds_up or re.fullmatch(r"A row .*adds? up to .*\.", normalizer.row)
    assert ("weights may be negative" in normalizer.row) == normalizer.negative


@pytest.mark.parametrize("normalizer", ALL, ids=repr)
def test_masked_keys_change_nothing_and_only_sticks_see_an_order(normalizer):
    scores = random_rows(300)[1:]
    second, every = second_map(scores), ~scores.isneginf()
    weights = called(normalizer, scores, second)
    for allowed in every.unique(dim=0):
        alike = (every == allowed).all(-1)
        alone = called(normalizer, scores[alike][:, allowed], second[alike][:, allowed])
        torch.testing.assert_close(weights[alike][:, allowed], alone, atol=2e-5, rtol=1e-9)
    if not isinstance(normalizer, StickBreaking):
        orders = torch.tensor(list(itertools.permutations(range(4))))
        moved = called(normalizer, scores[:, orders], second[:, orders])
        torch.testing.assert_close(weights[:, orders], moved, atol=2e-5, rtol=1e-9)


# Against the code of others


@pytest.mark.parametrize("temperature", [0.01, 0.5, 1.0, 3.0, 100.0])
def test_softmax_as_torch_in_float64(temperature):
    scores = torch.randn(2, 3, 9)
    scores[..., 4] = -torch.inf
    expected = torch.softmax(scores.double() / temperature, dim=-1)
    torch.testing.assert_close(Softmax(temperature)(scores).double(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("alpha", [1.1, 1.25, 1.5, 1.9, 2.0, 2.5, 4.0])
def test_entmax_as_its_authors_bisection(alpha):
    scores = torch.randn(4, 5, 30, dtype=torch.float64) * 3
    scores[:, 2, 7:] = -torch.inf
    theirs = entmax.entmax_bisect(scores, alpha, dim=-1, n_iter=100)
    torch.testing.assert_close(Entmax(alpha)(scores), theirs, atol=2e-5, rtol=1e-9)
    torch.testing.assert_close(Entmax(alpha)(scores.float()).double(), theirs, atol=2e-3 if alpha > 2 else 2e-6, rtol=0)


def test_sparsemax_as_its_authors():
    scores = torch.randn(4, 5, 30)
    assert torch.equal(Sparsemax()(scores), entmax.sparsemax(scores, dim=-1))
    torch.testing.assert_close(Sparsemax()(scores), entmax.sparsemax_bisect(scores, dim=-1))


def test_softmax_plus_one_as_torchs_zero_attention():
    theirs = torch.nn.MultiheadAttention(8, 1, bias=False, add_zero_attn=True, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.eye(8).repeat(3, 1))
    x = torch.randn(1, 6, 8)
    weights = theirs(x, x, x)[1][..., :-1]
    torch.testing.assert_close(SoftmaxPlusOne()(x @ x.mT / 8**0.5), weights)


@pytest.mark.parametrize("mask", [Full(), Causal(), ~Causal()], ids=repr)
def test_a_logit_for_each_head_as_gpt_oss(random_inputs, mask):
    inputs, logits = random_inputs(heads=4, kv_heads=2, queries=6, keys=6), torch.randn(4) * 2
    allowed = mask.bind(6, 6, 1)(*map(torch.tensor, (0, 0)), torch.arange(6)[:, None], torch.arange(6)).expand(6, 6)
    module = SimpleNamespace(sinks=logits, num_key_value_groups=2, training=False)
    added = torch.zeros(6, 6).masked_fill(~allowed, -torch.inf)
    arrays = (array[None] for array in (inputs.query, inputs.key, inputs.value))
    output, weights = gpt_oss(module, *arrays, added, scaling=8**-0.5)
    how = Mechanism(mask=mask, normalizer=Sink(logits))
    ours, part = how(inputs), how(inputs, heads=[3, 1], rows=[4, 0])
    torch.testing.assert_close(ours.weights, weights[0])
    torch.testing.assert_close(ours.output, output[0].transpose(0, 1))
    torch.testing.assert_close(part.weights, ours.weights[[3, 1]][:, [4, 0]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("mask", [Full(), Causal(), Causal() & ~Band(0)], ids=repr)
def test_differential_as_two_attentions_of_torch(random_inputs, kv_heads, mask):
    inputs = random_inputs(heads=4, kv_heads=kv_heads, queries=6, keys=6)
    allowed = mask.bind(6, 6, 1)(*map(torch.tensor, (0, 0)), torch.arange(6)[:, None], torch.arange(6)).expand(6, 6)
    first, second = (
        scaled_dot_product_attention(query[None], key[None], inputs.value[None], attn_mask=allowed, enable_gqa=True)
        for query, key in zip(inputs.query.chunk(2, -1), inputs.key.chunk(2, -1), strict=True)
    )
    ours = Mechanism(mask=mask, normalizer=Differential(0.7))(inputs)
    torch.testing.assert_close(ours.output, (first - 0.7 * second)[0])
    assert ours.raw.shape == ours.scores.shape == (2, *ours.weights.shape) == (2, 4, 6, 6)


def test_stick_breaking_over_the_keys_before_each_query(random_inputs):
    inputs = random_inputs(heads=1, queries=7, keys=7)
    ours = Mechanism(mask=Causal() & ~Band(0), normalizer=StickBreaking())(inputs)
    z, [weights] = ours.raw[0].sigmoid().tolist(), ours.weights
    for i, j in itertools.product(range(7), range(7)):
        share = z[i][j] * math.prod(1 - z[i][k] for k in range(j + 1, i)) if j < i else 0
        assert weights[i, j].item() == pytest.approx(share, abs=1e-6)


# Limits


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Sink(-1000.0), Softmax()),
        (Sink(1000.0), Softmax(1e7)),
        (Entmax(1 + 1e-9), Softmax()),
        (Entmax(1 + 1e-7), Softmax()),
        (Entmax(1.5 + 1e-9), Entmax(1.5)),
        (Entmax(2 - 1e-9), Sparsemax()),
    ],
    ids=repr,
)
def test_limits(one, other):
    scores = random_rows(1000)
    weights = other(scores) * (one != Sink(1000.0))
    torch.testing.assert_close(called(one, scores, second_map(scores)), weights, atol=1e-6, rtol=0)


# One by one


def test_sparse_ones_give_exact_zeros_and_softmax_none():
    scores = torch.tensor([0.0, 0.5, 2.0, -3.0])
    for normalizer in (Sparsemax(), Entmax(), Entmax(4.0)):
        assert (normalizer(scores) == 0).any(), normalizer
    assert (Softmax()(scores) > 0).all()


def test_softpick_keeps_its_digits_near_0():
    scores = torch.tensor([1e-6, 3e-6, -4e-6])
    torch.testing.assert_close(Softpick()(scores), torch.tensor([1 / 8, 3 / 8, 0]), atol=2e-3, rtol=0)
    assert Softpick()(torch.zeros(3)).tolist() == [0, 0, 0]


def test_a_stick_is_broken_from_the_last_key_whatever_the_scores():
    assert StickBreaking()(torch.zeros(4)).tolist() == [1 / 16, 1 / 8, 1 / 4, 1 / 2]
    scores = torch.tensor([1e12, -torch.inf, 0.0, 0.0])
    assert StickBreaking()(scores).tolist() == [1 / 4, 0, 1 / 4, 1 / 2]


# Gradients


SMOOTH = [one for one in ALL if not isinstance(one, Hard | Uniform)]


@pytest.mark.parametrize("normalizer", SMOOTH, ids=repr)
def test_gradients(as_installed, normalizer):
    maps = [torch.randn(3, 5, dtype=torch.float64) * 2 for _ in range(normalizer.maps)]
    if isinstance(normalizer, Softmax) and normalizer.temperature < 0.1:
        maps = [scores / 10 for scores in maps]
    for scores in maps:
        scores[1, 2:4] = scores[2] = -torch.inf
        scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda *maps: called(normalizer, *maps), tuple(maps))


def test_gradients_of_a_logit_for_each_head(random_inputs):
    inputs = random_inputs(heads=3)
    inputs = Inputs(
        *(one.double() for one in (inputs.query, inputs.key, inputs.value)), *(inputs.query_tokens,), inputs.key_tokens
    )
    logits = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda held: Mechanism(normalizer=Sink(held))(inputs).output, (logits,))


# In a mechanism


@pytest.mark.parametrize("normalizer", ALL, ids=repr)
def test_what_is_picked_is_what_the_whole_has(random_inputs, normalizer):
    inputs = random_inputs(heads=4, kv_heads=2, queries=601, keys=67, d_k=32)
    how = Mechanism(biases=(ALiBi(),), mask=Causal(), normalizer=normalizer)
    whole, part = how(inputs), how(inputs, heads=[2, 1], rows=[600, 3, 511])
    for stage in ("raw", "scores", "allowed", "weights", "output"):
        expected = getattr(whole, stage)[..., [2, 1], :, :][..., [600, 3, 511], :]
        # What adds up large numbers, as the output of Identity does, is rounded by their size.
        rounding = 1e-6 * float(expected[expected.isfinite()].abs().max()) if expected.is_floating_point() else 0.0
        torch.testing.assert_close(getattr(part, stage), expected, rtol=1e-5, atol=max(1e-6, rounding))


@pytest.mark.parametrize("score", [ScaledDot(), Cosine(), General()], ids=repr)
def test_differential_compares_and_changes_each_half_alike(random_inputs, score):
    inputs = random_inputs(heads=2, queries=5, keys=5)
    ours = Mechanism(score, (SoftCap(0.5),), Causal(), Differential(0.4))(inputs)
    halves = [
        Mechanism(score, (SoftCap(0.5),), Causal())(
            Inputs(query, key, inputs.value, inputs.query_tokens, inputs.key_tokens)
        )
        for query, key in zip(inputs.query.chunk(2, -1), inputs.key.chunk(2, -1), strict=True)
    ]
    torch.testing.assert_close(ours.weights, halves[0].weights - 0.4 * halves[1].weights)
    for both, one, other in (
        (ours.raw, *(half.raw for half in halves)),
        (ours.scores, *(half.scores for half in halves)),
    ):
        torch.testing.assert_close(both, torch.stack([one, other]))
    torch.testing.assert_close(ours.weights.sum(-1), torch.full((2, 5), 0.6))


def test_heads_that_cannot_be_cut_in_two_are_refused(random_inputs):
    with pytest.raises(ValueError, match="Differential cuts every head into 2 equal parts, and vectors of width 5 "):
        Mechanism(normalizer=Differential())(random_inputs(d_k=5))


def test_a_logit_for_each_head_with_any_leading_axes():
    query, key, value, logits = (
        torch.randn(2, 3, 4, 8),
        torch.randn(2, 3, 5, 8),
        torch.randn(2, 3, 5, 6),
        torch.randn(3),
    )
    b, h = torch.arange(2)[:, None, None, None], torch.arange(3)[:, None, None]
    at = (b, h, torch.arange(4)[:, None], torch.arange(5))
    for positions in (at, torch.broadcast_tensors(*at)):
        ours = Mechanism(normalizer=Sink(logits)).stages(query, key, value, torch.tensor(True), positions)
        for head in range(3):
            torch.testing.assert_close(ours.weights[:, head], Sink(logits[head].item())(ours.scores[:, head]))


# What is refused, and what is equal


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_that_is_not_finite_and_above_0_is_refused(temperature):
    with pytest.raises(ValueError, match=rf"Softmax needs a finite temperature above 0; it got {temperature}\."):
        Softmax(temperature)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Entmax(0.9), "Entmax needs an α from 1 to 4; it got 0.9."),
        (lambda: Entmax(math.nan), "Entmax needs an α from 1 to 4; it got nan."),
        (lambda: Entmax(4.5), "Entmax needs an α from 1 to 4; it got 4.5."),
        (lambda: TopK(0), "TopK needs k ≥ 1; it got 0."),
        (lambda: Sink(math.inf), "Sink needs finite logits; it got inf."),
        (lambda: Sink(torch.tensor([0.5, math.nan])), "Sink needs finite logits; it got [0.5, nan]."),
        (lambda: Differential(-0.1), "Differential needs a λ from 0 to 1; it got -0.1."),
        (lambda: Differential(math.nan), "Differential needs a λ from 0 to 1; it got nan."),
        (lambda: Differential()(torch.zeros(3)), "Differential needs two maps of scores"),
        (lambda: Sink(torch.zeros(3))(torch.zeros(2, 3)), "Sink has a logit for each of 3 heads: give h"),
        (lambda: Sink(torch.zeros(3)).bind(5, 5, 4), "each of 4 heads; its logits are of shape (3,)."),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


def test_sinks_are_equal_when_their_numbers_are():
    one, same, other = (Sink(torch.tensor([0.5, second])) for second in (1.0, 1.0, 2.0))
    assert one == same != other
    assert len({one, same, other, Sink(), Sink(0.0), Sink(1.0)}) == 4
    assert repr(one) == repr(same) != repr(other)
    assert Sink().bind(5, 5, 2) == Sink()


def test_every_normalizer_is_tried():
    assert {type(one) for one in ALL} == {*NORMALIZERS, Identity}
    assert all(issubclass(kind, Normalizer) for kind in NORMALIZERS)
