import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz import Inputs, Mechanism
from attnviz.analysis.difference import FACTOR_TOLERANCE, OUTCOMES, difference, mass_shift, outcome_counts, outcomes
from attnviz.analysis.head_maps import head_map
from attnviz.masks import Band, Causal, Full, Mask, Padding, SlidingWindow
from attnviz.masks.terms import take
from attnviz.normalizers import Hard, Softmax, Uniform
from attnviz.scores import ScaledDot

CASES = Path(__file__).parents[1] / "cases" / "changes.json"  # which the tests of the browser's side use, too

NAN = math.nan
REAL = [Full(), Causal(), ~Causal(), SlidingWindow(2), Band(1), Padding(3), Padding(0)]


class Cells(Mask):
    """What a table of True and False says."""

    def __init__(self, table):
        self.table = table

    def __call__(self, b, h, q, k):
        return take(self.table.flatten().int().tolist(), q * self.table.shape[1] + k) == 1

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


def weights(mask, *, spread=1.0, normalizer=None, queries=5, keys=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(1, queries, 4, generator=generator), torch.randn(1, keys, 4, generator=generator)
    inputs = Inputs(query * spread, key, key, tuple(map(str, range(queries))), tuple(map(str, range(keys))))
    return head_map(inputs, Mechanism(ScaledDot(), mask=mask, normalizer=normalizer or Softmax()), 0)


def slow_kind(a, b):
    if math.isnan(a):
        return "neither" if math.isnan(b) else "added"
    if math.isnan(b):
        return "removed"
    return "kept" if math.isclose(a, b, rel_tol=1e-6, abs_tol=2e-38) else "re-weighted"


def slow_difference(a, b):
    if math.isnan(a) and math.isnan(b):
        return NAN
    return (0 if math.isnan(b) else b) - (0 if math.isnan(a) else a)


@pytest.mark.parametrize("b", REAL, ids=repr)
@pytest.mark.parametrize("a", REAL, ids=repr)
def test_kinds_and_difference_a_cell_at_a_time(a, b):
    a, b = weights(a), weights(b)
    cells = list(zip(a.flatten().tolist(), b.flatten().tolist(), strict=True))
    expected = [slow_kind(*cell) for cell in cells]
    assert [OUTCOMES[kind] for kind in outcomes(a, b).flatten().tolist()] == expected
    assert outcome_counts(outcomes(a, b)) == {kind: expected.count(kind) for kind in OUTCOMES}
    apart = torch.tensor([slow_difference(*cell) for cell in cells])
    torch.testing.assert_close(difference(a, b).flatten(), apart, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("case", json.loads(CASES.read_text()), ids=str)
def test_a_change_is_what_the_browser_takes_it_for(case):
    before, after = (torch.tensor([[math.nan if one is None else one]]) for one in (case["before"], case["after"]))
    assert OUTCOMES[int(outcomes(before, after))].replace("-", "") == case["change"]


def test_a_weight_that_differs_in_its_last_digits_alone_is_the_same():
    a = torch.tensor([[0.3, 0.3, 1e-20, 1e-20, 0.0]])
    b = torch.tensor([[0.3 * (1 + 2**-22), 0.3 * (1 + 1e-5), 1e-20, 1.001e-20, 0.0]])
    assert [OUTCOMES[kind] for kind in outcomes(a, b)[0]] == ["kept", "re-weighted", "kept", "re-weighted", "kept"]


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 6), st.floats(0.01, 30), st.floats(0, 1))
def test_with_softmax_survivors_grow_by_one_factor(seed, queries, keys, spread, share):
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(queries, keys, generator=generator) < 0.8
    smaller = table & (torch.rand(queries, keys, generator=generator) < share)
    a = weights(Cells(table), spread=spread, queries=queries, keys=keys, seed=seed)
    b = weights(Cells(smaller), spread=spread, queries=queries, keys=keys, seed=seed)
    for q in range(queries):
        where = mass_shift(a[q], b[q])
        assert where.added == ()
        assert (where.keys_before, where.keys_after) == (table[q].sum(), smaller[q].sum())
        if where.factor is None:
            assert where.keys_after == 0 or where.removed_mass > 0.999
            assert where.proportional is None
            continue
        assert where.proportional, where.deviation
        if where.removed_mass < 0.99:  # else nothing is left of the subtraction
            assert where.factor == pytest.approx(1 / (1 - where.removed_mass), rel=1e-4)
        for key in smaller[q].nonzero().flatten().tolist():
            assert float(b[q, key]) == pytest.approx(float(a[q, key]) * where.factor, abs=FACTOR_TOLERANCE)


@given(st.integers(0, 10**6), st.floats(0.1, 10))
def test_mass_is_conserved(seed, spread):
    generator = torch.Generator().manual_seed(seed)
    tables = torch.rand(2, 4, 6, generator=generator) < 0.6
    a, b = (weights(Cells(table), spread=spread, queries=4, keys=6, seed=seed) for table in tables)
    for a_row, b_row in zip(a, b, strict=True):
        where = mass_shift(a_row, b_row)
        left, came = where.removed_mass + where.lost_mass, where.added_mass + where.gained_mass
        assert left - came == pytest.approx(where.before - where.after, abs=1e-12)
        assert where.total == pytest.approx((left + came) / 2, abs=1e-12)
        if where.keys_before and where.keys_after:
            assert where.before == pytest.approx(1, abs=1e-6)
            assert left == pytest.approx(came, abs=1e-6)
            assert where.total == pytest.approx(left, abs=1e-6)
        opposite = mass_shift(b_row, a_row)
        assert (opposite.removed, opposite.gained, opposite.total) == (where.added, where.lost, where.total)
        same = mass_shift(a_row, a_row)
        assert (same.total, same.removed, same.added, same.gained, same.lost) == (0, (), (), (), ())


def test_where_the_mass_went():
    where = mass_shift(torch.tensor([0.125, 0.5, 0.25, NAN, 0.125]), torch.tensor([0.25, NAN, 0.25, 0.5, NAN]))
    assert where.removed == ((1, 0.5), (4, 0.125))
    assert where.added == ((3, 0.5),)
    assert where.gained == ((0, 0.125),)
    assert where.lost == ()
    assert (where.before, where.after, where.keys_before, where.keys_after) == (1, 1, 4, 3)
    assert where.total == 0.625
    assert where.factor is where.proportional is None  # b also adds


def test_taking_keys_away_with_the_numbers_to_say_it_in_a_sentence():
    where = mass_shift(torch.tensor([0.5, 0.25, 0.125, 0.125]), torch.tensor([NAN, 0.5, 0.25, 0.25]))
    assert (where.removed_mass, where.factor, where.deviation, where.proportional) == (0.5, 2, 0, True)
    assert where.gained == ((1, 0.25), (2, 0.125), (3, 0.125))


def test_normalizers_that_do_not_share_in_proportion_are_found_out():
    rows = zip(weights(Full(), normalizer=Hard()), weights(Padding(3), normalizer=Hard()), strict=True)
    assert any(where.factor is None and where.removed_mass == 1 for where in (mass_shift(*pair) for pair in rows))
    given_up = mass_shift(torch.tensor([0.4, 0.4, 0.2]), torch.tensor([NAN, 0.9, 0.1]))
    assert given_up.proportional is False
    assert given_up.deviation == pytest.approx(0.9 - 0.4 / 0.6)


def test_uniform_weights_share_in_proportion_too():
    rows = zip(weights(Full(), normalizer=Uniform()), weights(Padding(3), normalizer=Uniform()), strict=True)
    assert all(
        where.proportional and where.factor == pytest.approx(7 / 3) for where in (mass_shift(*pair) for pair in rows)
    )


@pytest.mark.parametrize(("a", "b"), [([NAN, NAN], [0.5, 0.5]), ([0.5, 0.5], [NAN, NAN]), ([NAN, NAN], [NAN, NAN])])
def test_an_empty_row_says_so_and_has_no_factor(a, b):
    where = mass_shift(torch.tensor(a), torch.tensor(b))
    assert where.keys_before == 2 * (a == [0.5, 0.5])
    assert where.keys_after == 2 * (b == [0.5, 0.5])
    assert (where.before, where.after) == (where.keys_before / 2, where.keys_after / 2)
    assert where.total == abs(where.before - where.after) / 2
    assert where.factor is where.deviation is where.proportional is None


def test_a_row_that_keeps_next_to_nothing_has_no_factor():
    where = mass_shift(torch.tensor([1.0, 1e-44]), torch.tensor([NAN, 1.0]))
    assert (where.removed_mass, where.keys_after) == (1, 1)
    assert where.factor is where.proportional is None


def test_arrays_are_taken_too():
    a, b = np.array([[0.5, 0.5]]), np.array([[NAN, 1.0]])
    assert outcomes(a, b).tolist() == [[3, 2]]
    assert difference(a, b).tolist() == [[-0.5, 0.5]]
    assert mass_shift(a[0], b[0]).factor == 2


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize("compare", [outcomes, difference])
def test_maps_of_different_shapes_are_refused_in_words(compare):
    sentence = "Only weights of the same queries and keys can be compared; these are 2 × 3 and 2 × 4."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        compare(torch.ones(2, 3), torch.ones(2, 4))
