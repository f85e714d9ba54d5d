"""Waits for what another thread, process or task does."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], object], seconds: float = 600, pause: float = 0.001) -> None:
    """Waits until a condition holds, and fails if it does not in time, which a busy machine may need. It looks again
    after a pause in seconds, longer where a look takes time that what is waited for needs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{seconds} seconds have passed."
        time.sleep(pause)


def run_in_thread(coroutine: Coroutine[object, object, T]) -> T:
    """Runs a coroutine in a thread of its own: the browser of tests before it has an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def run_until(endless: Coroutine[object, object, object], condition: Callable[[], object]) -> None:
    """Runs what does not end by itself until a condition holds."""

    async def run() -> None:
        task = asyncio.create_task(endless)
        async with asyncio.timeout(600):
            while not condition() and not task.done():
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_in_thread(run())
