"""Turns of visitors: how many page runs and heavy computations are under way at once, and which session is next.

A page run takes a slot; there is one, because Python lets one thread compute at a time: two runs at once took a sixth
more processor time (`make load`, 100 visitors). Before a heavy computation it gives its slot back and takes one of the
heavy slots, one fewer than there are cores, so that a run that computes little always finds a core; or that of short
ones, about a second, so that a sentence does not wait for somebody's page of text. A free slot goes to the session that
has waited longest since its last turn, so that nobody gets two turns while another gets none. A session has one slot
of a kind at most, and one place in the line for it, which its page shows.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import streamlit as st

from attnviz.base.interruption import interruptible
from attnviz.base.language import _
from attnviz.base.turns import SHORT_WORK, is_heavy
from attnviz.ui.server.streamlit_internals import run_context

POLL = 0.1  # seconds between two looks at whether a waiting run is still wanted
BEHIND_OWN = -1  # the place of who waits for an earlier computation of the same session
OnPlace = Callable[[int], None]  # gets a place in the line, from 1, or BEHIND_OWN


class _Request:
    def __init__(self, session: str) -> None:
        self.session, self.granted = session, threading.Event()


class FairSlots:
    """A number of slots, given to sessions in turn, one each; only what has no session may have several."""

    def __init__(self, slots: int) -> None:
        self.slots = self._free = slots
        self._waiting: list[_Request] = []
        self._holding = set[str]()  # the sessions that have a slot
        self._turns, self._last_turn = count(), dict[str, int]()
        self._lock = threading.Lock()

    @property
    def is_unused(self) -> bool:
        """Whether nobody has a slot."""
        return self._free == self.slots

    @property
    def waiting(self) -> int:
        """The number of requests that have no slot yet."""
        return len(self._waiting)

    def acquire(
        self, session: str, interrupt: Callable[[], None] = lambda: None, on_place: OnPlace = lambda place: None
    ) -> None:
        """Waits for a slot. Calls `interrupt` meanwhile, whose exception ends the waiting, and `on_place` with the
        place in the line."""
        request = _Request(session)
        with self._lock:
            self._waiting.append(request)
            self._grant()
        try:
            while not request.granted.wait(POLL):
                interrupt()
                on_place(self.place(session))
        except BaseException:
            with self._lock:
                if request in self._waiting:
                    self._waiting.remove(request)
                else:  # it was granted while its run was interrupted
                    self._give_back(session)
            raise

    def release(self, session: str) -> None:
        """Gives a slot of a session back."""
        with self._lock:
            self._give_back(session)

    @contextmanager
    def slot(self, session: str, interrupt: Callable[[], None], on_place: OnPlace) -> Iterator[None]:
        """Has a slot; the arguments are those of `acquire`."""
        self.acquire(session, interrupt, on_place)
        try:
            yield
        finally:
            self.release(session)

    def place(self, session: str) -> int:
        """Returns the place of a session in the line, from 1: of each session that waits there is one. A session that
        has a slot is BEHIND_OWN."""
        with self._lock:
            if session in self._holding:
                return BEHIND_OWN
            line = list(dict.fromkeys(request.session for request in sorted(self._waiting, key=self._turn)))
        return line.index(session) + 1 if session in line else 1

    def _turn(self, request: _Request) -> int:
        return self._last_turn.get(request.session, -1)

    def _give_back(self, session: str) -> None:
        self._free += 1
        self._holding.discard(session)
        self._grant()
        if self.is_unused:
            self._last_turn.clear()

    def _grant(self) -> None:
        while self._free and (eligible := [one for one in self._waiting if one.session not in self._holding]):
            request = min(eligible, key=self._turn)
            self._waiting.remove(request)
            self._free -= 1
            if request.session:
                self._holding.add(request.session)
            self._last_turn[request.session] = next(self._turns)
            request.granted.set()


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_runs, _short, _heavy = FairSlots(1), FairSlots(1), FairSlots(max(1, CORES - 1))
_run = threading.local()  # has_slot: whether this thread has one of the slots of runs


def is_idle() -> bool:
    """Returns whether no page run and no heavy computation is under way."""
    return _runs.is_unused and _short.is_unused and _heavy.is_unused


def waiting_page_runs() -> int:
    """Returns the number of page runs that wait for a slot."""
    return _runs.waiting


def waiting_computations() -> int:
    """Returns the number of heavy computations that wait for a slot."""
    return _short.waiting + _heavy.waiting


@contextmanager
def page_run() -> Iterator[None]:
    """Waits for the turn of this session, and has a slot for a page run."""
    _runs.acquire(*_session())
    _run.has_slot = True
    try:
        yield
    finally:
        if _run.has_slot:
            _runs.release(session())
        _run.has_slot = False


@contextmanager
def computation(work: int) -> Iterator[None]:
    """Waits for a heavy slot, without that of the page run, if `work` steps are a heavy computation. The page shows its
    place in the line; a computation that a newer run replaces ends between two of its parts."""
    if not is_heavy(work) or getattr(_run, "is_heavy", False):
        yield
        return
    name, interrupt = _session()
    with without_slot(), place_in_line() as on_place, heavy_slot(name, interrupt, on_place, work):
        yield


@contextmanager
def place_in_line() -> Iterator[OnPlace]:
    """Gives a function that shows a place in the line on the page, until it is 0 or the block ends."""
    shown, sentence = None, ""

    def show(place: int) -> None:
        nonlocal shown, sentence
        if sentence == (sentence := line_sentence(place) if place else ""):
            return
        shown = shown or st.empty()
        if sentence:
            shown.caption(sentence)
        else:
            shown.empty()

    try:
        yield show
    finally:
        show(0)


def line_sentence(place: int) -> str:
    """Returns the sentence about a place in the line."""
    if place == BEHIND_OWN:
        return _("Your earlier computation is still running. This one waits for it.")
    return _("The server is computing for others. Your place in the line: {place}.", place=place)


@contextmanager
def without_slot() -> Iterator[None]:
    """Gives back the slot of the page run, which waits for something."""
    had_slot = getattr(_run, "has_slot", False)
    if had_slot:
        _run.has_slot = False
        _runs.release(session())
    try:
        yield
    finally:
        if had_slot:
            _runs.acquire(*_session())
            _run.has_slot = True


@contextmanager
def heavy_slot(
    session: str,
    interrupt: Callable[[], None],
    on_place: OnPlace = lambda place: None,
    work: int = SHORT_WORK,
) -> Iterator[Callable[[], None]]:
    """Takes a heavy slot when it is the session's turn, for less than SHORT_WORK that of short computations; yields a
    function that lets others that wait go first.

    `interrupt` is called while it waits, and between the parts of the computation; its exception ends that. `on_place`
    is called with the place in the line while it waits, and with 0 when it has the slot.
    """
    slots, has_slot = _short if work < SHORT_WORK else _heavy, False

    def take() -> None:
        nonlocal has_slot
        slots.acquire(session, interrupt, on_place)
        has_slot = _run.is_heavy = True
        on_place(0)

    def give_way() -> None:
        nonlocal has_slot
        if slots.waiting:
            has_slot = _run.is_heavy = False
            slots.release(session)
            take()

    try:
        take()
        with interruptible(interrupt):
            yield give_way
    finally:
        _run.is_heavy = False
        if has_slot:
            slots.release(session)


def session() -> str:
    """Returns the id of the session whose page runs here; no text if none does."""
    return _session()[0]


def check_interruption() -> None:
    """Raises the exception that ends a page run which a newer one replaces."""
    _session()[1]()


def _session() -> tuple[str, Callable[[], None]]:
    """Returns the id of this session, and what raises an exception if its run is no longer wanted."""
    context = run_context()
    return (context.session_id, context.yield_check) if context else ("", lambda: None)
