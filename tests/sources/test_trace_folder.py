"""Traces that the owner of the app has allowed, and nothing else."""

from pathlib import Path

import pytest
import torch

from attnviz import Inputs, Layer, Mechanism, Trace
from attnviz.layer import Kind, LayerId
from attnviz.sources import TraceFolder
from attnviz.sources.source import MissingInput


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one trace, and another one beside it."""
    inputs = Inputs(*torch.randn(3, 2, 4, 8), tuple("abcd"), tuple("abcd"))
    trace = Trace((Layer(LayerId("decoder", 0), Kind.SELF, inputs, Mechanism()),))
    for folder in ("traces/mine", "other"):
        trace.save(tmp_path / folder)
    monkeypatch.setenv("ATTNVIZ_TRACES", str(tmp_path / "traces"))
    return tmp_path / "traces"


def test_a_trace_is_opened_by_its_name(root: Path) -> None:
    assert [layer.name for layer in TraceFolder(" mine ").layers()] == ["decoder 0"]


@pytest.mark.parametrize("name", ["../other", "..", ".", "/etc", "mine/../../other", "mine/.", "x\0y", "out", "none"])
def test_nothing_outside_of_the_folder_is_opened(name: str, root: Path) -> None:
    (root / "out").symlink_to(root.parent / "other")
    with pytest.raises(ValueError, match=r"There is no trace .* here\. Here (is|are) “mine”"):
        TraceFolder(name).layers()


def test_without_a_name_it_says_which_there_are(root: Path) -> None:
    with pytest.raises(MissingInput, match=r"Name a trace to see its attention\. Here is “mine”\."):
        TraceFolder().layers()


def test_none_are_opened_unless_the_owner_says_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_TRACES", str(root / "nowhere"))
    with pytest.raises(MissingInput, match="does not exist"):
        TraceFolder("mine").layers()
    monkeypatch.delenv("ATTNVIZ_TRACES")
    with pytest.raises(MissingInput, match="Traces cannot be opened here"):
        TraceFolder("mine").layers()


def test_its_text_is_another_one_after_it_was_written_again(root: Path) -> None:
    before = repr(TraceFolder("mine"))
    manifest = root / "mine" / "trace.json"
    content = manifest.read_text()
    manifest.unlink()
    assert repr(TraceFolder("mine")) != before
    manifest.write_text(content)
    assert repr(TraceFolder("mine")) != before
