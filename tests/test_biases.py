import math
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import flex_attention as flex
from torch.nn.functional import scaled_dot_product_attention
from transformers import T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from attnviz import Mechanism
from attnviz.biases import BIASES, KERPLE, ALiBi, Bias, Distances, Sandwich, SoftCap, SSMax, T5Buckets
from attnviz.masks import Causal, Full, Mask, Padding

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

NOWHERE = (torch.tensor(0),) * 4
SIZES = [(1, 1, 1), (2, 6, 6), (3, 4, 7), (5, 7, 4), (12, 3, 40)]  # heads, queries, keys
HEADS = [1, 2, 3, 4, 7, 8, 12, 16, 20, 71]


# The rules, slow and obvious: the score of query i and key j in head h of `heads`, where the query sees n keys


def slopes(heads):
    """As the paper says it: a geometric sequence, or, where heads are no power of two, what two of them hold."""
    if heads & (heads - 1) == 0:
        return [(2 ** (-8 / heads)) ** (h + 1) for h in range(heads)]
    power = 1
    while power * 2 < heads:
        power *= 2
    return slopes(power) + slopes(2 * power)[::2][: heads - power]


def bucket(relative, both, buckets, greatest):
    """T5's bucket, by whole numbers alone, so that no rounding moves an edge."""
    start, away = 0, max(-relative, 0)
    if both:
        buckets //= 2
        start, away = (buckets if relative > 0 else 0), abs(relative)
    near = buckets // 2
    if away < near:
        return start + away
    step, steps = 0, buckets - near
    # ⌊ln(away / near) / ln(greatest / near) · steps⌋, at most steps − 1
    while step < steps - 1 and away**steps * near ** (step + 1) >= greatest ** (step + 1) * near**steps:
        step += 1
    return start + near + step


def number(bucket, h):
    """A table that is easy to say."""
    return math.sin(bucket * 7 + h * 3)


def table(buckets, heads):
    return torch.tensor([[number(bucket, h) for h in range(heads)] for bucket in range(buckets)])


def sandwich(i, j, width):
    of_i, of_j = ([p / 10000 ** (2 * t / width) for t in range(1, width // 2 + 1)] for p in (i, j))
    return sum(math.sin(x) * math.sin(y) + math.cos(x) * math.cos(y) for x, y in zip(of_i, of_j, strict=True))


RULES = [
    (ALiBi(), lambda s, i, j, h, heads, n: s - slopes(heads)[h] * (i - j)),
    (ALiBi("symmetric"), lambda s, i, j, h, heads, n: s - slopes(heads)[h] * abs(i - j)),
    (T5Buckets(), lambda s, i, j, h, heads, n: s + number(bucket(j - i, True, 32, 128), h)),
    (T5Buckets("causal"), lambda s, i, j, h, heads, n: s + number(bucket(j - i, False, 32, 128), h)),
    (T5Buckets(buckets=6, max_distance=9), lambda s, i, j, h, heads, n: s + number(bucket(j - i, True, 6, 9), h)),
    (T5Buckets("causal", 5, 20), lambda s, i, j, h, heads, n: s + number(bucket(j - i, False, 5, 20), h)),
    (KERPLE(), lambda s, i, j, h, heads, n: s - math.log(1 + 0.5 * abs(i - j))),
    (KERPLE(r1=2.5, r2=7.0), lambda s, i, j, h, heads, n: s - 2.5 * math.log(1 + 7 * abs(i - j))),
    (KERPLE("power", 0.3, 1.5), lambda s, i, j, h, heads, n: s - 0.3 * abs(i - j) ** 1.5),
    (Sandwich(), lambda s, i, j, h, heads, n: s + sandwich(i, j, 128) / ((h + 1) * 8 / heads)),
    (Sandwich(6), lambda s, i, j, h, heads, n: s + sandwich(i, j, 6) / ((h + 1) * 8 / heads)),
    (SoftCap(), lambda s, i, j, h, heads, n: 50 * math.tanh(s / 50)),
    (SoftCap(0.5), lambda s, i, j, h, heads, n: 0.5 * math.tanh(s / 0.5)),
    (SSMax(), lambda s, i, j, h, heads, n: s * 0.43 * math.log(max(n, 1))),
    (SSMax(2.0), lambda s, i, j, h, heads, n: s * 2 * math.log(max(n, 1))),
]
every_rule = pytest.mark.parametrize(("bias", "rule"), RULES, ids=lambda x: repr(x) if isinstance(x, Bias) else "")


def bound(bias, heads, queries, keys, mask):
    if isinstance(bias, T5Buckets):
        bias = replace(bias, table=table(bias.buckets, heads))
    return bias.with_mask(mask.bind(queries, keys, heads)).bind(queries, keys, heads)


def places(heads, queries, keys):
    return torch.tensor(0), torch.arange(heads)[:, None, None], torch.arange(queries)[:, None], torch.arange(keys)


def slowly(rule, raw, mask):
    heads, queries, keys = raw.shape
    allowed = mask.bind(queries, keys, heads)(*places(heads, queries, keys)).expand(raw.shape)
    raw, counts = raw.tolist(), allowed.sum(-1).tolist()
    return torch.tensor(
        [
            [[rule(raw[h][i][j], i, j, h, heads, counts[h][i]) for j in range(keys)] for i in range(queries)]
            for h in range(heads)
        ]
    )


@every_rule
@pytest.mark.parametrize(("heads", "queries", "keys"), SIZES)
@pytest.mark.parametrize("mask", [Full(), Causal(), Padding(2) & ~Causal()], ids=repr)
def test_a_bias_is_its_rule(bias, rule, heads, queries, keys, mask):
    raw = torch.randn(heads, queries, keys)
    ours = bound(bias, heads, queries, keys, mask)(raw, *places(heads, queries, keys))
    torch.testing.assert_close(ours, slowly(rule, raw, mask), atol=2e-5, rtol=1e-5)


@every_rule
@pytest.mark.parametrize(("heads", "queries", "keys"), SIZES[1:4])
def test_a_bias_is_its_rule_in_flex_attention(random_inputs, monkeypatch, bias, rule, heads, queries, keys):
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    mask, inputs = Causal("bottom right"), random_inputs(heads=heads, queries=queries, keys=keys, d_k=16)
    output = flex.flex_attention(
        *(array[None] for array in (inputs.query, inputs.key, inputs.value)),
        score_mod=bound(bias, heads, queries, keys, mask),
        block_mask=flex.create_block_mask(mask.bind(queries, keys, heads), None, None, queries, keys, device="cpu"),
    )
    scores = slowly(rule, inputs.query @ inputs.key.mT / 4, mask)
    scores[~mask.bind(queries, keys, heads)(*places(heads, queries, keys)).expand(scores.shape)] = -torch.inf
    weights = torch.softmax(scores, -1).nan_to_num(0)  # no key for the first queries, where there are more of them
    torch.testing.assert_close(output[0], weights @ inputs.value, atol=1e-4, rtol=1e-4)


def test_every_bias_of_the_menu_has_a_rule_here():
    assert set(BIASES) == {type(bias) for bias, _ in RULES}


@every_rule
def test_a_bias_gives_the_precision_and_the_gradient_of_its_scores(bias, rule):
    bias, at = bound(bias, 3, 4, 5, Full()), places(3, 4, 5)
    raw = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    assert bias(raw, *at).dtype == torch.float64
    torch.testing.assert_close(bias(raw.float(), *at).double(), bias(raw, *at), atol=1e-5, rtol=1e-5)
    assert torch.autograd.gradcheck(lambda scores: bias(scores, *at), (raw,))


@pytest.mark.parametrize(("heads", "queries", "keys"), SIZES)
def test_distances_adds_what_its_table_has_for_each_head_and_distance(heads, queries, keys):
    distances = range(1 - queries, keys)
    bias = Distances(torch.randn(heads, len(distances)), queries).bind(queries, keys, heads)
    h, q, k = torch.arange(heads)[:, None, None], torch.arange(queries)[:, None], torch.arange(keys)
    added = bias(torch.zeros(heads, queries, keys), torch.tensor(0), h, q, k)
    for i in range(heads):
        for j in range(queries):
            for other in range(keys):
                assert added[i, j, other] == bias.table[i, distances.index(other - j)]


@pytest.mark.parametrize("queries", [0, 10])
def test_distances_refuses_a_table_too_small_for_its_queries(queries):
    with pytest.raises(ValueError, match=f"its table has 9 for {queries} queries"):
        Distances(torch.zeros(2, 9), queries)


@every_rule
def test_binding_again_changes_nothing(bias, rule):
    once = bound(bias, 3, 4, 5, Causal())
    assert once.bind(4, 5, 3) == once
    assert hash(once.bind(4, 5, 3)) == hash(once)


@pytest.mark.parametrize("bias", [ALiBi(), T5Buckets(), Sandwich(), SSMax()], ids=repr)
def test_what_depends_on_the_example_says_so(bias):
    sentence = f"{type(bias).__name__} depends on what it is for: call bind(queries, keys, heads) first."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        bias(torch.zeros(1), *NOWHERE)


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ALiBi("both"), "ALiBi needs form to be one of causal, symmetric; it got 'both'."),
        (lambda: T5Buckets("left"), "T5Buckets needs direction to be one of bidirectional, causal; it got 'left'."),
        (lambda: T5Buckets(buckets=3), "T5Buckets needs 4 buckets or more, 2 where it is causal; it got 3."),
        (lambda: T5Buckets("causal", 1), "T5Buckets needs 4 buckets or more, 2 where it is causal; it got 1."),
        (lambda: T5Buckets(max_distance=8), "T5Buckets needs a greatest distance above 8"),
        (lambda: T5Buckets("causal", max_distance=16), "the number of distances with a bucket each. It got 16."),
        (lambda: T5Buckets(table=torch.ones(32, 4)).bind(5, 5, 3), "a table of shape (32, 3)"),
        (lambda: KERPLE("linear"), "KERPLE needs form to be one of logarithmic, power; it got 'linear'."),
        (lambda: KERPLE(r1=0.0), "KERPLE needs a finite r₁ above 0; it got 0.0."),
        (lambda: KERPLE(r2=math.inf), "KERPLE needs a finite r₂ above 0; it got inf."),
        (lambda: KERPLE("power", r2=2.1), "KERPLE's power form needs an r₂ of at most 2; it got 2.1."),
        (lambda: Sandwich(7), "Sandwich needs an even width, half sines and half cosines; it got 7."),
        (lambda: Sandwich(0), "Sandwich needs an even width, half sines and half cosines; it got 0."),
        (lambda: SoftCap(0.0), "SoftCap needs a finite cap above 0; it got 0.0."),
        (lambda: SoftCap(-1.0), "SoftCap needs a finite cap above 0; it got -1.0."),
        (lambda: SoftCap(math.nan), "SoftCap needs a finite cap above 0; it got nan."),
        (lambda: SoftCap(math.inf), "SoftCap needs a finite cap above 0; it got inf."),
        (lambda: SSMax(math.nan), "SSMax needs a finite s; it got nan."),
    ],
    ids=range(18),
)
def test_parameters_that_make_no_sense_are_refused_in_words(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


# ALiBi


def alibi(heads, tokens, form="causal"):
    return ALiBi(form).bind(tokens, tokens, heads)(torch.zeros(heads, tokens, tokens), *places(heads, tokens, tokens))


@pytest.mark.parametrize("heads", HEADS)
def test_slopes_as_bloom_has_them(heads):
    theirs = build_alibi_tensor(torch.ones(1, 9, dtype=torch.int64), heads, torch.float32)
    torch.testing.assert_close(alibi(heads, 9)[:, :1], theirs, atol=0, rtol=1e-6)


@pytest.mark.parametrize("heads", HEADS)
def test_slopes_as_mpt_has_them(heads):
    torch.testing.assert_close(alibi(heads, 9)[:, -1:], build_mpt_alibi_tensor(heads, 9), atol=0, rtol=1e-6)


# T5


@given(
    st.sampled_from(["bidirectional", "causal"]), st.integers(4, 256), st.integers(16, 4096), st.integers(-5000, 5000)
)
def test_buckets_as_t5_has_them(direction, buckets, greatest, relative):
    both = direction == "bidirectional"
    if buckets // (4 if both else 2) >= greatest:
        greatest = buckets
    relative = torch.tensor([relative, 0, 1, -1, greatest, -greatest, buckets // 2, -buckets // 2, buckets, -buckets])
    theirs = T5Attention._relative_position_bucket(relative, both, buckets, greatest)
    assert torch.equal(T5Buckets(direction, buckets, greatest).bucket(torch.tensor(0), relative), theirs)


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (300, 300), (7, 12), (12, 7)])
def test_what_t5_adds(direction, queries, keys):
    config = T5Config(d_model=8, d_kv=2, num_heads=3, is_decoder=direction == "causal")
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    bias = T5Buckets(direction, table=theirs.relative_attention_bias.weight).bind(queries, keys, 3)
    ours = bias(torch.zeros(3, queries, keys), *places(3, queries, keys))
    assert torch.equal(ours, theirs.compute_bias(queries, keys)[0])
    ours.sum().backward()
    assert bias.table.grad.sum() == 3 * queries * keys


def drawn(heads=2, **more):
    return T5Buckets(**more).bind(9, 9, heads).table


def test_what_is_not_given_is_drawn_from_the_seed():
    before = torch.get_rng_state()
    assert torch.equal(drawn(), drawn())
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.isclose(drawn(), drawn(seed=1)).any()
    assert drawn(heads=5, buckets=8).shape == (8, 5)
    assert drawn(heads=64).std() == pytest.approx(1, abs=0.05)
    first = torch.tensor([[-1.1258, -1.1524], [-0.2506, -0.4339]])
    torch.testing.assert_close(drawn()[:2], first, atol=1e-4, rtol=0)


def test_tables_are_told_apart_by_their_numbers():
    one, same, other = (T5Buckets(table=torch.full((32, 2), value)) for value in (1.0, 1.0, 2.0))
    assert one == same
    assert len({one, same, other, T5Buckets()}) == 3
    assert T5Buckets() != "T5Buckets()"
    assert re.fullmatch(r"T5Buckets\(.*, seed=0, table=<32×2 torch.float32 [0-9a-f]{16}>\)", repr(one))


# Soft cap


def test_soft_cap_as_gemma_2_applies_it(random_inputs):
    inputs = random_inputs(d_k=16)
    query, key, value = (array[None] * 3 for array in (inputs.query, inputs.key, inputs.value))
    attention = torch.nn.Module()
    attention.num_key_value_groups, attention.training = 1, False
    _, expected = eager_attention_forward(attention, query, key, value, None, scaling=1 / 4, softcap=2.0)
    weights = Mechanism(biases=(SoftCap(2.0),)).stages(query, key, value, torch.tensor(True), NOWHERE).weights
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)


# Scalable softmax


def test_scalable_softmax_as_a_scale_of_the_queries(random_inputs):
    inputs = random_inputs(queries=6, keys=6)
    longer = inputs.query * 0.43 * torch.arange(1, 7).log()[:, None]
    expected = scaled_dot_product_attention(longer, inputs.key, inputs.value, is_causal=True)
    torch.testing.assert_close(Mechanism(biases=(SSMax(),), mask=Causal())(inputs).output, expected)


def test_scalable_softmax_counts_for_each_head_and_example():
    class Fewer(Mask):
        """Example b and head h see b + h + 1 keys."""

        def __call__(self, b, h, q, k):
            return k <= b + h

    b, h = torch.arange(3)[:, None, None, None], torch.arange(2)[:, None, None]
    at = (b, h, torch.arange(4)[:, None], torch.arange(9))
    ours = SSMax(1.0).with_mask(Fewer()).bind(4, 9, 2)(torch.ones(3, 2, 4, 9), *at)
    torch.testing.assert_close(ours, (b + h + 1.0).log().expand(3, 2, 4, 9))
