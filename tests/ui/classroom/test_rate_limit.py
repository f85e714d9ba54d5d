"""How often somebody may do something."""

from hypothesis import given
from hypothesis import strategies as st

from attnviz.ui.classroom import rate_limit
from attnviz.ui.classroom.rate_limit import RateLimit


@given(st.lists(st.floats(0, 5), max_size=60))
def test_in_any_time_no_more_pass_than_the_burst_and_the_rate_allow(pauses: list[float]) -> None:
    now = 0.0
    limit = RateLimit(5, 2.0, lambda: now)
    passed = []
    for pause in pauses:
        now += pause
        if limit.take("Ada"):
            passed.append(now)
    for i, start in enumerate(passed):
        for j, end in enumerate(passed[i:], 1):
            assert j <= 5 + 2.0 * (end - start) + 1e-6


def test_who_waits_may_go_on_and_nobody_pays_for_another() -> None:
    now = 0.0
    limit = RateLimit(1, 0.5, lambda: now)
    assert limit.take("Ada")
    assert limit.is_spent("Ada")
    assert not limit.take("Ada")
    assert limit.take("Bob")
    now = 2.0
    assert not limit.is_spent("Ada")
    assert limit.take("Ada")


def test_a_flood_of_names_does_not_fill_the_memory() -> None:
    limit = RateLimit(1, 1.0)
    for number in range(rate_limit.MOST_NAMES + 100):
        limit.take(str(number))
    assert len(limit._tokens) == rate_limit.MOST_NAMES
