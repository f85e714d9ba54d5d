"""Memory is freed while no page runs."""

import asyncio
import gc
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnviz.analysis.work import HEAVY_WORK
from attnviz.ui import housekeeping, scheduling


@pytest.mark.parametrize(("run", "collections"), [(nullcontext, True), (scheduling.page_run, False)])
def test_garbage_is_collected_while_no_page_runs(run, collections, monkeypatch):
    purged, collected = [], []
    storage = SimpleNamespace(_cache=SimpleNamespace(expire=lambda: purged.append(1)))
    server = SimpleNamespace(_session_mgr=SimpleNamespace(_session_storage=storage))
    monkeypatch.setattr(housekeeping, "EVERY", 0.001)
    monkeypatch.setattr(housekeeping.runtime, "get_instance", lambda: server)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))

    async def until_purged() -> None:
        freeing = asyncio.create_task(housekeeping.free_memory())
        while len(purged) < 3 and not freeing.done():
            await asyncio.sleep(0.001)
        freeing.cancel()
        await asyncio.gather(freeing, return_exceptions=True)

    with run():
        asyncio.run(until_purged())
    assert len(purged) >= 3
    assert bool(collected) == collections


def test_a_heavy_computation_keeps_the_server_from_being_idle():
    with scheduling.computation(HEAVY_WORK + 1):
        assert not scheduling.is_idle()
    assert scheduling.is_idle()


def test_what_pages_import_is_imported_before_the_first_visitor(monkeypatch):
    """What is imported later would belong to the garbage collector, which would look at it every time."""
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(set(sys.modules)))
    housekeeping.import_pages()
    files = Path(housekeeping.__file__).parent.rglob("*.py")
    modules = {file.stem for file in files} - {"__init__", "router"}
    assert modules <= {name.rpartition(".")[-1] for name in frozen[0]}
