import dataclasses
import re
from dataclasses import FrozenInstanceError, fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import flex_attention as flex
from torch.nn.functional import linear, scaled_dot_product_attention

from attnviz import Inputs, Mechanism
from attnviz.biases import BIASES, ALiBi, Bias, Sandwich, SoftCap, SSMax, T5Buckets
from attnviz.inputs import cut_heads
from attnviz.masks import MASKS, Band, Causal, Full, Mask, Padding, SlidingWindow
from attnviz.normalizers import NORMALIZERS, Hard, Identity, Normalizer, Softmax, Uniform
from attnviz.scores import SCORES, Additive, Cosine, Dot, General, ScaledDot

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

STAGES = ("raw", "scores", "allowed", "weights", "output")
EVERY_SCORE = [ScaledDot(), ScaledDot(-0.7), Dot(), General(), Additive(hidden=3), Cosine(0.2)]
NOTHING_FOR_THE_LAST = ~Causal()  # k > q


class Painted(Mask):
    """What a grid of True and False says."""

    def __init__(self, grid):
        self.grid = grid

    def __call__(self, b, h, q, k):
        return self.grid[q, k]


def arrays(inputs):
    return inputs.query, inputs.key, inputs.value


# The oracles: torch's own attention


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 7), (3, 8), (8, 3)])
@pytest.mark.parametrize(("mask", "theirs"), [(Full(), {}), (Causal(), {"is_causal": True})], ids=["full", "causal"])
@pytest.mark.parametrize("scale", [None, 0.9, 1.0])
def test_as_scaled_dot_product_attention(random_inputs, queries, keys, mask, theirs, scale):
    inputs = random_inputs(queries=queries, keys=keys)
    expected = scaled_dot_product_attention(*arrays(inputs), scale=scale, **theirs)
    torch.testing.assert_close(Mechanism(score=ScaledDot(scale), mask=mask)(inputs).output, expected)


def test_any_boolean_mask_as_scaled_dot_product_attention(random_inputs):
    inputs, grid = random_inputs(queries=9, keys=8), torch.rand(9, 8) < 0.4
    grid[4] = False
    expected = scaled_dot_product_attention(*arrays(inputs), attn_mask=grid)
    torch.testing.assert_close(Mechanism(mask=Painted(grid))(inputs).output, expected)


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_grouped_queries_as_scaled_dot_product_attention(random_inputs, kv_heads):
    inputs = random_inputs(heads=6, kv_heads=kv_heads)
    expected = scaled_dot_product_attention(*(array[None] for array in arrays(inputs)), enable_gqa=True)[0]
    torch.testing.assert_close(Mechanism()(inputs).output, expected)


@pytest.mark.parametrize("causal", [False, True])
def test_every_head_as_multihead_attention(causal):
    theirs, x = torch.nn.MultiheadAttention(24, heads := 4, batch_first=True), torch.randn(7, 24)
    torch.nn.init.normal_(theirs.in_proj_bias)
    blocked = ~torch.ones(7, 7).tril().bool() if causal else None
    output, weights = theirs(x[None], x[None], x[None], attn_mask=blocked, average_attn_weights=False)

    query, key, value = linear(x, theirs.in_proj_weight, theirs.in_proj_bias).chunk(3, dim=-1)
    tokens = tuple(map(str, range(7)))
    inputs = Inputs(*(cut_heads(array, heads) for array in (query, key, value)), tokens, tokens)
    ours = Mechanism(mask=Causal() if causal else Full())(inputs)
    torch.testing.assert_close(ours.weights, weights[0])
    torch.testing.assert_close(theirs.out_proj(ours.output.transpose(0, 1).flatten(1)), output[0])


@pytest.mark.parametrize(
    "mask", [Full(), Causal(), SlidingWindow(3), Causal("bottom right") & ~Band(1), NOTHING_FOR_THE_LAST], ids=repr
)
@pytest.mark.parametrize("cap", [None, SoftCap(0.5)], ids=repr)
def test_as_flex_attention(random_inputs, monkeypatch, mask, cap):
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    inputs = random_inputs(heads=4, kv_heads=2, queries=11, keys=11)
    block_mask = flex.create_block_mask(mask.bind(11, 11, 1), None, None, 11, 11, device="cpu")
    expected = flex.flex_attention(
        *(array[None] for array in arrays(inputs)), score_mod=cap, block_mask=block_mask, enable_gqa=True
    )
    ours = Mechanism(biases=() if cap is None else (cap,), mask=mask)(inputs)
    torch.testing.assert_close(ours.output, expected[0])


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_as_the_plain_formula_in_float64(random_inputs, temperature):
    inputs = random_inputs(queries=9, keys=9, d_k=16)
    query, key, value = (array.double() for array in arrays(inputs))
    scores = 2 * torch.tanh(query @ key.mT / 4 / 2)
    for i in range(9):
        scores[:, i, i + 1 :] = -torch.inf
    weights = torch.nn.functional.softmax(scores / temperature, dim=-1)
    ours = Mechanism(biases=(SoftCap(2.0),), mask=Causal(), normalizer=Softmax(temperature))(inputs)
    torch.testing.assert_close(ours.scores.double(), scores, atol=1e-6, rtol=0)
    torch.testing.assert_close(ours.weights.double(), weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours.output.double(), weights @ value, atol=1e-5, rtol=0)


def test_a_batch_as_scaled_dot_product_attention():
    query, key, value = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 4)
    at = (torch.tensor(0), torch.tensor(0), torch.arange(5)[:, None], torch.arange(7))
    ours = Mechanism(mask=Causal()).stages(query, key, value, Causal()(*at), at)
    assert ours.allowed.shape == ours.weights.shape == (2, 3, 5, 7)
    torch.testing.assert_close(ours.output, scaled_dot_product_attention(query, key, value, is_causal=True))


@pytest.mark.parametrize("bias", BIASES)
def test_a_batch_with_any_bias_is_its_examples(random_inputs, bias):
    examples = [random_inputs(heads=3, queries=5, keys=7, seed=seed) for seed in (1, 2)]
    how = Mechanism(biases=(bias(),), mask=Causal("bottom right"))
    query, key, value = (torch.stack(role) for role in zip(*map(arrays, examples), strict=True))
    b, h = torch.arange(2)[:, None, None, None], torch.arange(3)[:, None, None]
    at = (b, h, torch.arange(5)[:, None], torch.arange(7))
    bound = how.bind(queries=5, keys=7, heads=3)
    together = bound.stages(query, key, value, bound.mask(*at), at)
    assert together.allowed.shape == together.scores.shape == (2, 3, 5, 7)
    for one, example in enumerate(examples):
        for stage in STAGES:
            torch.testing.assert_close(getattr(together, stage)[one], getattr(how(example), stage))


# The stages


@pytest.mark.parametrize("score", EVERY_SCORE, ids=repr)
def test_every_stage_is_what_it_says(random_inputs, score):
    inputs, grid = random_inputs(heads=4, kv_heads=2, queries=6, keys=5), torch.rand(6, 5) < 0.6
    grid[2], grid[3] = False, True
    ours = Mechanism(score, (SoftCap(1.5),), Painted(grid))(inputs)
    for head in range(4):
        key, value = inputs.key[head // 2], inputs.value[head // 2]
        torch.testing.assert_close(ours.raw[head], score(inputs.query[head], key))
        assert torch.equal(ours.allowed[head], grid)
        torch.testing.assert_close(ours.scores[head][grid], torch.tanh(ours.raw[head] / 1.5)[grid] * 1.5)
        torch.testing.assert_close(ours.output[head], ours.weights[head] @ value)
    assert torch.equal(ours.scores == -torch.inf, ~ours.allowed)
    assert (ours.weights[~ours.allowed] == 0).all()
    torch.testing.assert_close(ours.weights.sum(-1), grid.any(-1).float().expand(4, 6))


def test_biases_are_applied_one_after_the_other(random_inputs):
    ours = Mechanism(Dot(), (SoftCap(1.0), SoftCap(0.5)))(random_inputs())
    torch.testing.assert_close(ours.scores, torch.tanh(torch.tanh(ours.raw) / 0.5) * 0.5)


def test_a_bias_is_told_the_positions_of_head_query_and_key(random_inputs):
    class ByPlace(Bias):
        def __call__(self, scores, b, h, q, k):
            return scores + 10000 * b + 1000 * h + 100 * q + k

    ours = Mechanism(biases=(ByPlace(),))(random_inputs(heads=3, queries=5, keys=4), heads=[2, 0], rows=[4, 1])
    places = [[[1000.0 * h + 100 * q + k for k in range(4)] for q in (4, 1)] for h in (2, 0)]
    torch.testing.assert_close(ours.scores - ours.raw, torch.tensor(places), atol=1e-3, rtol=0)


@pytest.mark.parametrize("normalizer", [Softmax(), Softmax(0.1), Hard(), Uniform(), Identity()], ids=repr)
@pytest.mark.parametrize(("mask", "empty"), [(Padding(0), [0, 1, 2]), (NOTHING_FOR_THE_LAST, [2])], ids=["all", "one"])
def test_a_row_with_nothing_allowed_has_weights_of_zero_and_no_nan(random_inputs, normalizer, mask, empty):
    inputs = random_inputs(queries=3, keys=3)
    leaves = [array.requires_grad_() for array in arrays(inputs)]
    ours = Mechanism(mask=mask, normalizer=normalizer)(inputs)
    assert torch.equal((ours.weights == 0).all(-1), torch.tensor([[i in empty for i in range(3)]] * 2))
    assert (ours.output[:, empty] == 0).all()
    assert not ours.output.isnan().any()
    ours.output.square().sum().backward()
    assert all(leaf.grad is None or leaf.grad.isfinite().all() for leaf in leaves)


# Picking heads and rows


def picks(count):
    some = st.lists(st.integers(-count, count - 1), min_size=1, max_size=6)
    return some | st.slices(count).filter(lambda cut: range(count)[cut])


def assert_picked(how, inputs, *picks):
    """What is picked is what the whole has there, within 1e-6 of the largest number."""
    whole = how(inputs)
    largest = max(float(getattr(whole, stage).float().nan_to_num(neginf=0).abs().max()) for stage in STAGES)
    for heads, rows in picks:
        part = how(inputs, heads=heads, rows=rows)
        for stage in STAGES:
            expected = getattr(whole, stage)[list(range(inputs.heads))[heads] if isinstance(heads, slice) else heads]
            expected = expected[:, list(range(inputs.queries))[rows] if isinstance(rows, slice) else rows]
            found = getattr(part, stage)
            if stage == "allowed":
                assert torch.equal(found, expected)
            else:
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * largest)


@pytest.mark.parametrize("score", EVERY_SCORE, ids=repr)
@given(data=st.data())
def test_what_is_picked_is_what_the_whole_has(random_inputs, score, data):
    heads, kv_heads = data.draw(st.sampled_from([(1, 1), (3, 3), (4, 2), (3, 1)]))
    queries, keys, width = (data.draw(st.integers(1, most)) for most in (45, 45, 33))
    inputs = random_inputs(heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, d_k=width, d_v=5)
    how = Mechanism(
        score,
        data.draw(
            st.sampled_from([(), (SoftCap(2.0),), *((bias(),) for bias in BIASES), (ALiBi(), SSMax(), Sandwich())])
        ),
        data.draw(st.sampled_from([Full(), Causal(), Causal("bottom right"), ~Causal(), SlidingWindow(3), Padding(2)])),
        data.draw(st.sampled_from([Softmax(), Softmax(0.1), Hard(), Uniform(), Identity()])),
    )
    assert_picked(how, inputs, (data.draw(picks(heads)), data.draw(picks(queries))))


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("score", EVERY_SCORE, ids=repr)
def test_what_is_picked_from_many_rows_is_what_the_whole_has(random_inputs, score):
    count = 601
    inputs = random_inputs(heads=2, kv_heads=1, queries=count, keys=301, d_k=31)
    how = Mechanism(score, mask=Causal())
    assert_picked(how, inputs, ([1], [512]), (slice(None), [-1, 3, 511, 512, 3]))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("bias", BIASES)
def test_a_bias_does_to_what_is_picked_what_it_does_to_the_whole(random_inputs, bias):
    count = 601
    inputs = random_inputs(heads=3, queries=count, keys=301, d_k=31)
    how = Mechanism(biases=(bias(),), mask=Causal("bottom right") | Band(0))
    assert_picked(how, inputs, ([2, 1], [512]), (slice(None), [-1, 3, 511, 512, 3]))


@pytest.mark.parametrize(
    ("pick", "sentence"),
    [
        ({"rows": [5]}, "There is no row 5: this layer has 5, counted from 0."),
        ({"rows": [0, -6]}, "There is no row -6: this layer has 5, counted from 0."),
        ({"heads": [2]}, "There is no head 2: this layer has 2, counted from 0."),
        ({"heads": [-3], "rows": [1]}, "There is no head -3: this layer has 2, counted from 0."),
        ({"rows": []}, "No row was picked. This layer has 5, counted from 0."),
        ({"rows": slice(5, 9)}, "No row was picked. This layer has 5, counted from 0."),
        ({"heads": ()}, "No head was picked. This layer has 2, counted from 0."),
        ({"heads": slice(0, 0)}, "No head was picked. This layer has 2, counted from 0."),
    ],
    ids=str,
)
def test_what_is_not_there_cannot_be_picked(random_inputs, pick, sentence):
    with pytest.raises(IndexError, match=re.escape(sentence)):
        Mechanism()(random_inputs(heads=2, queries=5), **pick)


# Gradients


# As installed: gradcheck calls a mechanism hundreds of times, whose shapes are checked once above.


def example(query, key, value):
    return Inputs(query, key, value, tuple(map(str, range(query.shape[1]))), tuple(map(str, range(key.shape[1]))))


def doubles(*shapes):
    return tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)


@pytest.mark.parametrize("score", EVERY_SCORE, ids=repr)
@pytest.mark.parametrize("mask", [Full(), Causal(), NOTHING_FOR_THE_LAST], ids=["full", "causal", "an empty row"])
def test_gradients_of_query_key_and_value(as_installed, score, mask):
    def combine(query, key, value):
        return Mechanism(score, (SoftCap(3.0),), mask)(example(query, key, value)).output

    assert torch.autograd.gradcheck(combine, doubles((4, 3, 4), (2, 3, 4), (2, 3, 2)))


def test_gradients_of_a_given_table_of_a_bias(as_installed):
    inputs = example(*(array.detach() for array in doubles((2, 5, 4), (2, 5, 4), (2, 5, 2))))

    def combine(table):
        return Mechanism(biases=(T5Buckets("causal", 4, 16, table=table),), mask=Causal())(inputs).output

    assert torch.autograd.gradcheck(combine, doubles((4, 2)))


@pytest.mark.parametrize(
    ("make", "shapes"),
    [(General, [(4, 3)]), (Additive, [(5, 4), (5, 3), (5,)])],
    ids=["General", "Additive"],
)
@pytest.mark.parametrize("mask", [Causal(), NOTHING_FOR_THE_LAST], ids=["causal", "an empty row"])
def test_gradients_of_given_weights(as_installed, make, shapes, mask):
    inputs = example(*(array.detach() for array in doubles((1, 3, 4), (1, 3, 3), (1, 3, 2))))

    def combine(*weights):
        return Mechanism(make(*weights), mask=mask)(inputs).output

    assert torch.autograd.gradcheck(combine, doubles(*shapes))


# Parts


def test_swapped_exchanges_only_what_was_changed():
    default, made_for = Mechanism(), Mechanism(Dot(), (SoftCap(9.0),), Causal(), Softmax(2.0))
    assert made_for.updated(default, default) == made_for
    assert made_for.updated(default, replace(default, mask=Band(1))) == replace(made_for, mask=Band(1))
    assert made_for.updated(made_for, default) == default
    assert made_for.updated(replace(default, mask=Causal()), default) == replace(made_for, mask=Full())


def test_mechanisms_are_equal_when_their_parts_are():
    weight = torch.randn(3, 3)
    one, same = (Mechanism(General(w), (SoftCap(),), Causal() & Padding(3)) for w in (weight, weight.clone()))
    other = replace(one, score=General(weight + 1))
    assert one == same
    assert len({one, same, other}) == 2


def at_limits(made):
    """A part with each of its widgets at its ends; a number that another one limits may be refused, in words."""
    parts = [made]
    for field in fields(made):
        for end in ("min", "max"):
            if end in field.metadata:
                value = (field.metadata[end],) if "many" in field.metadata else field.metadata[end]
                try:
                    parts.append(replace(made, **{field.name: value}))
                except ValueError as problem:
                    refusal = str(problem)
                else:
                    continue
                assert re.fullmatch(rf"{type(made).__name__} .*\.", refusal)
    return parts


@pytest.mark.parametrize("part", [*SCORES, *BIASES, *MASKS, *NORMALIZERS], ids=lambda part: part.__name__)
def test_each_part_of_a_menu_keeps_its_contract_and_computes_at_its_limits(random_inputs, part):
    made = part()
    assert made == part()
    assert hash(made) == hash(part())
    assert dataclasses.is_dataclass(part)
    with pytest.raises(FrozenInstanceError):
        made.anything = 1
    written = part.__dict__.get("__doc__") or ""
    assert written
    assert not written.startswith(f"{part.__name__}("), "the docstring that dataclasses make up explains nothing"
    assert repr(made).startswith(f"{part.__name__}(")
    for field in fields(part):
        values = field.default if "many" in field.metadata else (field.default,)
        for value in values:
            if value is not None and "min" in field.metadata:
                assert field.metadata["min"] <= value <= field.metadata["max"]
    roles = {"score": SCORES, "biases": BIASES, "mask": MASKS, "normalizer": NORMALIZERS}
    role = next(role for role, menu in roles.items() if part in menu)
    for one in at_limits(part()):
        ours = Mechanism(**{role: (one,) if role == "biases" else one})(random_inputs())
        assert ours.output.isfinite().all()
        if not isinstance(one, Normalizer) or one.adds_up:
            torch.testing.assert_close(ours.weights.sum(-1), ours.allowed.any(-1).float())


def test_one_position_is_a_list_of_one(random_inputs):
    inputs = random_inputs(heads=3, queries=4)
    one, same = Mechanism()(inputs, heads=1, rows=-1), Mechanism()(inputs, heads=[1], rows=[3])
    assert torch.equal(one.weights, same.weights)
    assert one.weights.shape == (1, 1, inputs.keys)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"mask": "causal"}, r"mask must be a Mask, such as .*masks\.parse\(\"causal\"\); it is 'causal'\."),
        ({"mask": Causal}, r"mask must be a Mask, such as masks\.Causal\(\).*; it is <class"),
        ({"score": "dot"}, r"score must be a Score, such as scores\.ScaledDot\(\); it is 'dot'\."),
        ({"normalizer": None}, r"normalizer must be a Normalizer, such as normalizers\.Softmax\(\); it is None\."),
        ({"biases": "alibi"}, r"biases must be a tuple, such as \(biases\.ALiBi\(\),\); it is 'alibi'\."),
        ({"biases": ("alibi",)}, r"biases\[0\] must be a Bias, such as biases\.ALiBi\(\); it is 'alibi'\."),
    ],
)
@pytest.mark.usefixtures("as_installed")
def test_a_part_that_is_a_text_or_a_class_is_refused_at_construction(parts, sentence):
    with pytest.raises(ValueError, match=sentence):
        Mechanism(**parts)


def test_the_repr_of_attention_is_one_line_with_shapes():
    inputs = Inputs(torch.zeros(2, 3, 8), torch.zeros(2, 4, 8), torch.zeros(2, 4, 5), tuple("abc"), tuple("wxyz"))
    assert repr(Mechanism()(inputs)) == "Attention(weights 2 × 3 × 4, output 2 × 3 × 5)"
