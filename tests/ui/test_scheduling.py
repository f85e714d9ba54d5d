"""Slots are given to sessions in turn, and heavy work leaves room for light runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from attnviz.analysis.work import HEAVY_WORK
from attnviz.ui import scheduling
from attnviz.ui.cache import ResultCache
from attnviz.ui.scheduling import FairSlots, computation, page_run

HEAVY = HEAVY_WORK + 1


class Waiting(Exception):
    """Raised by a request that has to wait."""


def refuse():
    raise Waiting


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(scheduling, "POLL", 0.001)
    monkeypatch.setattr(scheduling, "_runs", FairSlots(2))
    monkeypatch.setattr(scheduling, "_heavy", FairSlots(1))


def in_order(slots, sessions):
    """The order in which these sessions, waiting from the first to the last, get the only slot."""
    slots.acquire("somebody")
    order, began = [], []

    def wait(session):
        slots.acquire(session, lambda: began.append(session))
        order.append(session)
        slots.release()

    with ThreadPoolExecutor(len(sessions)) as pool:
        for i, session in enumerate(sessions):
            pool.submit(wait, session)
            while len(slots._waiting) <= i:
                pass
        slots.release()
    return order


def test_sessions_take_turns():
    assert in_order(FairSlots(1), ["a", "a", "a", "b", "c"]) == ["a", "b", "c", "a", "a"]


def test_who_had_a_turn_comes_after_who_had_none():
    slots = FairSlots(2)
    slots.acquire("a")  # one of the two slots stays taken
    assert in_order(slots, ["a", "b"]) == ["b", "a"]


def test_a_run_that_is_no_longer_wanted_leaves_the_queue():
    slots = FairSlots(1)
    slots.acquire("a")
    with pytest.raises(Waiting):
        slots.acquire("b", refuse)
    slots.release()
    slots.acquire("c", refuse)


def test_heavy_work_leaves_the_slots_of_runs_to_others():
    """Two runs, as many as there are cores, compute something heavy, and a third run needs no waiting."""
    computing, done = threading.Event(), threading.Event()

    def compute():
        computing.set()
        assert done.wait(10)

    def heavy():
        with page_run(), computation(HEAVY):
            compute()

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(heavy) for _ in range(2)]
        assert computing.wait(10)
        while not scheduling._heavy._waiting:
            pass
        with page_run(), computation(HEAVY_WORK):
            assert not any(run.done() for run in runs)
        done.set()
        for run in runs:
            run.result(10)
    assert scheduling._runs._free == 2
    assert scheduling._heavy._free == 1


def test_slots_come_back_after_an_error():
    with page_run():
        with pytest.raises(ValueError, match="wrong"), computation(HEAVY):
            raise ValueError("wrong")
        assert scheduling._runs._free == 1  # the run goes on, with its own
    with pytest.raises(ValueError, match="wrong"), page_run():
        raise ValueError("wrong")
    assert scheduling._runs._free == 2


def test_work_within_heavy_work_waits_for_nothing():
    with computation(HEAVY), computation(HEAVY):
        assert scheduling._heavy._free == 0
    assert scheduling._heavy._free == 1


def test_what_several_sessions_request_at_once_is_computed_once():
    cache, computed = ResultCache(8), []

    def compute():
        computed.append(1)
        return len(computed)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: cache.once(compute, "key", work=HEAVY), range(32))) == {1}


def test_the_result_used_least_recently_is_dropped_first():
    cache = ResultCache(2)
    for key in "aba":
        assert cache.once(lambda key=key: key, key) == key
    cache.once(lambda: "c", "c")
    assert cache.once(lambda: "new", "a") == "a"
    assert cache.once(lambda: "new", "b") == "new"
