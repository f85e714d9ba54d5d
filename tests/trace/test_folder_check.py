"""The check of a folder: every problem with its place, and what is doubtful; and the schema that it follows."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file

import attnviz
from attnviz import Trace
from attnviz.command.trace import main
from attnviz.inputs import PatchGrid
from attnviz.trace import TraceWriter, check
from attnviz.trace.problems import MOST_PROBLEMS
from attnviz.trace.schema import OBJECTS, ManifestField

FILE = "layer-0000.safetensors"
TOKENS = ["the", "cat", "sat"]
ROWS = np.tril(np.ones((2, 3, 3))) / np.arange(1, 4)[:, None]  # two heads, causal and uniform
Keys = list[str | int]


def write(folder: Path, tensors: dict[str, np.ndarray], **layer: Any) -> dict[str, Any]:
    """Writes a trace of one layer with nothing that may be left out, and returns its manifest."""
    folder.mkdir(exist_ok=True)
    save_file({name: np.ascontiguousarray(array, "float32") for name, array in tensors.items()}, folder / FILE)
    trace = {"format": "attnviz trace", "version": 1, "axes": [{"tokens": TOKENS}]}
    trace["layers"] = [{"file": FILE, "kind": "self"} | layer]
    (folder / "trace.json").write_text(json.dumps(trace))
    return trace


def vectors(kv_heads: int = 2) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(0)
    heads = {"query": 2, "key": kv_heads, "value": kv_heads}
    return {name: numbers.standard_normal((count, 3, 4)) for name, count in heads.items()}


def said(folder: Path) -> list[str]:
    return [f"{'warning' if problem.is_warning else 'problem'}: {problem}" for problem in check(folder)]


def test_the_least_trace_is_read_as_scaled_dot_product(tmp_path: Path) -> None:
    arrays = vectors(kv_heads=1)
    write(tmp_path, arrays, kind="causal", mechanism={"mask": "causal"})
    assert check(tmp_path) == []
    [layer] = Trace.load(tmp_path)
    query, key, value = (torch.tensor(array, dtype=torch.float32) for array in arrays.values())
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(layer.mechanism(layer.inputs).output, expected)
    assert (str(layer.id), layer.fidelity, layer.inputs.key_tokens) == ("layer 0", None, tuple(TOKENS))


def test_the_least_trace_of_weights_has_them(tmp_path: Path) -> None:
    masked = np.where(np.tril(np.ones((3, 3))) > 0, ROWS, np.nan)
    write(tmp_path, {"weights": masked})
    assert check(tmp_path) == []
    assert np.array_equal(Trace.load(tmp_path)[0].weights, masked.astype("float32"), equal_nan=True)


def at(manifest: Any, path: Keys) -> Any:
    for name in path:
        manifest = manifest[name]
    return manifest


PLACES: dict[str, Keys] = {
    "trace.json": [],
    "axis": ["axes", 0],
    "grid": ["axes", 0, "grid", 0],
    "layer": ["layers", 0],
    "id": ["layers", 0, "id"],
    "mechanism": ["layers", 0, "mechanism"],
}
FIELDS = [(kind, field) for kind, fields in OBJECTS.items() for field in fields]


@pytest.fixture
def full(tmp_path: Path) -> dict[str, Any]:
    """A trace as it is written, of which each object has all its fields."""
    [layer] = attnviz.capture(torch.nn.MultiheadAttention(8, 2), *[torch.randn(4, 8)] * 3)
    grid = PatchGrid(2, 2, (0, 1, 2, 3))
    Trace((replace(layer, inputs=layer.inputs.with_tokens(query_grids=(grid,), key_grids=(grid,))),)).save(tmp_path)
    return json.loads((tmp_path / "trace.json").read_text())


def test_the_writer_writes_the_fields_of_the_schema(full: dict[str, Any]) -> None:
    for kind, place in PLACES.items():
        assert {*at(full, place)} == {field.name for field in OBJECTS[kind]}, kind


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=[f"{kind} {field.name}" for kind, field in FIELDS])
def test_a_field_is_needed_or_has_its_default(
    kind: str, field: ManifestField, full: dict[str, Any], tmp_path: Path
) -> None:
    outer = at(full, PLACES[kind])

    def shown() -> tuple[list[str], object]:
        (tmp_path / "trace.json").write_text(json.dumps(full))
        problems = said(tmp_path)
        return problems, None if any(line.startswith("problem") for line in problems) else describe(
            Trace.load(tmp_path)
        )

    del outer[field.name]
    problems, without = shown()
    if field.is_needed:
        assert len(problems) == 1
        assert problems[0].startswith("problem: trace.json")
        assert field.name in problems[0]
    else:
        outer[field.name] = field.default
        assert shown() == (problems, without)
        assert without is not None


def describe(trace: Trace) -> object:
    return (
        [
            (layer.id, layer.kind, layer.mechanism, layer.fidelity, layer.comparison, layer.inputs.query_grids)
            for layer in trace
        ],
        trace.model,
        trace.missing,
    )


def test_every_problem_has_its_place(tmp_path: Path) -> None:
    trace = write(tmp_path, vectors(), kind="odd", mechanism={"mask": "casual", "score": {"name": "x"}}, keys=3)
    trace["layers"].append({"file": "layer-0001.safetensors", "kind": "self", "comparison": 1})
    trace["axes"].append({"tokens": [1]})
    trace["model"], trace["layer"] = None, []
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    assert [one.rsplit(": ", 1)[0][:60] for one in said(tmp_path)] == [
        "warning: trace.json",
        "problem: trace.json, model",
        "problem: trace.json, axes[1].tokens",
        "problem: trace.json, layers[0].kind",
        "problem: trace.json, layers[0].keys",
        "problem: trace.json, layers[1].file",
        "problem: trace.json, layers[1].comparison",
    ]


def test_a_mistyped_field_is_named_with_what_was_meant(tmp_path: Path) -> None:
    write(tmp_path, vectors(), mecanism={"mask": "causal"})
    [problem] = said(tmp_path)
    assert problem == (
        "warning: trace.json, layers[0]: “mecanism” is not a field of the format, so it is ignored. Did you mean "
        "mechanism?"
    )


def transposed(trace: dict[str, Any], folder: Path) -> None:
    write(folder, {name: array.swapaxes(0, 1) for name, array in vectors().items()})


def of_weights(weights: np.ndarray) -> Callable[[dict[str, Any], Path], object]:
    return lambda _, folder: write(folder, {"weights": weights})


def with_number(name: str, number: float) -> Callable[[dict[str, Any], Path], object]:
    arrays = vectors()
    arrays[name][1, 2, 3] = number
    return lambda _, folder: write(folder, arrays)


def changed(**fields: Any) -> Callable[[dict[str, Any], Path], object]:
    return lambda trace, folder: (folder / "trace.json").write_text(json.dumps(trace | fields))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (transposed, "problem: trace.json, layers[0].queries: axes[0] names 3 tokens, but query is for 2: its axes"),
        (with_number("key", np.nan), f"problem: {FILE}, key: {FILE} holds a key that is not finite"),
        (with_number("value", np.inf), "larger than 1e+12: that of token 2 in head 1"),
        (of_weights(ROWS * 2), f"warning: {FILE}, weights: 6 of 6 rows are not weights from 0 that add up to 1: that"),
        (of_weights(ROWS.swapaxes(1, 2)), "that of query 0 in head 0 adds up to 1.83"),
        (of_weights(ROWS + np.array([0.5, -0.5, 0])), "that of query 0 in head 0 adds up to 1.00, from −0.50 up"),
        (of_weights(np.where(ROWS > 0, ROWS, np.inf)), "holds a weight that is not finite"),
        (changed(whole=False), "warning: trace.json, whole: This trace is not whole"),
        (changed(layers=[]), "warning: This trace has no layers."),
        (changed(layers=[]), f"warning: {FILE}: trace.json does not name this file"),
        (changed(layers=[{"file": FILE, "kind": "causal"}]), "warning: trace.json, layers[0].mechanism.mask: The"),
        (changed(layers=[{"file": FILE, "kind": "self", "id": {}}] * 2), "layers[1].id: “layer” is the name of a"),
        (changed(axes=[{"tokens": ["x"] * ((1 << 20) + 1)}]), "of at most 1,048,576 texts; it has 1,048,577."),
    ],
)
def test_what_is_wrong_or_doubtful_is_said(
    change: Callable[[dict[str, Any], Path], object], sentence: str, tmp_path: Path
) -> None:
    change(write(tmp_path, vectors()), tmp_path)
    assert [one for one in said(tmp_path) if sentence in one]


def test_masked_rows_and_rounded_weights_are_not_doubtful(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(500, 0.1), (1, 3))
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        weights = torch.tensor(rows).to(dtype)
        weights[0, 1] = torch.nan
        trace = write(tmp_path, {"weights": ROWS}, keys=1)
        save_torch_file({"weights": weights}, tmp_path / FILE)
        trace["axes"].append({"tokens": [*map(str, range(500))]})
        (tmp_path / "trace.json").write_text(json.dumps(trace))
        assert said(tmp_path) == []


class Command:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, ("touch ran",)


def test_a_pickle_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (FILE, "trace.json"):
        write(tmp_path, vectors())
        (tmp_path / name).write_bytes(pickle.dumps(Command()))
        assert len(said(tmp_path)) == 1
    assert not (tmp_path / "ran").exists()


def test_problems_are_bounded(tmp_path: Path) -> None:
    trace = write(tmp_path, vectors())
    trace["layers"] = [{str(number): 0 for number in range(50)}] * 2_000
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    problems = check(tmp_path)
    assert sum(problem.is_warning for problem in problems) == MOST_PROBLEMS
    assert sum(not problem.is_warning for problem in problems) == MOST_PROBLEMS


def test_the_command_says_what_is_right_and_what_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path, vectors())
    main(["check", str(tmp_path)])
    line = "layer 0: self, 2 heads, 3 queries × 3 keys, mask “full”, not compared"
    assert capsys.readouterr().out == f"{line}: right\nProblems: 0, warnings: 0. The app can show it.\n"
    trace["layers"].append({"file": "layer-0001.safetensors", "kind": "self"})
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    with pytest.raises(SystemExit) as ended:
        main(["check", str(tmp_path)])
    assert ended.value.code == 1
    assert capsys.readouterr().out == (
        f"{line}: right\nproblem: trace.json, layers[1].file: layer-0001.safetensors is missing. A trace is a whole "
        "folder; copy all of it.\nProblems: 1, warnings: 0. The app refuses it.\n"
    )


def test_the_command_shows_the_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"weights": ROWS})
    main(["show", str(tmp_path)])
    assert capsys.readouterr().out == "layer 0: self, 2 heads, 3 queries × 3 keys, weights alone, not compared\n"
    with pytest.raises(SystemExit, match="attnviz trace: There is no folder “nowhere”"):
        main(["show", "nowhere"])


def test_an_unfinished_capture_is_doubtful(tmp_path: Path) -> None:
    TraceWriter(tmp_path)
    assert [problem.field for problem in check(tmp_path) if problem.is_warning] == ["whole", ""]
