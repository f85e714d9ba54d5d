"""Who listens for news of classes: one look for all, and nobody is told what is not so."""

import asyncio
from collections.abc import Collection, Mapping

from attnviz.classroom.store import StoreError, Versions
from attnviz.ui.classroom.watcher import Watcher
from tests.support.waiting import run_in_thread


class Store:
    """The versions of classes, and how often somebody has looked at them."""

    def __init__(self, **versions: int) -> None:
        self.versions = versions
        self.looks: list[set[str]] = []
        self.is_broken = False

    def read(self, codes: Collection[str]) -> Mapping[str, Versions]:
        self.looks.append({*codes})
        if self.is_broken:
            raise StoreError("The store is away.")
        return {code: Versions(self.versions[code], 0) for code in codes if code in self.versions}


async def heard(watcher: Watcher, code: str, count: int) -> list[int]:
    """Returns the first versions that a listener hears."""
    news = watcher.listen(code)
    versions = []
    async for version in news:
        versions.append(version.shared)
        if len(versions) == count:
            break
    await news.aclose()  # type: ignore[attr-defined]
    return versions


def test_all_listeners_share_one_look_and_nobody_looks_after_the_last() -> None:
    async def run() -> None:
        store = Store(A=1, B=5)
        watcher = Watcher(store.read)
        listeners = [asyncio.create_task(heard(watcher, code, 2)) for code in "ABAB"]
        while not store.looks:
            await asyncio.sleep(0)
        before = len(store.looks)
        await asyncio.sleep(0.25)
        assert len(store.looks) - before <= 3
        store.versions.update(A=2, B=6)
        assert await asyncio.gather(*listeners) == [[1, 2], [5, 6], [1, 2], [5, 6]]
        await watcher._task  # ends by itself
        assert all(look <= {"A", "B"} for look in store.looks)

    run_in_thread(asyncio.wait_for(run(), 20))


def test_a_listener_who_comes_during_a_look_hears_of_its_own_class() -> None:
    async def run() -> None:
        store = Store(A=1, B=1)
        watcher = Watcher(store.read)
        others = [asyncio.create_task(heard(watcher, "A", 100)) for _ in range(2)]
        for _ in range(20):
            assert await heard(watcher, "B", 1) == [1]
        for other in others:
            other.cancel()

    run_in_thread(asyncio.wait_for(run(), 20))


def test_a_class_that_ends_ends_what_is_heard_and_a_broken_store_does_not() -> None:
    async def run() -> None:
        store = Store(A=1)
        watcher = Watcher(store.read)
        listener = asyncio.create_task(heard(watcher, "A", 9))
        await asyncio.sleep(0.25)
        store.is_broken = True
        await asyncio.sleep(0.25)
        assert not listener.done()
        store.is_broken, store.versions = False, {}
        assert await listener == [1]

    run_in_thread(asyncio.wait_for(run(), 20))


def test_listeners_end_when_the_server_stops() -> None:
    async def run() -> None:
        watcher = Watcher(Store(A=1).read)
        listener = asyncio.create_task(heard(watcher, "A", 9))
        await asyncio.sleep(0.25)
        watcher.stop()
        assert await listener == [1]

    run_in_thread(asyncio.wait_for(run(), 20))
