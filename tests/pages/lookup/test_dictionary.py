"""A dictionary, and attention as a softer one."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.pages.lookup.dictionary import (
    EXACT,
    SOFTNESS,
    Dictionary,
    Entry,
    Exact,
    look_up,
    look_up_grid,
    lookup_gradient,
    lookup_mechanism,
)
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

ANIMALS = Dictionary((Entry("cat", 1.5, 0.5, 4.0), Entry("hen", 0.4, 1.5, 2.0), Entry("snake", -1.4, 0.7, 0.0)))
W = torch.tensor([[0.2, -1.0], [1.0, 0.2]], dtype=torch.float64)
SCORES = [ScaledDot(), Dot(), General(W), Additive(seed=3), Cosine()]
BETWEEN = (1.2, 0.9)
TENTHS = st.integers(-20, 20).map(lambda tenth: tenth / 10)
ENTRIES = st.builds(Entry, st.sampled_from("abcdefgh"), TENTHS, TENTHS, st.integers(-1000, 1000).map(float))
ROWS = st.lists(ENTRIES, min_size=2, max_size=8)


def dictionary_of(table: Dictionary) -> dict:
    return {(entry.x, entry.y): entry.value for entry in table.entries}


@given(rows=ROWS, data=st.data())
def test_exact_match_is_pythons_own_dictionary(rows: list[Entry], data) -> None:
    table = Dictionary(tuple(rows))
    stored = dictionary_of(table)
    for query in (data.draw(st.tuples(TENTHS, TENTHS)), data.draw(st.sampled_from(sorted(stored)))):
        answer = look_up(table, query, lookup_mechanism(EXACT, Dot()))
        assert answer.result == stored.get(query)
        assert sum(answer.similarities) == (query in stored)
        assert answer.weights == answer.similarities


def test_of_equal_keys_the_last_one_counts() -> None:
    twice = torch.tensor([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]])
    assert Exact()(twice[:2], twice).tolist() == [[0, 0, 1], [0, 1, 0]]


def test_a_value_of_zero_comes_back_and_is_not_nothing() -> None:
    assert look_up(ANIMALS, (-1.4, 0.7), lookup_mechanism(EXACT, Dot())).result == 0.0
    assert look_up(ANIMALS, (-1.4, 0.8), lookup_mechanism(EXACT, Dot())).result is None


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
@pytest.mark.parametrize("softness", list(SOFTNESS))
def test_the_answer_is_the_output_of_the_mechanism_number_by_number(softness: str, score) -> None:
    by = lookup_mechanism(softness, score)
    answer = look_up(ANIMALS, BETWEEN, by)
    attention = by(ANIMALS.inputs(torch.tensor([BETWEEN], dtype=torch.float64)))
    assert answer.similarities == tuple(attention.raw[0, 0].tolist())
    assert answer.weights == tuple(attention.weights[0, 0].tolist())
    if softness == EXACT:
        assert answer.result is None
        return
    slowly = sum(weight * entry.value for weight, entry in zip(answer.weights, ANIMALS.entries, strict=True))
    assert answer.result == attention.output.item() == pytest.approx(slowly) == pytest.approx(sum(answer.products))
    assert sum(answer.weights) == pytest.approx(1)


@given(rows=ROWS)
def test_hard_cosine_is_the_dictionary_for_keys_of_different_directions(rows: list[Entry]) -> None:
    directions = {round(math.atan2(entry.y, entry.x), 6): entry for entry in rows if entry.x or entry.y}
    origin = Entry("origin", 0.0, 0.0, 1.0)  # of cosine 0 with every query
    table = Dictionary((origin, origin, *directions.values())[-8:])
    for entry in directions.values():
        assert look_up(table, (entry.x, entry.y), lookup_mechanism("hard", Cosine())).result == entry.value


def test_under_the_dot_product_a_longer_key_may_win_from_an_equal_one() -> None:
    table = Dictionary((Entry("short", 0.5, 0.0, 1.0), Entry("long", 2.0, 0.1, 9.0)))
    assert look_up(table, (0.5, 0.0), lookup_mechanism(EXACT, Dot())).result == 1
    assert look_up(table, (0.5, 0.0), lookup_mechanism("hard", Dot())).result == 9


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
@pytest.mark.parametrize("softness", ["T = 0.3", "T = 1", "T = 10"])
def test_the_soft_gradient_agrees_with_finite_differences(softness: str, score) -> None:
    by, step = lookup_mechanism(softness, score), 1e-5
    slope = lookup_gradient(ANIMALS, BETWEEN, by)
    for axis in (0, 1):
        at = [list(BETWEEN), list(BETWEEN)]
        at[0][axis] -= step
        at[1][axis] += step
        before, after = (look_up(ANIMALS, (x, y), by).result for x, y in at)
        assert slope[axis] == pytest.approx((after - before) / (2 * step), rel=1e-4, abs=1e-6)
    assert max(map(abs, slope)) > 1e-3


@pytest.mark.parametrize("softness", [EXACT, "hard", "uniform"])
def test_a_hard_choice_has_a_gradient_of_zero(softness: str) -> None:
    for score in SCORES:
        by = lookup_mechanism(softness, score)
        assert lookup_gradient(ANIMALS, BETWEEN, by) == (0.0, 0.0)
        moved = look_up(ANIMALS, (BETWEEN[0] + 0.001, BETWEEN[1] - 0.001), by)
        assert moved.result == look_up(ANIMALS, BETWEEN, by).result


def test_where_the_result_jumps_there_is_no_gradient() -> None:
    tie = Dictionary((Entry("east", 1.0, 0.0, 1.0), Entry("north", 0.0, 1.0, 3.0)))
    assert lookup_gradient(tie, (0.7, 0.7), lookup_mechanism("hard", Dot())) is None
    assert lookup_gradient(tie, (1.0, 0.0), lookup_mechanism(EXACT, Dot())) is None  # beside the key nothing comes back
    assert lookup_gradient(ANIMALS, (-1.4, 0.7), lookup_mechanism(EXACT, Dot())) is None  # also where the value is 0
    assert lookup_gradient(tie, (0.0, 0.0), lookup_mechanism("T = 1", Cosine())) is None  # of no direction
    assert lookup_gradient(tie, (0.7, 0.7), lookup_mechanism("T = 0.03", Dot())) is not None
    same = Dictionary((Entry("east", 1.0, 0.0, 2.0), Entry("north", 0.0, 1.0, 2.0)))
    assert lookup_gradient(same, (0.7, 0.7), lookup_mechanism("hard", Dot())) == (0.0, 0.0)  # the result stays


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_the_field_is_what_each_query_gets(score, monkeypatch) -> None:
    monkeypatch.setattr("attnviz.pages.lookup.dictionary.CELLS", 7)
    by = lookup_mechanism("T = 0.3", score)
    every = look_up_grid(ANIMALS, by)
    assert every.axis[0] == pytest.approx(-2 + 2 / 7)
    for row in (0, 3, 6):
        for column in (1, 5):
            one = look_up(ANIMALS, (every.axis[column].item(), every.axis[row].item()), by)
            assert every.weights[row, column].tolist() == pytest.approx(one.weights, abs=1e-4)
            assert every.scores[row, column].tolist() == pytest.approx(one.similarities, abs=1e-4)
            assert every.result[row, column].item() == pytest.approx(one.result, abs=1e-3)


def test_a_dictionary_has_nothing_for_nearly_every_query() -> None:
    every = look_up_grid(ANIMALS, lookup_mechanism(EXACT, Dot()))
    assert every.result.isnan().all()
    assert every.scores.eq(0).all()


@given(rows=ROWS)
def test_the_text_of_a_table_is_the_table(rows: list[Entry]) -> None:
    table = Dictionary(tuple(rows))
    assert Dictionary.parse(str(table)) == table


@pytest.mark.parametrize("text", ["1,0,2,a b;0,1,0.0001,c,d", " 1 , 0 ,-2.5, é ; 0,1,1000,日本"])
def test_words_may_hold_commas_and_any_letters(text: str) -> None:
    read = Dictionary.parse(text)
    assert Dictionary.parse(str(read)) == read


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "An entry is expected as x,y,value,word"),
        ("1,0,2,a", r"must have 2 to 8 rows; it has 1\."),
        (";".join(["1,0,2,a"] * 9), r"must have 2 to 8 rows; it has 9\."),
        ("1,0,2;0,1,1,b", "An entry is expected"),
        ("nan,0,2,a;0,1,1,b", "An entry is expected"),
        ("1e9,0,2,a;0,1,1,b", "An entry is expected"),
        ("9,0,2,a;0,1,1,b", "The x of a must be a number from −2 to 2; it is 9"),
        ("1,-2.1,2,a;0,1,1,b", "The y of a must be"),
        ("1,0,1001,a;0,1,1,b", "The value of a must be a number from −1000 to 1000"),
        ("1,0,2,;0,1,1,b", "A word has 1 to 20 visible characters"),
        (f"1,0,2,{'x' * 21};0,1,1,b", "A word has 1 to 20 visible characters"),
        ("1,0,2,a\nb;0,1,1,b", "An entry is expected|A word has"),
        ("1,0,2,a\x00;0,1,1,b", "A word has"),
        ("[" * 10_000, "An entry is expected"),
    ],
)
def test_other_text_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Dictionary.parse(text)


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="must be a number"):
        Entry("a", math.nan, 0.0, 1.0)
    with pytest.raises(ValueError, match="must be a number"):
        Entry("a", 0.0, 0.0, math.inf)
