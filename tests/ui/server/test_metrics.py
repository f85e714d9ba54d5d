"""The numbers for Prometheus."""

from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from attnviz.ui.server import metrics
from attnviz.ui.server.page_runs import observation
from tests.support.ports import free_port


def samples(port: int) -> dict[tuple[str, frozenset[str]], float]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=180) as response:
        families = text_string_to_metric_families(response.read().decode())
    return {
        (sample.name, frozenset(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_runs_errors_and_memory_are_counted_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("ATTNVIZ_METRICS_PORT", str(port))
    with metrics.serving():
        before = samples(port)
        with observation("masks"):
            pass
        with pytest.raises(KeyError), observation("masks"):
            raise KeyError("what somebody typed")
        after = samples(port)
    changed = {key: value - before.get(key, 0) for key, value in after.items()}
    assert changed["attnviz_page_runs_total", frozenset({"masks", "done"})] == 1
    assert changed["attnviz_page_runs_total", frozenset({"masks", "failed"})] == 1
    assert changed["attnviz_page_errors_total", frozenset({"masks"})] == 1
    assert changed["attnviz_page_run_seconds_count", frozenset({"masks"})] == 2
    assert after["process_resident_memory_bytes", frozenset()] > 1e6
    for waiting in ("attnviz_sessions", "attnviz_waiting_page_runs", "attnviz_waiting_computations"):
        assert after[waiting, frozenset()] == 0
    with pytest.raises(URLError):  # the port is free again
        samples(port)


def test_there_are_no_metrics_without_a_port() -> None:
    with metrics.serving():
        pass


def test_a_port_that_is_taken_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_METRICS_PORT", str(free_port()))
    with metrics.serving(), pytest.raises(OSError, match="in use"), metrics.serving():
        pass
