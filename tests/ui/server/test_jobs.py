"""Jobs are shared, bounded in number, take turns with page runs, and end when nobody looks."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from attnviz.analysis.ray_engine import ClusterError
from attnviz.base.turns import SHORT_WORK
from attnviz.ui.server import jobs, scheduling
from attnviz.ui.server.jobs import Job, Jobs, OnResult
from attnviz.ui.server.scheduling import FairSlots, computation, page_run
from tests.support.waiting import until

session = threading.local()


@pytest.fixture(autouse=True)
def one_heavy_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "POLL", 0.001)
    monkeypatch.setattr(scheduling, "_runs", FairSlots(1))
    monkeypatch.setattr(scheduling, "_heavy", FairSlots(1))
    monkeypatch.setattr(scheduling, "_session", lambda: (getattr(session, "name", "a"), lambda: None))


class Steps:
    """A computation that does its next step when it is told to."""

    def __init__(self) -> None:
        self.begun, self.steps = 0, threading.Semaphore(0)
        self.error: BaseException | None = None

    def __call__(self, on_result: OnResult) -> str:
        self.begun += 1
        try:
            on_result(0, "coarse")
            for step in range(1, 4):
                assert self.steps.acquire(timeout=600)
                on_result(step / 4, f"step {step}")
        except BaseException as error:
            self.error = error
            raise
        return "whole"

    def finish(self) -> None:
        self.steps.release(100)


@pytest.fixture
def steps() -> Iterator[Steps]:
    steps = Steps()
    yield steps
    steps.finish()


def test_a_job_has_a_first_result_and_then_the_whole(steps: Steps) -> None:
    job = Jobs().request(steps, "map", 1)
    assert job.first() == "coarse"
    assert (job.progress, job.seconds_left, job.is_over) == (0, None, False)
    steps.steps.release()
    until(lambda: job.latest == "step 1")
    assert job.progress == 0.25
    job.start -= 3_000
    assert round(job.seconds_left or 0, -2) == 9_000
    steps.finish()
    until(lambda: job.is_over)
    assert (job.first(), job.progress, job.error) == ("whole", 1, None)


def test_the_same_request_gets_the_same_job(steps: Steps) -> None:
    all_jobs = Jobs()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: all_jobs.request(steps, "map", 1), range(32)))
    [job] = found
    steps.finish()
    until(lambda: job.is_over)
    assert all_jobs.request(steps, "map", 1) is job
    assert steps.begun == 1
    assert all_jobs.request(lambda _: "other", "map", 2).first() == "other"


def ask(all_jobs: Jobs, name: str, *requests: tuple[Callable[[OnResult], str], str]) -> list[Job[str]]:
    """The page run of a session."""
    session.name = name
    with all_jobs.page_run():
        return [all_jobs.request(*each) for each in requests]


def test_a_job_for_which_nobody_asks_any_more_ends_and_can_be_had_again(steps: Steps) -> None:
    all_jobs = Jobs()
    [job] = ask(all_jobs, "a", (steps, "map"))
    assert ask(all_jobs, "b", (steps, "map")) == [job]
    ask(all_jobs, "a")
    steps.steps.release()
    until(lambda: job.latest == "step 1")
    assert steps.error is None  # b still looks
    ask(all_jobs, "b")
    steps.steps.release()
    until(lambda: job.is_over)
    assert isinstance(steps.error, jobs.Cancellation)
    assert job.first() == "step 1"
    [again] = ask(all_jobs, "b", (steps, "map"))
    steps.finish()
    until(lambda: again.is_over)
    assert again.first() == "whole"


def test_an_interrupted_page_run_lets_nothing_go(steps: Steps) -> None:
    all_jobs = Jobs()
    [job] = ask(all_jobs, "a", (steps, "map"))
    with pytest.raises(KeyboardInterrupt), all_jobs.page_run():
        raise KeyboardInterrupt
    steps.finish()
    until(lambda: job.is_over)
    assert job.first() == "whole"


def test_a_closed_session_is_gone_after_a_while(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Jobs().request(steps, "map")
    job.first()
    monkeypatch.setattr(jobs, "PATIENCE", 0)
    steps.steps.release()
    until(lambda: job.is_over)
    assert isinstance(steps.error, jobs.Cancellation)


def test_a_page_run_looks_at_what_it_has_asked_for_until_it_ends(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may wait for something else longer than a session without a page run is waited for."""
    monkeypatch.setattr(jobs, "PATIENCE", 0)
    all_jobs, session.name = Jobs(), "a"
    with all_jobs.page_run():
        job = all_jobs.request(steps, "map")
        steps.steps.release()
        until(lambda: job.latest == "step 1")
    steps.finish()
    until(lambda: job.is_over)
    assert isinstance(steps.error, jobs.Cancellation)


def test_a_job_behind_one_of_the_same_session_says_so_to_that_session(steps: Steps) -> None:
    all_jobs, session.name = Jobs(), "a"
    all_jobs.request(steps, "map", 1).first()
    second = all_jobs.request(lambda _: "other", "map", 2)
    until(lambda: second.place)
    assert (second.place_of("a"), second.place_of("b")) == (scheduling.BEHIND_OWN, 1)
    steps.finish()
    until(lambda: second.is_over)
    assert second.place_of("a") == 0


@pytest.mark.parametrize("stops_at_once", [True, False])
def test_a_session_that_has_gone_may_come_back_or_not(
    steps: Steps, monkeypatch: pytest.MonkeyPatch, stops_at_once: bool
) -> None:
    gone: set[str] = set()
    monkeypatch.setattr(jobs, "has_gone", gone.__contains__)
    all_jobs = Jobs()
    session.name = "b"
    job = all_jobs.request(steps, "text", stops_at_once=stops_at_once)
    session.name = "a"
    assert all_jobs.request(steps, "text") is job
    gone.add("b")
    steps.steps.release()
    until(lambda: job.latest == "step 1")
    gone.add("a")
    steps.finish()
    until(lambda: job.is_over)
    assert isinstance(steps.error, jobs.Cancellation) == stops_at_once


def test_another_text_of_a_session_does_not_wait_for_the_one_before(steps: Steps) -> None:
    all_jobs, line, session.name = Jobs(), FairSlots(1), "a"
    all_jobs.request(steps, "text", 1, line=line, stops_at_once=True).first()
    after = all_jobs.request(lambda _: "whole", "text", 2, line=line, stops_at_once=True)
    steps.steps.release()
    until(lambda: after.is_over)
    assert isinstance(steps.error, jobs.Cancellation)
    assert after.latest == "whole"


def test_a_result_at_which_nobody_looks_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    all_jobs, session.name = Jobs(), "a"
    with all_jobs.page_run():
        kept, dropped = (
            all_jobs.request(lambda _: "whole", "text", stops_at_once, stops_at_once=stops_at_once)
            for stops_at_once in (False, True)
        )
    until(lambda: kept.is_over and dropped.is_over)
    assert all_jobs.finished("text", True) == "whole"  # its page is open
    ask(all_jobs, "a")
    assert (all_jobs.finished("text", True), all_jobs.finished("text", False)) == (None, "whole")


def test_jobs_of_a_line_wait_for_each_other(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "_heavy", FairSlots(2))
    all_jobs, line = Jobs(), FairSlots(1)
    session.name = "a"
    first = all_jobs.request(steps, "text", 1, line=line)
    first.first()
    session.name = "b"
    second = all_jobs.request(lambda _: "other", "text", 2, line=line)
    until(lambda: second.place == 1)
    assert not second.is_over
    second.start -= 3_000
    steps.finish()
    until(lambda: second.is_over)
    assert (second.first(), second.place) == ("other", 0)
    assert second.seconds < 1_000  # without the time in the line


def test_a_job_lets_others_go_first_between_its_steps(steps: Steps) -> None:
    job = Jobs().request(steps, "map")
    assert job.first() == "coarse"
    with ThreadPoolExecutor(1) as pool:

        def heavy() -> str:
            session.name = "b"
            with page_run(), computation(SHORT_WORK):
                assert scheduling._heavy._free == 0
                return str(job.latest)

        other = pool.submit(heavy)
        until(lambda: scheduling._heavy.waiting)
        steps.steps.release()
        assert other.result(20) == "step 1"
    steps.finish()
    until(lambda: job.is_over)
    assert job.first() == "whole"
    assert scheduling._heavy._free == scheduling._runs._free == 1


def test_who_waits_for_the_first_result_leaves_the_slot_to_others(steps: Steps) -> None:
    begin = threading.Event()

    def slow(on_result: OnResult) -> str:
        assert begin.wait(20)
        return "whole"

    def visit() -> str:
        with page_run():
            return Jobs().request(slow, "map").first()

    with ThreadPoolExecutor(1) as pool:
        visitor = pool.submit(visit)
        until(lambda: scheduling._runs._free == 1)
        with page_run():
            begin.set()
        assert visitor.result(20) == "whole"


@pytest.mark.parametrize(
    ("problem", "kind", "sentence"),
    [
        (ValueError("No key is left."), ValueError, "No key is left."),
        (ClusterError("A task had not enough memory."), ValueError, "A task had not enough memory."),
        (ZeroDivisionError("x"), ZeroDivisionError, "x"),
    ],
)
def test_what_goes_wrong_is_raised_where_the_result_is_awaited(
    problem: Exception, kind: type[Exception], sentence: str
) -> None:
    def fail(on_result: OnResult) -> str:
        raise problem

    all_jobs = Jobs()
    with pytest.raises(kind, match=sentence) as raised:
        all_jobs.request(fail, "map").first()
    assert raised.type is kind
    assert all_jobs.request(fail, "map").error is raised.value  # and not computed again at once
    assert scheduling._heavy.is_unused


def test_jobs_are_bounded(monkeypatch: pytest.MonkeyPatch, steps: Steps) -> None:
    monkeypatch.setattr(jobs, "MOST_RUNNING", 2)
    monkeypatch.setattr(jobs, "MOST_FINISHED", 2)
    all_jobs = Jobs()
    found = [all_jobs.request(steps, i) for i in range(2)]
    with pytest.raises(ValueError, match="The server is computing 2 long maps, the most that it may"):
        all_jobs.request(steps, 2)
    steps.finish()
    until(lambda: all(job.is_over for job in found))
    for i in range(5):
        until(lambda i=i: all_jobs.request(lambda _: "done", "more", i).is_over)
    assert len(all_jobs._jobs) <= 3
