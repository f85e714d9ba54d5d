"""Waiting for changes in classes: one task of the process asks the store, for all listeners together."""

import asyncio
import logging
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from anyio import to_thread

from attnviz.classroom.store import StoreError, Versions

EVERY = 0.1  # seconds between two looks at the versions
SIGN_OF_LIFE = 15.0  # seconds after which a listener gets the same version again

_LOGGER = logging.getLogger(__name__)


class Watcher:
    """Looks at the versions of classes while somebody listens; `versions` returns those that have not ended."""

    def __init__(self, versions: Callable[[Collection[str]], Mapping[str, Versions]]) -> None:
        self._read = versions
        self._listeners = Counter[str]()
        self._codes: frozenset[str] = frozenset()  # of the last look
        self._versions: Mapping[str, Versions] = {}
        self._looked = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.is_stopping = False

    def stop(self) -> None:
        """Ends what the listeners hear, as an open stream would keep the server from stopping."""
        self.is_stopping = True

    def count(self, code: str) -> int:
        """Returns the number of those who listen to a class."""
        return self._listeners[code]

    async def listen(self, code: str) -> AsyncIterator[Versions]:
        """Yields the version of a class at once, after each change and as a sign of life, until the class has ended."""
        self._listeners[code] += 1
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look())
            known = await self._version(code, None)
            while known is not None and not self.is_stopping:
                yield known
                try:
                    known = await asyncio.wait_for(self._version(code, known), SIGN_OF_LIFE)
                except TimeoutError:
                    continue
        finally:
            self._listeners[code] -= 1
            if not self._listeners[code]:
                del self._listeners[code]

    async def _version(self, code: str, known: Versions | None) -> Versions | None:
        """Waits for a look at the store after which the version is another one than is `known`."""
        async with self._looked:
            while True:
                await self._looked.wait()
                if self.is_stopping:
                    return known
                if code in self._codes and ((version := self._versions.get(code)) != known or known is None):
                    return version

    async def _look(self) -> None:
        """Asks the store, until nobody listens any more."""
        while codes := frozenset(self._listeners):
            try:
                versions = await to_thread.run_sync(self._read, codes)
            except StoreError as problem:  # it may come back; until then there is nothing new
                _LOGGER.warning("The classes cannot be read: %s", problem)
            else:
                self._codes, self._versions = codes, versions
            async with self._looked:
                self._looked.notify_all()
            await asyncio.sleep(EVERY)


@contextmanager
def before_server_stops(stop: Callable[[], None]) -> Iterator[None]:
    """Calls `stop` when the process gets a signal to end, before the server waits for its connections."""
    if threading.current_thread() is not threading.main_thread():  # which alone handles signals
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        stop()
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in handlers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
