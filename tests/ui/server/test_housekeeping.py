"""Memory is freed while no page runs."""

import gc
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnviz import ui
from attnviz.base.text import EXAMPLE
from attnviz.base.turns import HEAVY_WORK
from attnviz.models.minilm import minilm
from attnviz.ui import cache
from attnviz.ui.server import housekeeping, scheduling, streamlit_internals
from tests.support.waiting import run_until


@pytest.mark.parametrize(("run", "collections"), [(nullcontext, True), (scheduling.page_run, False)])
def test_garbage_is_collected_while_no_page_runs(run, collections, monkeypatch):
    purged, collected = [], []
    serve(monkeypatch, lambda: purged.append(1), list)
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))

    with run():
        run_until(housekeeping.free_memory(lambda: None), lambda: len(purged) >= 3)
    assert len(purged) >= 3
    assert bool(collected) == collections


def serve(monkeypatch, expire, list_sessions) -> None:
    """Lets the memory of a server be freed that has these functions."""
    sessions = SimpleNamespace(
        _session_storage=SimpleNamespace(_cache=SimpleNamespace(expire=expire)), list_sessions=list_sessions
    )
    server = SimpleNamespace(_session_mgr=sessions, media_file_mgr=SimpleNamespace(remove_orphaned_files=lambda: None))
    monkeypatch.setattr(housekeeping, "EVERY", 0.001)
    monkeypatch.setattr(streamlit_internals.runtime, "get_instance", lambda: server)


def test_results_are_freed_once_the_last_session_has_ended(monkeypatch):
    counts = iter([2, 1, 0, 0, 0])
    freed, looked = [], []

    def sessions() -> list[int]:
        count = next(counts, 0)
        looked.append(count)
        return [0] * count

    serve(monkeypatch, lambda: None, sessions)
    monkeypatch.setattr(gc, "collect", lambda: None)
    monkeypatch.setattr(housekeeping, "free_results", lambda drop: freed.append(looked[-1]))
    monkeypatch.setattr(housekeeping, "return_memory", lambda: None)
    run_until(housekeeping.free_memory(lambda: None), lambda: len(looked) >= 6)
    assert looked[:5] == [2, 1, 0, 0, 0]
    assert freed == [0]


def test_what_was_computed_for_all_is_freed_but_the_example():
    model = minilm()
    model.layers("a text that nobody looks at any more")
    kept = cache.VisitorResults(2)
    kept.once(lambda: 1, "a result")
    housekeeping.free_results(cache.drop_results)
    assert model.has_captured(EXAMPLE)
    assert not model.has_captured("a text that nobody looks at any more")
    assert kept.once(lambda: 2, "a result") == 2


def test_a_heavy_computation_keeps_the_server_from_being_idle():
    with scheduling.computation(HEAVY_WORK + 1):
        assert not scheduling.is_idle()
    assert scheduling.is_idle()


def test_what_pages_import_is_imported_before_the_first_visitor(monkeypatch):
    """What is imported later would belong to the garbage collector, which would look at it every time."""
    frozen = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(set(sys.modules)))
    housekeeping.import_pages(ui)
    files = Path(ui.__file__).parent.rglob("*.py")
    modules = {file.stem for file in files} - {"__init__", "router"}
    assert modules <= {name.rpartition(".")[-1] for name in frozen[0]}


def test_memory_that_has_grown_is_returned_while_pages_run(monkeypatch):
    used, returned = [housekeeping.GROWTH], []

    def return_memory() -> None:
        returned.append(used[0])
        used[0] = housekeeping.GROWTH

    serve(monkeypatch, lambda: None, lambda: [0])
    monkeypatch.setattr(housekeeping, "resident_bytes", lambda: used[0])
    monkeypatch.setattr(housekeeping, "return_memory", return_memory)
    looks = []

    def look() -> bool:
        looks.append(len(returned))
        if len(looks) == 3:
            assert not returned
            used[0] = 3 * housekeeping.GROWTH
        return len(returned) > 0

    with scheduling.page_run():
        run_until(housekeeping.free_memory(lambda: None), look)
    assert returned == [3 * housekeeping.GROWTH]


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say it")
def test_the_memory_of_the_process_is_known():
    assert housekeeping.resident_bytes() > 50 << 20
