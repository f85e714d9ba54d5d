"""Folders that lie: each is refused in a sentence, or opened as far as it can be."""

import dataclasses
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies

from attnviz import Inputs, Layer, Mechanism, Trace, masks
from attnviz.layer import Kind, LayerId
from attnviz.trace import TraceWriter, check, reader

FILE = "layer-0000.safetensors"
Change = Callable[[dict[str, Any], dict[str, Any]], object]  # of the manifest and of its layer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inputs = Inputs(*torch.randn(3, 2, 4, 8), tuple("abcd"), tuple("abcd"))
    Trace((Layer(LayerId("decoder", 0), Kind.CAUSAL, inputs, Mechanism(mask=masks.Causal())),)).save(tmp_path / "trace")
    return tmp_path / "trace"


def deep(text: str) -> str:
    return text * 200_000


def grid(rows: int, columns: int, positions: list[int], **more: object) -> dict[str, object]:
    return {"rows": rows, "columns": columns, "positions": positions} | more


def alone(**more: object) -> list[dict[str, object]]:
    return [grid(1, 1, [0], **more)]


CHANGES: dict[str, tuple[Change, str]] = {
    "another format": (lambda m, _: m.update(format="other"), "not the trace.json of a trace"),
    "a later version": (lambda m, _: m.update(version=2), "written by a later version of attnviz: its format is “2”"),
    "no version": (lambda m, _: m.update(version=True), "not the trace.json of a trace"),
    "a shape that lies": (lambda _, x: x["tensors"]["query"].update(shape=[2, 9, 8]), "holds “query” as F32 of 2 × 4"),
    "a type that lies": (lambda _, x: x["tensors"]["key"].update(type="F64"), "holds “key” as F32"),
    "an absurd shape": (lambda _, x: x["tensors"]["key"].update(shape=[10**30]), "holds “key” as F32"),
    "a tensor that is not there": (lambda _, x: x["tensors"].update(other={}), "does not hold all tensors"),
    "tensors that are none": (lambda _, x: x.update(tensors=[1]), "trace.json says otherwise"),
    "a path out of the folder": (lambda _, x: x.update(file="../x.safetensors"), "not a layer's file in this folder"),
    "a path from the root": (lambda _, x: x.update(file="/etc/passwd"), "not a layer's file in this folder"),
    "a file that is missing": (lambda _, x: x.update(file="layer-0009.safetensors"), "layer-0009.safetensors is missi"),
    "no file": (lambda _, x: x.pop("file"), 'layers[0].file: It is missing. Give "layer-0000'),
    "too few tokens": (lambda m, _: m["axes"][0].update(tokens=["a"]), "axes[0] names 1 tokens, but query is for 4"),
    "tokens that are none": (lambda m, _: m["axes"][0].update(tokens=[1, 2, 3, 4]), "1,048,576 texts; item 0 is 1"),
    "special tokens that are not there": (lambda m, _: m["axes"][0].update(special=[4]), "There is no token 4"),
    "a grid that is none": (lambda m, _: m["axes"][0].update(grid=2), "axes[0].grid: It must be an object with"),
    "grids that are none": (lambda m, _: m["axes"][0].update(grid=[2, 2]), "axes[0].grid: It must be a list of at mos"),
    "two grids of one token": (lambda m, _: m["axes"][0].update(grid=alone() + alone()), "has two patches at one posi"),
    "a box of three": (lambda m, _: m["axes"][0].update(grid=alone(box=[0, 0, 1])), "box: It must be a list of 4"),
    "a box of texts": (lambda m, _: m["axes"][0].update(grid=alone(box=["0"] * 4)), "box: It must be a list of 4"),
    "an empty box": (lambda m, _: m["axes"][0].update(grid=alone(box=[0, 0, 0, 1])), "left less than right"),
    "an endless box": (
        lambda m, _: m["axes"][0].update(grid=alone(box=[0, 0, 10**400, 1])),
        "a list of 4 finite numbers",
    ),
    "a box of nan": (
        lambda m, _: m["axes"][0].update(grid=alone(box=[0, 0, 1, float("nan")])),
        "a list of 4 finite numbers",
    ),
    "an image below none": (lambda m, _: m["axes"][0].update(grid=alone(image=-1)), "Images and tiles are counted"),
    "an absurd tile": (lambda m, _: m["axes"][0].update(grid=alone(tile=10**30)), "Images and tiles are counted"),
    "a tile of no number": (lambda m, _: m["axes"][0].update(grid=alone(tile="a")), "tile: It must be a whole number"),
    "a grid of too few patches": (lambda m, _: m["axes"][0].update(grid=grid(2, 2, [0, 1])), "needs 4 different pos"),
    "a grid of one patch twice": (lambda m, _: m["axes"][0].update(grid=grid(1, 2, [1, 1])), "needs 2 different pos"),
    "a grid of absurd size": (lambda m, _: m["axes"][0].update(grid=grid(10**30, 1, [0])), "different positions"),
    "a grid of no numbers": (lambda m, _: m["axes"][0].update(grid=grid(True, 1, [0])), "rows: It must be a whole"),
    "a grid beyond the tokens": (lambda m, _: m["axes"][0].update(grid=grid(1, 1, [4])), "a patch at position 4"),
    "an axis that is not there": (lambda _, x: x.update(queries=1), "queries: It must be the number of one of 1"),
    "a mask that is none": (lambda _, x: x["mechanism"].update(mask="import os"), "At character 1: There is no mask"),
    "a mask of 10 MB": (lambda _, x: x["mechanism"].update(mask="causal|" * 1_500_000), "at most 80,000 characters"),
    "a deep mask": (lambda _, x: x["mechanism"].update(mask="(" * 40_000), "More than 50 parts"),
    "a mask for other lengths": (lambda _, x: x["mechanism"].update(mask="padding([1,0])"), "given for 2 keys"),
    "a score that is none": (lambda _, x: x["mechanism"].update(score={"name": "system"}), "has no score “system”"),
    "a mask as a score": (lambda _, x: x["mechanism"].update(score={"name": "Softmax"}), "has no score “Softmax”"),
    "a score without a name": (lambda _, x: x["mechanism"].update(score={"name": ["a"]}), "has no score"),
    "an unknown parameter": (
        lambda _, x: x["mechanism"].update(score={"name": "Dot", "x": 1}),
        "Dot has no parameter “x”",
    ),
    "a parameter of the wrong kind": (
        lambda _, x: x["mechanism"].update(normalizer={"name": "Softmax", "temperature": "hot"}),
        "of the wrong kind",
    ),
    "a huge parameter": (
        lambda _, x: x["mechanism"].update(score={"name": "Additive", "hidden": 10**12}),
        "at most 1,048,576",
    ),
    "a temperature near 0": (
        lambda _, x: x["mechanism"].update(normalizer={"name": "Softmax", "temperature": 5e-324}),
        "temperature of Softmax is 4.941e-324; 0 or a size from 1e-12 to at most 1,048,576 is possible.",
    ),
    "a scale beyond float32": (
        lambda _, x: x["mechanism"].update(score={"name": "ScaledDot", "scale": -1e300}),
        "scale of ScaledDot is -1e",
    ),
    "a cap near 0": (
        lambda _, x: x["mechanism"].update(biases=[{"name": "SoftCap", "cap": 1e-50}]),
        "cap of SoftCap is 1e-50; 0 or",
    ),
    "a tensor from nowhere": (
        lambda _, x: x["mechanism"].update(normalizer={"name": "Sink", "logit": {"tensor": "x"}}),
        "not in the layer's",
    ),
    "a table of nothing": (lambda _, x: x["mechanism"].update(mask={"tensor": "x"}), "not in the layer's file"),
    "a mechanism that is none": (lambda _, x: x.update(mechanism="causal"), "mechanism: It must be an object"),
    "a kind that is none": (lambda _, x: x.update(kind="odd"), "kind: It must be self, causal or cross; it is “odd”"),
    "an id that is none": (lambda _, x: x.update(id="decoder 0"), "layers[0].id: It must be an object with the f"),
    "an endless id": (lambda _, x: x["id"].update(stack="x" * 10_000), "layers[0].id: It is not a valid id"),
    "an endless sentence": (lambda _, x: x.update(comparison="x" * 10_000), "at most 2,000 characters; it has"),
    "layers that are none": (lambda m, _: m.update(layers=[1]), "layers: It must be a list of at most 2,048 objects"),
    "too many layers": (lambda m, one: m.update(layers=[one] * 3_000), "at most 2,048 objects; it has 3,000"),
}


def refusal(folder: Path, sentence: str) -> str:
    """The sentence with which a folder is refused, as its check has it."""
    with pytest.raises(ValueError, match=sentence or None) as refused:
        Trace.load(folder)
    assert str(refused.value) in [str(problem) for problem in check(folder) if not problem.is_warning]
    return str(refused.value)


@pytest.mark.parametrize(("change", "sentence"), CHANGES.values(), ids=CHANGES)
def test_a_manifest_that_lies_is_refused(change: Change, sentence: str, folder: Path) -> None:
    manifest = json.loads((folder / "trace.json").read_text())
    change(manifest, manifest["layers"][0])
    (folder / "trace.json").write_text(json.dumps(manifest))
    started = time.process_time()
    assert len(refusal(folder, re.escape(sentence))) < 600
    assert time.process_time() - started < 20


@pytest.mark.parametrize("occurrences", [[None] * 400, [*range(200), *range(200)], [None, *range(1, 200)] * 2])
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
    assert len({one.id for one in trace}) == len(trace) == 400
    assert trace[0].id.occurrence == occurrences[0]
    assert copies.call_count < 2_000


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
    refusal(folder, sentence)


def test_a_manifest_of_a_gigabyte_is_not_read(folder: Path) -> None:
    with (folder / "trace.json").open("r+b") as file:
        file.truncate(1 << 30)
    refusal(folder, r"has 1,073,741,824 bytes; at most 50,331,648 are read")


@pytest.mark.parametrize("name", ["trace.json", FILE])
def test_links_and_pipes_are_not_read(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / name).rename(tmp_path / "real")
    refusal(folder, f"{name} is missing")
    (folder / name).symlink_to(tmp_path / "real")
    refusal(folder, f"{name} is a link")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refusal(folder, f"{name} is not a file")


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
    refusal(folder, rf"{FILE} (cannot be opened|holds “query” as)")


def test_a_billion_tokens_are_refused_before_a_vector_is_read(folder: Path) -> None:
    manifest = json.loads((folder / "trace.json").read_text())
    del manifest["layers"][0]["tensors"]
    (folder / "trace.json").write_text(json.dumps(manifest))
    sizes = {"query": 4 * 10**9, "key": 4, "value": 4}
    ends = [*accumulate(sizes.values())]
    described = {
        name: {"dtype": "F32", "shape": [1, size // 4, 1], "data_offsets": [end - size, end]}
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }
    text = json.dumps(described).encode()
    with (folder / FILE).open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(file.tell() + ends[-1])  # of zeros that take no place on the disk
    started = time.process_time()
    refusal(folder, "names 4 tokens, but query is for 1,000,000,000")
    assert time.process_time() - started < 5


JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats() | strategies.text(),
    lambda parts: strategies.lists(parts, max_size=3) | strategies.dictionaries(strategies.text(), parts, max_size=3),
    max_leaves=5,
)


def places(part: Any) -> Iterator[tuple[Any, Any]]:
    """Every object or list in a manifest, with each of its keys or indices."""
    for key in [*part] if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ():
        yield part, key
        yield from places(part[key])


@pytest.fixture
def original(folder: Path) -> str:
    return (folder / "trace.json").read_text()


@given(data=strategies.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_check_agrees_with_the_reader_whatever_is_changed(
    data: strategies.DataObject, folder: Path, original: str
) -> None:
    manifest = json.loads(original)
    for _ in range(data.draw(strategies.integers(1, 3))):
        part, key = data.draw(strategies.sampled_from([*places(manifest)]))
        value = data.draw(JSON | strategies.sampled_from(["remove", "grid", "full", 0, 1]))
        part.pop(key) if value == "remove" else part.__setitem__(key, value)
    (folder / "trace.json").write_text(json.dumps(manifest))
    if problems := [str(problem) for problem in check(folder) if not problem.is_warning]:
        assert refusal(folder, "") == problems[0]
    else:
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
