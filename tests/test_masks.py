import operator
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import scaled_dot_product_attention
from transformers import masking_utils

from attnviz import Mechanism, masks
from attnviz.masks import MASKS, Band, Causal, Full, Mask, Padding, Shifted, SlidingWindow

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

SIZES = [(1, 1), (6, 6), (3, 7), (7, 3), (1, 5), (5, 1)]
BOTTOM_RIGHT = Causal("bottom right")

# Each mask and its rule for query i and key j; d is how many more keys there are than queries.
RULES = [
    (Full(), lambda i, j, d: True),
    (Causal(), lambda i, j, d: j <= i),
    (BOTTOM_RIGHT, lambda i, j, d: j <= i + d),
    (Padding(0), lambda i, j, d: False),
    (Padding(3), lambda i, j, d: j < 3),
    (SlidingWindow(0), lambda i, j, d: False),
    (SlidingWindow(1), lambda i, j, d: j == i),
    (SlidingWindow(3), lambda i, j, d: j <= i and j > i - 3),
    (SlidingWindow(0, "steps back"), lambda i, j, d: j == i),
    (SlidingWindow(3, "steps back"), lambda i, j, d: j <= i and i - j <= 3),
    (Band(0), lambda i, j, d: j == i),
    (Band(2), lambda i, j, d: abs(i - j) <= 2),
    (Causal() & Padding(3), lambda i, j, d: j <= i and j < 3),
    (~Causal(), lambda i, j, d: j > i),
    (~BOTTOM_RIGHT & Band(1), lambda i, j, d: j > i + d and abs(i - j) <= 1),
    (SlidingWindow(2) | Padding(2) & ~Band(3), lambda i, j, d: j <= i < j + 2 or (j < 2 and abs(i - j) > 3)),
    (~(BOTTOM_RIGHT | Band(1)), lambda i, j, d: not (j <= i + d or abs(i - j) <= 1)),
    (Shifted(Causal(), 2), lambda i, j, d: j <= i + 2),
]


def grid(mask, queries, keys):
    """What a mask says of every cell, asked as FlexAttention documents it: with positions that broadcast."""
    b = h = torch.tensor(0)
    q, k = torch.arange(queries)[:, None], torch.arange(keys)
    return mask.fit(queries, keys)(b, h, q, k).expand(queries, keys)


@pytest.mark.parametrize(("mask", "rule"), RULES, ids=lambda x: repr(x) if isinstance(x, Mask) else "")
@pytest.mark.parametrize(("queries", "keys"), SIZES)
def test_a_mask_is_its_rule_here_and_in_flex_attention(mask, rule, queries, keys):
    expected = torch.tensor([[rule(i, j, keys - queries) for j in range(keys)] for i in range(queries)])
    assert torch.equal(grid(mask, queries, keys), expected)
    assert torch.equal(create_mask(mask.fit(queries, keys), None, None, queries, keys, device="cpu")[0, 0], expected)


def test_every_mask_of_the_menu_has_a_rule_here():
    assert set(MASKS) <= {type(mask) for mask, _ in RULES}


@pytest.mark.parametrize("queries", [1, 3, 5])
def test_padding_by_pattern(queries):
    pattern = (True, False, True, True, False)
    expected = torch.tensor([pattern] * queries)
    assert torch.equal(grid(Padding(pattern), queries, 5), expected)
    assert torch.equal(create_mask(Padding(pattern), None, None, queries, 5, device="cpu")[0, 0], expected)


def test_padding_by_count_is_the_pattern_that_a_tokenizer_gives():
    assert torch.equal(grid(Padding(2), 4, 4), grid(Padding((True, True, False, False)), 4, 4))


@pytest.mark.parametrize(
    "mask",
    [
        Padding((True,) * 4),
        Causal() & Padding((True,) * 4),
        Padding((True,) * 4) | Causal(),
        ~Padding((True,) * 4),
        Shifted(Padding((True,) * 4), 1),
    ],
    ids=repr,
)
def test_a_pattern_for_another_number_of_keys_is_refused(mask):
    with pytest.raises(ValueError, match=re.escape("Padding is given for 4 keys; here there are 5.")):
        mask.fit(3, 5)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 7), (1, 6)])
def test_causal_bottom_right_as_torch_aligns_it(random_inputs, queries, keys):
    inputs = random_inputs(queries=queries, keys=keys)
    bias = causal_lower_right(queries, keys)
    expected = scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, attn_mask=bias)
    torch.testing.assert_close(Mechanism(mask=BOTTOM_RIGHT)(inputs).output, expected)


def test_causal_bottom_right_needs_to_know_how_many_there_are():
    with pytest.raises(ValueError, match=r"call fit\(queries, keys\) first"):
        BOTTOM_RIGHT(*torch.zeros(4, dtype=torch.int64))


def test_a_shifted_mask_is_told_how_many_there_are():
    shifted = Shifted(BOTTOM_RIGHT, 1)  # k ≤ q + 1 + (5 − 3)
    assert torch.equal(grid(shifted, 3, 5), torch.ones(3, 5).tril(3).bool())


@pytest.mark.parametrize(
    ("mask", "theirs"),
    [
        (Full(), masking_utils.bidirectional_mask_function),
        (Causal(), masking_utils.causal_mask_function),
        (SlidingWindow(3), masking_utils.sliding_window_causal_mask_function(3)),
        (Band(2), masking_utils.sliding_window_bidirectional_mask_function(2)),
        (Padding(3), masking_utils.padding_mask_function(torch.arange(7)[None] < 3)),
        (
            Causal() & Padding(3),
            masking_utils.and_masks(
                masking_utils.causal_mask_function, masking_utils.padding_mask_function(torch.arange(7)[None] < 3)
            ),
        ),
    ],
    ids=lambda x: repr(x) if isinstance(x, Mask) else "",
)
def test_masks_as_transformers_makes_them(mask, theirs):
    at = (torch.tensor(0), torch.tensor(0), torch.arange(7)[:, None], torch.arange(7))
    assert torch.equal(grid(mask, 7, 7), theirs(*at).expand(7, 7))


def test_a_mask_written_for_flex_attention_may_look_at_the_head(random_inputs):
    class PerHead(Mask):
        def __call__(self, b, h, q, k):
            return k <= q + h

    allowed = Mechanism(mask=PerHead())(random_inputs(heads=3, queries=4, keys=4)).allowed
    assert torch.equal(allowed, create_mask(PerHead(), None, 3, 4, 4, device="cpu")[0])


SIMPLE = st.one_of(
    st.just(Full()),
    st.builds(Causal, st.sampled_from(["top left", "bottom right"])),
    st.builds(SlidingWindow, st.integers(0, 6), st.sampled_from(["keys seen", "steps back"])),
    st.builds(Band, st.integers(0, 6)),
    st.builds(Padding, st.integers(0, 9)),
)
ANY = st.recursive(
    SIMPLE,
    lambda inner: (
        st.builds(operator.and_, inner, inner) | st.builds(operator.or_, inner, inner) | st.builds(operator.inv, inner)
    ),
    max_leaves=6,
)
LENGTH = st.integers(1, 9)


@given(ANY, ANY, LENGTH, LENGTH)
def test_and_only_removes_and_or_only_adds(a, b, queries, keys):
    left, right = grid(a, queries, keys), grid(b, queries, keys)
    both, either = grid(a & b, queries, keys), grid(a | b, queries, keys)
    assert not (both & ~left).any()
    assert not (both & ~right).any()
    assert not (left & ~either).any()
    assert not (right & ~either).any()
    assert both.sum() + either.sum() == left.sum() + right.sum()


@given(ANY, ANY, LENGTH, LENGTH)
def test_de_morgan_and_double_negation(a, b, queries, keys):
    assert torch.equal(grid(~(a & b), queries, keys), grid(~a | ~b, queries, keys))
    assert torch.equal(grid(~(a | b), queries, keys), grid(~a & ~b, queries, keys))
    assert torch.equal(grid(~~a, queries, keys), grid(a, queries, keys))
    assert not (grid(a, queries, keys) & grid(~a, queries, keys)).any()


@given(ANY, LENGTH, LENGTH)
def test_what_is_printed_evaluates_back_to_an_equal_mask(mask, queries, keys):
    for written in (mask, mask.fit(queries, keys)):
        read = eval(repr(written), vars(masks))
        assert read == written
        assert hash(read) == hash(written)


@given(ANY, ANY)
def test_masks_that_print_alike_are_equal_and_others_are_not(a, b):
    assert (a == b) == (repr(a) == repr(b))


@given(ANY, LENGTH, LENGTH)
def test_a_mask_that_fits_still_fits(mask, queries, keys):
    fitted = mask.fit(queries, keys)
    assert fitted.fit(queries, keys) == fitted


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SlidingWindow(-1), "SlidingWindow needs size ≥ 0; it got -1."),
        (lambda: Band(-1), "Band needs width ≥ 0; it got -1."),
        (lambda: Padding(-1), "Padding needs keys ≥ 0; it got -1."),
        (lambda: Causal("middle"), "Causal needs align to be one of top left, bottom right; it got 'middle'."),
        (
            lambda: SlidingWindow(2, "both"),
            "SlidingWindow needs counts to be one of keys seen, steps back; it got 'both'.",
        ),
    ],
)
def test_impossible_parameters_are_refused_in_words(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()
