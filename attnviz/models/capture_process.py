"""A process that reads texts while this one draws pages for many people.

Python lets one thread of a process compute at a time, and torch waits for its turn after each of the thousands of
operations of a pass: beside thirty visitors, SmolLM2 took four times as long for a text as alone.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any

from attnviz.base.app_files import PACKAGE_PARENT
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import current_language

if TYPE_CHECKING:
    from attnviz.models.model import ModelInputs
    from attnviz.trace import Trace

POLL = 0.1  # seconds between two looks at whether a text is still wanted
REST = 60.0  # seconds for which a process that has failed is not started again


class CaptureProcess:
    """A process that reads texts with the models that come with attnviz. It is started when the first is read, and ends
    with this one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None  # the latest
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._models = set[str]()  # that it has, or is loading
        self._replies_due = 0
        self._rests_until = 0.0

    def close(self) -> None:
        """Ends the process, which the next text starts again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def read(self, name: str, *example: Any) -> "tuple[ModelInputs, Trace] | None":
        """Returns the inputs and the layers of an example for a model; None, at once, while the process is loading a
        model or reads another example, and where it cannot read this one."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._request(name, example)
        except (OSError, EOFError):  # the process has ended, as one that the system has no memory for
            self._connection, self._rests_until = None, time.monotonic() + REST
            return None
        finally:
            self._lock.release()

    def _request(self, name: str, example: tuple[Any, ...]) -> "tuple[ModelInputs, Trace] | None":
        if self._connection is None and time.monotonic() < self._rests_until:
            return None
        connection = self._connection or self._start()
        while self._replies_due and connection.poll():
            connection.recv_bytes()  # of a text while its model was loaded, or that somebody wanted no more
            self._replies_due -= 1
        if self._replies_due:
            return None
        connection.send_bytes(pickle.dumps((current_language(), name, *example)))
        self._replies_due = 1
        if name not in self._models:
            self._models.add(name)
            return None
        while not connection.poll(POLL):
            end_if_unwanted()
        reply: tuple[ModelInputs, Trace] | None = pickle.loads(connection.recv_bytes())  # noqa: S301 - our own process
        self._replies_due = 0
        return reply

    def _start(self) -> Connection:
        self._connection, theirs = Pipe()
        self._models.clear()
        self._replies_due = 0
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "attnviz.models.capture_program", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                cwd=PACKAGE_PARENT,
                pass_fds=[theirs.fileno()],
            )
        return self._connection


_process = CaptureProcess()
_is_crowded: list[Callable[[], bool]] = [lambda: False]


def set_crowded(is_crowded: Callable[[], bool]) -> None:
    """Sets the function that says whether many people use this process now; by default they do not."""
    _is_crowded[:] = [is_crowded]


def capture_process() -> CaptureProcess | None:
    """Returns the process that reads texts; None if few people are here, or the system cannot start one like it."""
    return _process if os.name == "posix" and _is_crowded[-1]() else None


def end_process() -> None:
    """Ends the process, and frees its memory."""
    _process.close()
