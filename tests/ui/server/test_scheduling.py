"""Slots are given to sessions in turn, and heavy work leaves room for light runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from attnviz.base.turns import HEAVY_WORK, SHORT_WORK
from attnviz.mechanism import Mechanism
from attnviz.sources import Toy
from attnviz.ui.cache import VisitorResults
from attnviz.ui.server import scheduling
from attnviz.ui.server.scheduling import FairSlots, _Request, computation, page_run
from tests.support.waiting import until

SHORT, HEAVY = HEAVY_WORK + 1, SHORT_WORK


class Waiting(Exception):
    """Raised by a request that has to wait."""


def refuse():
    raise Waiting


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(scheduling, "POLL", 0.001)
    monkeypatch.setattr(scheduling, "_runs", FairSlots(2))
    monkeypatch.setattr(scheduling, "_heavy", FairSlots(1))
    monkeypatch.setattr(scheduling, "_short", FairSlots(1))


def in_order(slots, sessions):
    """The order in which these sessions, waiting from the first to the last, get the only slot."""
    slots.acquire("somebody")
    order, began = [], []

    def wait(session):
        slots.acquire(session, lambda: began.append(session))
        order.append(session)
        slots.release(session)

    with ThreadPoolExecutor(len(sessions)) as pool:
        for i, session in enumerate(sessions):
            pool.submit(wait, session)
            until(lambda expected=i + 1: len(slots._waiting) == expected)
        slots.release("somebody")
    return order


def test_sessions_take_turns():
    assert in_order(FairSlots(1), ["a", "a", "a", "b", "c"]) == ["a", "b", "c", "a", "a"]


def test_who_had_a_turn_comes_after_who_had_none():
    slots = FairSlots(2)
    slots.acquire("keeper")  # one of the two slots stays taken
    slots.acquire("a")
    slots.release("a")
    assert in_order(slots, ["a", "b"]) == ["b", "a"]


def test_a_run_that_is_no_longer_wanted_leaves_the_queue():
    slots = FairSlots(1)
    slots.acquire("a")
    with pytest.raises(Waiting):
        slots.acquire("b", refuse)
    slots.release("a")
    slots.acquire("c", refuse)


def test_a_session_has_one_slot_at_most():
    slots = FairSlots(3)
    slots.acquire("a")
    with pytest.raises(Waiting):
        slots.acquire("a", refuse)
    slots.acquire("b", refuse)
    slots.release("a")
    slots.acquire("a", refuse)
    assert slots._free == 1


def test_a_session_has_one_place_in_the_line_however_much_it_asks_for():
    slots = FairSlots(1)
    slots.acquire("somebody")
    line = [_Request(session) for session in ("a", "a", "b", "a", "c")]
    slots._waiting.extend(line)
    assert [slots.place(session) for session in "abc"] == [1, 2, 3]
    slots._last_turn["a"] = 7  # who had a turn comes after who had none
    assert [slots.place(session) for session in "bca"] == [1, 2, 3]


def test_who_waits_for_an_own_computation_is_told_so():
    slots, places = FairSlots(1), []
    slots.acquire("a")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(slots.acquire, "a", lambda: None, places.append)
        until(lambda: places)
        assert {*places} == {scheduling.BEHIND_OWN}
        assert slots.place("b") == 1
        slots.release("a")
        second.result(20)
    assert scheduling.line_sentence(places[0]) == "Your earlier computation is still running. This one waits for it."


def test_who_waits_is_told_the_place_and_who_leaves_frees_it():
    slots, places, wanted = FairSlots(1), [], threading.Event()
    wanted.set()
    slots.acquire("somebody")

    def leave_when_told():
        if not wanted.is_set():
            raise Waiting

    def in_line(session, check, on_place):
        slots.acquire(session, check, on_place)
        slots.release(session)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(in_line, "a", leave_when_told, lambda place: None)
        until(lambda: slots._waiting)
        second = pool.submit(in_line, "b", lambda: None, places.append)
        until(lambda: places)
        assert places[0] == 2
        wanted.clear()
        with pytest.raises(Waiting):
            first.result(20)
        until(lambda: places[-1] == 1)
        slots.release("somebody")
        second.result(20)
    assert slots.is_unused


def test_a_page_shows_its_place_in_the_line_while_it_waits(monkeypatch):
    page = _Page()
    monkeypatch.setattr(scheduling.st, "empty", page.empty)
    with scheduling.place_in_line() as show:
        assert page.shown == []
        for place in (3, 3, 2):
            show(place)
        sentences = [
            "The server is computing for others. Your place in the line: 3.",
            "The server is computing for others. Your place in the line: 2.",
        ]
        assert page.shown == sentences
    assert page.shown == [*sentences, ""]


def test_a_slot_is_given_back_if_the_place_in_the_line_cannot_be_removed():
    def show(place):
        if not place:
            raise Waiting

    with pytest.raises(Waiting), scheduling.heavy_slot("a", lambda: None, show):
        pytest.fail("it has begun")
    assert scheduling._heavy.is_unused


class _Page:
    def __init__(self):
        self.shown, self.is_drawn = [], False

    def empty(self):
        self.shown += [""] if self.is_drawn else []
        self.is_drawn = True
        return self

    def caption(self, text):
        self.shown.append(text)


def test_a_computation_that_is_no_longer_wanted_ends_between_its_parts(monkeypatch):
    wanted, parts = threading.Event(), []
    wanted.set()
    monkeypatch.setattr(scheduling, "_session", lambda: ("a", lambda: None if wanted.is_set() else refuse()))
    inputs = Toy().layers()[0].inputs

    def compute():
        for head in range(inputs.heads):
            parts.append(Mechanism()(inputs, heads=slice(head, head + 1)))
            if len(parts) == 2:
                wanted.clear()  # the visitor has asked for something else

    def visit():
        with page_run(), computation(HEAVY):
            compute()

    with pytest.raises(Waiting):
        visit()
    assert len(parts) == 2
    assert scheduling._heavy.is_unused
    assert scheduling._runs.is_unused
    Mechanism()(inputs)  # nobody ends what is not heavy


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
        until(lambda: scheduling._heavy._waiting)
        with page_run(), computation(HEAVY_WORK):
            assert not any(run.done() for run in runs)
        done.set()
        for run in runs:
            run.result(10)
    assert scheduling._runs._free == 2
    assert scheduling._heavy._free == 1


def test_a_short_computation_does_not_wait_for_a_long_one():
    with page_run(), computation(HEAVY), ThreadPoolExecutor(1) as pool:

        def short() -> int:
            with page_run(), computation(SHORT):
                return scheduling._short._free

        assert pool.submit(short).result(10) == 0
    assert scheduling.is_idle()


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
    cache, computed = VisitorResults(8), []

    def compute():
        computed.append(1)
        return len(computed)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: cache.once(compute, "key", work=HEAVY), range(32))) == {1}
