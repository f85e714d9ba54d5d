"""Which keys a query sees, in words: the ranges are exactly those of the mask, and the sentence is one that people
say."""

import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.masks import MASKS, parse
from attnviz.masks.visible_keys import KeyRange, key_ranges, keys_in_words

SIZES = ((7, 7), (3, 9), (9, 3))
ATOMS = (
    "causal",
    "full",
    "sinks(2)",
    "band(1)",
    "sliding_window(3)",
    "k < 2",
    "k >= 3",
    "k == 4",
    "q - k == 1",
    "0 <= q - k < 3",
    "abs(q - k) <= 2",
    "k > q + 1",
    "2 > k - q",
    "k != q",
    "k < -1",
    "shifted(causal, 1)",
    "sinks_and_window(1, 2)",
    "prefix_lm(3)",
)
ANY = st.recursive(
    st.sampled_from(ATOMS),
    lambda parts: (
        st.tuples(parts, st.sampled_from("&|"), parts).map(lambda three: f"({three[0]}) {three[1]} ({three[2]})")
        | parts.map(lambda one: f"~({one})")
    ),
    max_leaves=5,
)


def union(ranges: list[KeyRange], queries: int, keys: int) -> torch.Tensor:
    q, k = torch.arange(queries)[:, None], torch.arange(keys)
    allowed = torch.zeros(queries, keys, dtype=torch.bool)
    for one in ranges:
        allowed |= (one.low <= k - q) & (k - q <= one.high) & (one.first <= k) & (k <= one.last)
    return allowed


@given(ANY)
def test_the_ranges_are_those_of_the_mask(text) -> None:
    mask = parse(text)
    if (ranges := key_ranges(mask)) is not None:
        for queries, keys in SIZES:
            assert torch.equal(union(ranges, queries, keys), mask.matrix(queries, keys))


@pytest.mark.parametrize("kind", MASKS)
def test_masks_of_the_catalogue_are_exact_where_they_are_ranges(kind: type) -> None:
    if (ranges := key_ranges(kind())) is not None:
        for queries, keys in SIZES:
            assert torch.equal(union(ranges, queries, keys), kind().matrix(queries, keys))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("causal & sliding_window(3) | sinks(1)", "itself, the 2 keys before it and the first key"),
        ("causal & (q - k < 4) | k < 2", "itself, the 3 keys before it and the first 2 keys"),
        ("sinks_and_window(4, 4)", "itself, the 3 keys before it and the first 4 keys that are not after it"),
        ("band(2)", "itself and 2 keys on either side"),
        ("~causal", "all keys after it"),
        ("k >= 2 & k < 5", "keys 2 to 4"),
        ("q - k == 3", "the key 3 positions before it"),
        ("q // 4 == k // 4", None),
        ("causal & h == 0", None),
        ("q > 1", None),
        ("k < 0", None),
    ],
)
def test_few_ranges_are_an_enumeration(text: str, expected: str | None) -> None:
    assert keys_in_words(parse(text)) == expected


def test_a_long_rule_is_given_up_before_it_takes_time() -> None:
    near, far = (
        "|".join("(" + "|".join(f"{term}=={3 * i}" for i in range(j, j + 6)) + ")" for j in range(0, 36, 6))
        for term in ("q-k", "k")
    )
    mask, calls = parse(f"({near})&({far})"), 0

    def count(frame, event, _argument) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.endswith("visible_keys.py")

    sys.setprofile(count)
    try:
        ranges = key_ranges(mask)
    finally:
        sys.setprofile(None)
    assert ranges is None
    assert calls < 20_000


def test_a_sentence_says_when_a_key_is_seen_where_ranges_do_not_do() -> None:
    assert parse("causal").describe() == "A query sees itself and all keys before it."
    assert parse("q == 2 | k == 1").describe().startswith("A query sees a key if ")
