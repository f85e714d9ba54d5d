"""attnviz capture, as it is run: a trace is there, or a sentence."""

import random
from pathlib import Path

import pytest
import torch

from attnviz import Trace, command
from attnviz.command.text_capture import CaptureOptions, TextTask, capture_text
from tests.support.gguf_files import config_of, write

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


def test_a_gguf_file_is_a_model(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "small.gguf", "llama", config_of("llama"))
    command.main(["capture", "./small.gguf", "--text", str(text), "-o", str(tmp_path / "trace")])
    trace = Trace.load(tmp_path / "trace")
    assert (trace.model, len(trace)) == ("small", 2)


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


def test_several_texts_are_written_beside_each_other(
    saved: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / "long.txt"
    long.write_text("animal " * 2_000)
    other = tmp_path / "other.txt"
    other.write_text("it was too tired")
    files = [f"--text={file}" for file in (text, long, other)]
    with pytest.raises(SystemExit, match=r"out/long: .*llama reads at most 128"):  # the others are written
        command.main(["capture", str(saved / "llama"), *files, "-o", str(tmp_path / "out")])
    traces = {file.stem: Trace.load(tmp_path / "out" / file.stem) for file in (text, other)}
    assert [len(trace) for trace in traces.values()] == [2, 2]
    assert traces["text"][0].inputs.queries > traces["other"][0].inputs.queries
    assert not (tmp_path / "out" / "long").exists()
    assert capsys.readouterr().out.count("2 layers of ") == 2


def test_a_task_that_was_killed_is_done_again(saved: Path, tmp_path: Path) -> None:
    options, task = CaptureOptions(str(saved / "llama")), TextTask("it was too tired", str(tmp_path / "trace"))
    first = capture_text(options, task)
    (tmp_path / "trace" / "layer-0001.safetensors").unlink()
    assert capture_text(options, task) == first
    assert len(Trace.load(tmp_path / "trace")) == 2


def test_texts_of_one_name_are_refused(saved: Path, text: Path, tmp_path: Path) -> None:
    again = tmp_path / "folder" / text.name
    again.parent.mkdir()
    again.write_text("the animal")
    with pytest.raises(SystemExit, match="Two texts are called “text”"):
        command.main(
            ["capture", str(saved / "llama"), f"--text={text}", f"--text={again}", "-o", str(tmp_path / "out")]
        )
    assert not (tmp_path / "out").exists()


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
    monkeypatch.setattr("attnviz.command.text_capture.find_spec", lambda name: None)
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
