"""Folders that lie: each is refused in a sentence, or opened as far as it can be."""

import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from attnviz import Inputs, Layer, Mechanism, Trace, masks
from attnviz.layer import Kind, LayerId
from attnviz.trace import TraceWriter, reader

FILE = "layer-0000.safetensors"
Change = Callable[[dict[str, Any], dict[str, Any]], object]  # of the manifest and of its layer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inputs = Inputs(*torch.randn(3, 2, 4, 8), tuple("abcd"), tuple("abcd"))
    Trace((Layer(LayerId("decoder", 0), Kind.CAUSAL, inputs, Mechanism(mask=masks.Causal())),)).save(tmp_path / "trace")
    return tmp_path / "trace"


def deep(text: str) -> str:
    return text * 200_000


def grid(rows: int, columns: int, positions: list[int]) -> dict[str, object]:
    return {"rows": rows, "columns": columns, "positions": positions}


CHANGES: dict[str, tuple[Change, str]] = {
    "another format": (lambda m, _: m.update(format="other"), "not that of a trace"),
    "a later version": (lambda m, _: m.update(version=2), "written by a later version of attnviz: its format is “2”"),
    "no version": (lambda m, _: m.update(version=True), "not that of a trace"),
    "a shape that lies": (lambda _, x: x["tensors"]["query"].update(shape=[2, 9, 8]), "holds “query” as F32 of 2 × 4"),
    "a type that lies": (lambda _, x: x["tensors"]["key"].update(type="F64"), "holds “key” as F32"),
    "an absurd shape": (lambda _, x: x["tensors"]["key"].update(shape=[10**30]), "holds “key” as F32"),
    "a tensor that is not there": (lambda _, x: x["tensors"].update(other={}), "does not hold all tensors"),
    "tensors that are none": (lambda _, x: x.update(tensors=[1]), "trace.json says otherwise"),
    "a path out of the folder": (lambda _, x: x.update(file="../x.safetensors"), "not a layer's file in this folder"),
    "a path from the root": (lambda _, x: x.update(file="/etc/passwd"), "not a layer's file in this folder"),
    "a file that is missing": (lambda _, x: x.update(file="layer-0009.safetensors"), "layer-0009.safetensors is missi"),
    "no file": (lambda _, x: x.pop("file"), "not a layer's file"),
    "too few tokens": (lambda m, _: m["axes"][0].update(tokens=["a"]), "must name 4 tokens"),
    "tokens that are none": (lambda m, _: m["axes"][0].update(tokens=[1, 2, 3, 4]), "tokens as a list"),
    "special tokens that are not there": (lambda m, _: m["axes"][0].update(special=[4]), "special tokens that are not"),
    "a grid that is none": (lambda m, _: m["axes"][0].update(grid=[2, 2]), "without rows and columns"),
    "a grid of too few patches": (lambda m, _: m["axes"][0].update(grid=grid(2, 2, [0, 1])), "needs 4 different pos"),
    "a grid of one patch twice": (lambda m, _: m["axes"][0].update(grid=grid(1, 2, [1, 1])), "needs 2 different pos"),
    "a grid of absurd size": (lambda m, _: m["axes"][0].update(grid=grid(10**30, 1, [0])), "different positions"),
    "a grid of no numbers": (lambda m, _: m["axes"][0].update(grid=grid(True, 1, [0])), "without rows and columns"),
    "a grid beyond the tokens": (lambda m, _: m["axes"][0].update(grid=grid(1, 1, [4])), "a patch at position 4"),
    "an axis that is not there": (lambda _, x: x.update(queries=1), "does not name the tokens"),
    "a mask that is none": (lambda _, x: x["mechanism"].update(mask="import os"), "At character 1: There is no mask"),
    "a mask of 10 MB": (lambda _, x: x["mechanism"].update(mask="causal|" * 1_500_000), "at most 80,000 characters"),
    "a deep mask": (lambda _, x: x["mechanism"].update(mask="(" * 40_000), "More than 50 parts"),
    "a mask for other lengths": (lambda _, x: x["mechanism"].update(mask="padding([1,0])"), "given for 2 keys"),
    "a score that is none": (lambda _, x: x["mechanism"].update(score={"name": "system"}), "has no score “system”"),
    "a mask as a score": (lambda _, x: x["mechanism"].update(score={"name": "Softmax"}), "has no score “Softmax”"),
    "a score without a name": (lambda _, x: x["mechanism"].update(score={"name": ["a"]}), "has no score"),
    "an unknown parameter": (
        lambda _, x: x["mechanism"].update(score={"name": "Dot", "x": 1}), "Dot has no parameter “x”",
    ),
    "a parameter of the wrong kind": (
        lambda _, x: x["mechanism"].update(normalizer={"name": "Softmax", "temperature": "hot"}), "of the wrong kind",
    ),
    "a huge parameter": (
        lambda _, x: x["mechanism"].update(score={"name": "Additive", "hidden": 10**12}), "at most 1,048,576",
    ),
    "a temperature near 0": (
        lambda _, x: x["mechanism"].update(normalizer={"name": "Softmax", "temperature": 5e-324}),
        "temperature of Softmax is 4.941e-324; 0 or a size from 1e-12 to at most 1,048,576 is possible.",
    ),
    "a scale beyond float32": (
        lambda _, x: x["mechanism"].update(score={"name": "ScaledDot", "scale": -1e300}), "scale of ScaledDot is -1e",
    ),
    "a cap near 0": (
        lambda _, x: x["mechanism"].update(biases=[{"name": "SoftCap", "cap": 1e-50}]), "cap of SoftCap is 1e-50; 0 or",
    ),
    "a tensor from nowhere": (
        lambda _, x: x["mechanism"].update(normalizer={"name": "Sink", "logit": {"tensor": "x"}}), "not in the layer's",
    ),
    "a table of nothing": (lambda _, x: x["mechanism"].update(mask={"tensor": "x"}), "not in the layer's file"),
    "no mechanism": (lambda _, x: x.pop("mechanism"), "must have a score"),
    "a kind that is none": (lambda _, x: x.update(kind="odd"), "kind must be self, causal or cross; it is “odd”"),
    "an id that is none": (lambda _, x: x.update(id="decoder 0"), "without a valid id"),
    "an endless id": (lambda _, x: x["id"].update(stack="x" * 10_000), "without a valid id"),
    "an endless sentence": (lambda _, x: x.update(comparison="x" * 10_000), "a text of at most 2,000"),
    "layers that are none": (lambda m, _: m.update(layers=[1]), "layers as a list"),
    "too many layers": (lambda m, one: m.update(layers=[one] * 3_000), "layers as a list of at most 2,048"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), CHANGES.values(), ids=CHANGES)
def test_a_manifest_that_lies_is_refused(change: Change, sentence: str, folder: Path) -> None:
    manifest = json.loads((folder / "trace.json").read_text())
    change(manifest, manifest["layers"][0])
    (folder / "trace.json").write_text(json.dumps(manifest))
    started = time.process_time()
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(").replace(".", r"\.")) as refused:
        Trace.load(folder)
    assert len(str(refused.value)) < 600
    assert time.process_time() - started < 20


@pytest.mark.parametrize("occurrences", [[None] * 1_000, [*range(500), *range(500)], [None, *range(1, 500)] * 2])
def test_layers_of_one_name_are_told_apart_in_linear_time(
    occurrences: list[int | None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = json.loads((folder / "trace.json").read_text())
    [layer] = manifest["layers"]
    manifest["layers"] = [layer | {"id": layer["id"] | {"occurrence": number}} for number in occurrences]
    (folder / "trace.json").write_text(json.dumps(manifest))
    copies = Mock(wraps=dataclasses.replace)
    monkeypatch.setattr(reader, "replace", copies)
    trace = Trace.load(folder)
    assert len({one.id for one in trace}) == len(trace) == 1_000
    assert trace[0].id.occurrence == occurrences[0]
    assert copies.call_count < 5_000


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (deep("["), "is not valid JSON"),
        (deep('{"a":'), "is not valid JSON"),
        ("[]", "holds no object"),
        ("{", "is not valid JSON"),
        ("\ud800".encode("utf-16", "surrogatepass").decode("latin-1"), "is not valid JSON"),
    ],
)
def test_json_that_is_none_is_refused(content: str, sentence: str, folder: Path) -> None:
    (folder / "trace.json").write_text(content)
    with pytest.raises(ValueError, match=sentence):
        Trace.load(folder)


def test_a_manifest_of_a_gigabyte_is_not_read(folder: Path) -> None:
    with (folder / "trace.json").open("r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(ValueError, match=r"has 1,073,741,824 bytes; at most 50,331,648 are read"):
        Trace.load(folder)


@pytest.mark.parametrize("name", ["trace.json", FILE])
def test_links_and_pipes_are_not_read(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).rename(tmp_path / "real")
    with pytest.raises(ValueError, match=f"{name} is missing"):
        Trace.load(folder)
    (folder / name).symlink_to(tmp_path / "real")
    with pytest.raises(ValueError, match=f"{name} is a link"):
        Trace.load(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(ValueError, match=f"{name} is not a file"):
        Trace.load(folder)


def header(offsets: list[int], shape: list[int], kind: str = "F32") -> bytes:
    text = json.dumps({"query": {"dtype": kind, "shape": shape, "data_offsets": offsets}}).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8 + b"{}",
        header([0, 1 << 40], [1 << 38]),
        header([0, 16], [1 << 62, 4]) + bytes(16),
        header([-4, 16], [4]) + bytes(16),
        header([0, 16], [4], "C64") + bytes(16),
        header([0, 16], [4]) + bytes(8),
        header([4, 16], [3]) + bytes(16),
    ],
    ids=[
        *("nothing", "an endless header", "offsets beyond the file", "a shape that overflows", "negative offsets"),
        *("an unknown type", "a file cut off", "a hole"),
    ],
)
def test_a_file_that_lies_is_refused(content: bytes, folder: Path) -> None:
    (folder / FILE).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{FILE} (cannot be opened|holds “query” as)"):
        Trace.load(folder)


def test_text_of_a_trace_can_be_sent_to_a_browser(folder: Path) -> None:
    manifest = json.loads((folder / "trace.json").read_text())
    manifest["axes"][0]["tokens"] = ["\ud800", "x" * 10_000, "<b>", "\x00"]
    manifest["model"] = "\udfff"
    (folder / "trace.json").write_text(json.dumps(manifest))
    trace = Trace.load(folder)
    assert [len(token) for token in trace[0].inputs.query_tokens] == [1, 200, 3, 1]
    "".join((trace.model, *trace[0].inputs.query_tokens)).encode()


def test_a_trace_is_not_written_over_others(folder: Path) -> None:
    with pytest.raises(ValueError, match="has files already"):
        TraceWriter(folder)
    with pytest.raises(ValueError, match=r"cannot be written into .*Not a directory|File exists"):
        TraceWriter(folder / FILE)


PROGRAM = """
import resource, signal, sys, torch
from attnviz import Inputs, Layer, Mechanism, Trace
from attnviz.layer import Kind, LayerId
from attnviz.trace import TraceWriter

def layer(tokens):
    names = tuple(map(str, range(tokens)))
    return Layer(LayerId(index=tokens), Kind.SELF, Inputs(*torch.randn(3, 1, tokens, 8), names, names), Mechanism())

writer = TraceWriter(sys.argv[1])
"""


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM + program, folder], capture_output=True, text=True)


def test_a_full_disk_leaves_what_was_written_before(tmp_path: Path) -> None:
    done = run(
        f"""
writer.add(layer(10))
resource.setrlimit(resource.RLIMIT_FSIZE, ({1 << 16}, {resource.getrlimit(resource.RLIMIT_FSIZE)[1]}))
try:
    writer.add(layer(10_000))
except ValueError as error:
    print(error)
""",
        tmp_path,
    )
    assert done.stdout.startswith(f"The trace cannot be written into “{tmp_path.name[:40]}"), done.stderr
    assert "What was written before, 1 layers, can be opened." in done.stdout
    trace = Trace.load(tmp_path)
    assert [layer.name for layer in trace] == ["layer 10"]
    assert "not whole" in trace.missing[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "trace.json"]


def test_a_capture_that_is_killed_leaves_what_was_written_before(tmp_path: Path) -> None:
    done = run(
        """
import os
from attnviz.trace import layer_file
writer.add(layer(10))
def die(*_):
    open(sys.argv[1] + "/layer-0001.safetensors", "wb").write(b"some bytes")
    os.kill(os.getpid(), signal.SIGKILL)
layer_file.safetensors.torch.save_file = die
writer.add(layer(20))
""",
        tmp_path,
    )
    assert done.returncode == -9, done.stderr
    trace = Trace.load(tmp_path)
    assert [layer.name for layer in trace] == ["layer 10"]
    assert "not whole" in trace.missing[0]
