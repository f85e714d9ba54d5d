"""Long computations in the background: shared by all who ask for the same, cancelled when nobody looks any more.

A page run asks for a job by its key and draws its latest result and its progress. As long as it runs, its session looks
at the job. A session that has changed something, or has closed, no longer looks.
"""

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from attnviz.analysis.ray_engine import ClusterError
from attnviz.base.language import value_error
from attnviz.page.result_cache import run_results
from attnviz.ui.server import scheduling
from attnviz.ui.server.streamlit_internals import has_gone

T = TypeVar("T")
OnResult = Callable[[float, Any], None]  # gets the share that is done, and a result so far; its exception ends the job
MOST_RUNNING = 32  # jobs that run or wait
MOST_FINISHED = 16  # jobs whose results are kept
PATIENCE = 10.0  # seconds without a look after which a session is taken to be gone


class Cancellation(Exception):
    """Raised inside a job that nobody looks at any more."""


class Job(Generic[T]):
    """A computation in a thread of its own, without a session, which the jobs start.

    Where it has a `line`, it waits for a slot there first. With `stops_at_once` a session whose browser has gone no
    longer looks, and a result at which nobody looks is not kept; otherwise a session may come back within PATIENCE.
    """

    def __init__(
        self,
        compute: Callable[[OnResult], T],
        session: str,
        line: scheduling.FairSlots | None = None,
        *,
        stops_at_once: bool = False,
    ) -> None:
        self.progress = 0.0  # the share that is done
        self.place = 0  # in the line, from 1, or BEHIND_OWN; 0 when it computes
        self.latest: T | None = None  # a result so far, and at last the whole
        self.error: Exception | None = None
        self.is_over = self.is_cancelled = False
        self.start, self.end = time.monotonic(), 0.0  # it starts when it is asked for, and again when it has its slot
        # In the language of who asks first.
        self.thread = threading.Thread(target=copy_context().run, args=(self.run,), daemon=True)
        self._compute, self._session, self._line, self.stops_at_once = compute, session, line, stops_at_once
        self._looks = {session: self.start}  # when each session last looked
        self.page_runs = set[str]()  # the sessions whose page run is under way and has asked for it
        self._lock = threading.Lock()
        self._has_first = threading.Event()  # there is a result, or there will be none

    @property
    def seconds(self) -> float:
        """How long it has computed."""
        return time.monotonic() - self.start

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the share that is done; None at first."""
        return None if self.progress < 0.01 else self.seconds * (1 - self.progress) / self.progress

    def first(self) -> T:
        """Returns the latest result, after waiting for the first. Raises what was wrong if there is none."""
        session = scheduling.session()
        with scheduling.without_slot(), scheduling.place_in_line() as show_place:
            while not self._has_first.wait(scheduling.POLL):
                self.look(session)
                scheduling.check_interruption()
                if place := self.place_of(session):
                    show_place(place)
        if self.latest is None:
            assert self.error is not None
            raise self.error
        return self.latest

    def place_of(self, session: str) -> int:
        """Returns the place in the line as a session is told it: what is ahead may be of the one that asked first."""
        return self.place if session == self._session else abs(self.place)

    def look(self, session: str) -> bool:
        """Reports that a session looks at the job; returns whether that is in time."""
        with self._lock:
            self._looks[session] = time.monotonic()
            return not self.is_cancelled

    def leave(self, session: str) -> None:
        """Reports that a session no longer looks at the job."""
        with self._lock:
            self._looks.pop(session, None)

    def run(self) -> None:
        """Computes the result, in the turns of the session that was the first to ask."""
        try:
            with (
                self._line.slot(self._session, self._check, self._wait_at) if self._line else nullcontext(),
                scheduling.heavy_slot(self._session, self._check, self._wait_at) as give_way,
                run_results(),
            ):
                self.start = time.monotonic()  # without the time in the line

                def on_result(share: float, result: T) -> None:
                    self._check()
                    self.progress, self.latest = share, result
                    self._has_first.set()
                    give_way()

                self.latest, self.progress = self._compute(on_result), 1.0
        except Cancellation:
            self.error = value_error("Nobody looked at this figure, and its computation stopped. Choose it again.")
        except ClusterError as problem:
            self.error = ValueError(str(problem))
        except Exception as problem:  # noqa: BLE001 - raised in the page run that waits for it
            self.error = problem
        finally:
            self.end, self.is_over = time.monotonic(), True
            self._has_first.set()

    def _wait_at(self, place: int) -> None:
        self.place = place

    @property
    def is_abandoned(self) -> bool:
        """Whether it need not be kept: nobody looks at a job that stops at once."""
        with self._lock:
            return self.stops_at_once and not self._is_watched()

    def _is_watched(self) -> bool:
        oldest = time.monotonic() - PATIENCE
        return any(
            (look > oldest or session in self.page_runs) and not (self.stops_at_once and has_gone(session))
            for session, look in self._looks.items()
        )

    def _check(self) -> None:
        with self._lock:
            self.is_cancelled = not self._is_watched()
        if self.is_cancelled:
            raise Cancellation


class Jobs:
    """The jobs of all sessions."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, Job[Any]] = OrderedDict()
        self._requests: dict[str, set[str]] = {}  # of each page run that is under way, by its session
        self._shown: dict[str, set[Job[Any]]] = defaultdict(set)  # whose progress it has drawn
        self._lock = threading.Lock()

    def request(self, compute: Callable[[OnResult], T], *key: object, **options: Any) -> Job[T]:
        """Returns the job with these keys; starts it, with the options of `Job`, if there is none.

        Raises ValueError if too many run.
        """
        name, session = repr(key), scheduling.session()
        with self._lock:
            job = self._jobs.get(name)
            if job is None or not job.look(session) or (job.error and job.end < time.monotonic() - PATIENCE):
                self._drop_finished()
                self._leave_others(session, **options)
                job = self._jobs[name] = Job(compute, session, **options)
            if session in self._requests:
                self._requests[session].add(name)
                job.page_runs.add(session)
            if not job.thread.ident:
                job.thread.start()
            self._jobs.move_to_end(name)
            return job

    def _leave_others(self, session: str, stops_at_once: bool = False, **_options: Any) -> None:
        """Leaves the jobs of a session that stop at once: the next one of them would wait for their slots."""
        for job in self._jobs.values():
            if stops_at_once and job.stops_at_once:
                job.leave(session)

    def finished(self, *key: object) -> Any:
        """Returns the result of the job with these keys; None if there is none yet."""
        with self._lock:
            job = self._jobs.get(repr(key))
        return job.latest if job and job.is_over and not job.error else None

    @contextmanager
    def page_run(self) -> Iterator[None]:
        """Leaves the jobs that a page run has not asked for; one that is interrupted is followed by another."""
        session = scheduling.session()
        requests: set[str] = set()
        self._requests[session] = requests
        self._shown.pop(session, None)
        try:
            yield
            with self._lock:
                for name, job in self._jobs.items():
                    if name not in requests:
                        job.leave(session)
                self._drop(name for name, job in self._jobs.items() if job.is_over and job.is_abandoned)
                self._shown.pop(session, None)
        finally:
            with self._lock:
                self._requests.pop(session, None)
                for name in requests & self._jobs.keys():
                    self._jobs[name].look(session)
                    self._jobs[name].page_runs.discard(session)

    def mark_shown(self, job: Job[Any]) -> bool:
        """Records that this page run shows the progress of a job; returns whether it did so before."""
        shown = self._shown[scheduling.session()]
        is_shown = job in shown
        shown.add(job)
        return is_shown

    def shows_progress(self) -> bool:
        """Returns whether this page run shows the progress of a job that goes on."""
        return any(not job.is_over for job in self._shown.get(scheduling.session(), ()))

    def drop_finished_jobs(self) -> None:
        """Drops the results of all jobs that are over."""
        with self._lock:
            self._drop(name for name, job in self._jobs.items() if job.is_over)

    def _drop_finished(self) -> None:
        finished = [name for name, job in self._jobs.items() if job.is_over]
        if len(self._jobs) - len(finished) >= MOST_RUNNING:
            raise value_error(
                "The server is computing {most_running} long maps, the most that it may. Try again later.",
                most_running=MOST_RUNNING,
            )
        self._drop(finished[: max(0, len(finished) - MOST_FINISHED + 1)])

    def _drop(self, names: Iterable[str]) -> None:
        for name in [*names]:
            del self._jobs[name]


_shared = Jobs()
request, finished, page_run, mark_shown = _shared.request, _shared.finished, _shared.page_run, _shared.mark_shown
shows_progress, drop_finished_jobs = _shared.shows_progress, _shared.drop_finished_jobs
