"""Tests of the process that reads texts beside the one that draws pages."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from attnviz.base.interruption import interruptible
from attnviz.models import MINILM, capture_process
from attnviz.models.capture_process import CaptureProcess
from attnviz.models.minilm import minilm
from attnviz.sources import Model
from attnviz.trace import Trace
from tests.support.waiting import until

TEXT, OTHER = "The cat sat on the mat.", "It slept."


@pytest.fixture(scope="module")
def ready() -> Iterator[CaptureProcess]:
    """A process that has loaded MiniLM."""
    process = CaptureProcess()
    until(lambda: process.read(MINILM, OTHER, None, None), pause=0.05)
    yield process
    process.close()


def read(process: CaptureProcess, text: str) -> Trace:
    """Returns the layers that a process reads."""
    inputs_and_layers = process.read(MINILM, text, None, None)
    assert inputs_and_layers is not None
    return inputs_and_layers[1]


def test_the_layers_are_those_of_a_pass_in_this_process(ready: CaptureProcess) -> None:
    minilm().forget_examples()
    for other, own in zip(read(ready, TEXT), minilm().layers(TEXT), strict=True):
        assert (other.id, other.kind, other.mechanism, other.fidelity) == (
            own.id,
            own.kind,
            own.mechanism,
            own.fidelity,
        )
        assert other.inputs.query_tokens == own.inputs.query_tokens
        for name in ("query", "key", "value"):
            assert torch.equal(getattr(other.inputs, name), getattr(own.inputs, name)), name


def test_nobody_waits_while_it_reads_another_text(ready: CaptureProcess) -> None:
    long = TEXT * 60
    with ThreadPoolExecutor() as threads:
        longer = threads.submit(read, ready, long)
        until(lambda: ready._replies_due)
        assert ready.read(MINILM, OTHER, None, None) is None or longer.done()
        assert longer.result()[0].inputs.queries > 100


def test_what_a_model_refuses_is_left_to_this_process(ready: CaptureProcess) -> None:
    assert ready.read(MINILM, "", None, None) is None
    assert read(ready, OTHER)


def test_a_text_that_nobody_wants_any_more_is_not_taken_for_the_next_one(ready: CaptureProcess) -> None:
    class Unwanted(Exception):
        pass

    def end() -> None:
        raise Unwanted

    def read_again_and_again() -> None:
        while True:  # one may be read before anybody asks whether it is wanted
            ready.read(MINILM, TEXT * 60, None, None)

    with interruptible(end), pytest.raises(Unwanted):
        read_again_and_again()
    until(lambda: ready.read(MINILM, OTHER, None, None), pause=0.01)
    assert read(ready, OTHER)[0].inputs.query_tokens == minilm().layers(OTHER)[0].inputs.query_tokens


def test_one_that_has_failed_is_started_again_after_a_while(
    ready: CaptureProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = ready.process
    assert failed
    os.kill(failed.pid, signal.SIGKILL)
    failed.wait()
    for _ in range(2):
        assert ready.read(MINILM, TEXT, None, None) is None
    assert ready.process is failed
    monkeypatch.setattr(ready, "_rests_until", 0.0)
    until(lambda: ready.read(MINILM, TEXT, None, None), pause=0.05)


def test_nobody_waits_while_it_starts_and_it_ends_with_its_owner() -> None:
    process = CaptureProcess()
    assert process.read(MINILM, TEXT, None, None) is None  # it imports torch and loads the model first
    assert process.process
    process.close()  # as end_process does when the last visitor has left
    assert process.process.wait(60) == 0


def test_a_source_reads_heavy_texts_there_where_that_is_crowded(
    ready: CaptureProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_process, "_process", ready)
    asked = list[str]()
    monkeypatch.setattr(ready, "read", lambda _name, text, *more: asked.append(text))
    minilm().forget_examples()
    Model(TEXT).layers()
    assert not asked  # nobody else is here
    capture_process.set_crowded(lambda: True)
    try:
        assert Model(OTHER).layers()
    finally:
        capture_process.set_crowded(lambda: False)
    assert asked == [OTHER]
