"""attnviz capture, as it is run: a trace is there, or a sentence."""

import random
from pathlib import Path

import pytest
import torch

from attnviz import Trace, command

WORDS = ("the", "animal", "did", "not", "cross", "street", "it", "was", "too", "tired")
pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(" ".join(random.Random(0).choices(WORDS, k=12)), encoding="utf-8")
    return file


def test_a_text_is_written_into_a_trace(
    saved: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "trace"
    command.main(["capture", str(saved / "llama"), "--text", str(text), "-o", str(folder)])
    trace = Trace.load(folder)
    assert trace.model == "llama"
    assert [layer.name for layer in trace] == ["layer 0", "layer 1"]
    assert trace[0].inputs.queries == len(trace[0].inputs.query_ids) > 10
    assert capsys.readouterr().out == f"2 layers of {trace[0].inputs.queries} tokens are in {folder}.\n"


def test_layers_and_the_type_are_chosen(saved: Path, text: Path, tmp_path: Path) -> None:
    options = ["--text", str(text), "-o", str(tmp_path / "trace"), "--layers", "1", "--dtype", "bfloat16"]
    command.main(["capture", str(saved / "llama"), *options])
    [layer] = Trace.load(tmp_path / "trace")
    assert layer.name == "layer 1"
    assert layer.inputs.query.dtype == torch.bfloat16


def test_a_text_is_read_in_chunks(saved: Path, text: Path, tmp_path: Path) -> None:
    for name, options in (("whole", []), ("chunks", ["--chunk", "4"])):
        command.main(["capture", str(saved / "llama"), "--text", str(text), "-o", str(tmp_path / name), *options])
    whole, chunks = (Trace.load(tmp_path / name) for name in ("whole", "chunks"))
    assert repr(whole) == repr(chunks)
    for one, other in zip(whole, chunks, strict=True):
        torch.testing.assert_close(other.inputs.key, one.inputs.key)
        assert other.inputs.key_tokens == one.inputs.key_tokens


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{model}", "--text", "nowhere.txt"], "No such file"),
        (["{model}", "--text", "{text}", "--device-map", "auto"], "--device-map needs accelerate"),
        (["nobody/nothing", "--text", "{text}"], "Download it first: hf download nobody/nothing"),
        (["/nowhere", "--text", "{text}"], "There is no folder"),
        (["{model}", "--text", "{long}"], "llama reads at most 128"),
        (["{model}", "--text", "{bytes}"], "is not text in UTF-8"),
        (["{model}", "--text", "{text}", "-o", "{full}"], "has files already"),
    ],
)
def test_what_cannot_be_captured_is_said(
    arguments: list[str], sentence: str, saved: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.command.capture.find_spec", lambda name: None)
    files = {"model": saved / "llama", "text": text, "full": tmp_path}
    for name, content in (("long", b"animal " * 2_000), ("bytes", b"\xff\xfe\x00")):
        files[name] = tmp_path / name
        files[name].write_bytes(content)
    given = [one.format(**files) for one in arguments]
    output = [] if "-o" in given else ["-o", str(tmp_path / "trace")]
    with pytest.raises(SystemExit) as ended:
        command.main(["capture", *given, *output])
    assert str(ended.value).startswith("attnviz capture: ")
    assert sentence in str(ended.value)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [("--layers=first", "such as 0,5,11; it is 'first'"), ("--chunk=0", "such as 4096; it is '0'")],
)
def test_options_are_numbers(option: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["capture", "model", "--text", "a", "-o", "b", option])
    assert sentence in capsys.readouterr().err
