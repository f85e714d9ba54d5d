"""attnviz map: the arrays of a head in a file, and a sentence where there can be none."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attnviz import Trace, downsample
from attnviz.command.map import main
from attnviz.sources import Toy


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces") / "toy"
    Trace(tuple(Toy("the animal did not cross the street").layers())).save(folder)
    return folder


def arguments(trace: Path, file: Path, **options: object) -> list[str]:
    options = {"layer": 0, "head": 1, "cells": 3} | options
    return [
        str(trace),
        "-o",
        str(file),
        *(text for name, value in options.items() for text in (f"--{name}", str(value))),
    ]


def test_the_file_has_the_arrays_by_their_names(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(arguments(trace, tmp_path / "map.npz"))
    layer = Trace.load(trace)[0]
    expected = downsample(layer.inputs, layer.mechanism, 1, cells=(3, 3))
    with np.load(tmp_path / "map.npz", allow_pickle=False) as found:
        assert {*found} == {*vars(expected)}
        for name in ("mass", "maximum", "query", "key", "allowed", "lse", "row_edges", "column_edges"):
            assert torch.equal(torch.from_numpy(found[name]), getattr(expected, name)), name
        assert found["queries_done"] == layer.inputs.queries
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{layer.name}, head 1: 100% in ")
    assert [file.name for file in tmp_path.iterdir()] == ["map.npz"]


def test_a_layer_may_be_named(trace: Path, tmp_path: Path) -> None:
    main(arguments(trace, tmp_path / "map.npz", layer=Trace.load(trace)[0].name))
    assert (tmp_path / "map.npz").exists()


def test_without_a_cluster_this_machine_computes_it(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNVIZ_RAY", "127.0.0.1:1")
    main(arguments(trace, tmp_path / "map.npz", engine="ray"))
    assert (
        "“127.0.0.1:1” cannot be reached: Connection refused. This machine computes it alone."
        in capsys.readouterr().err
    )
    assert (tmp_path / "map.npz").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layer": "7"}, "attnviz map: The trace has no layer “7”. It has "),
        ({"layer": "decoder"}, "attnviz map: The trace has no layer “decoder”. It has "),
        ({"head": 99}, "has the heads 0 to "),
        ({"head": -1}, "--head is -1."),
    ],
)
def test_what_the_trace_has_not_is_said(options: dict[str, object], sentence: str, trace: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=sentence):
        main(arguments(trace, tmp_path / "map.npz", **options))
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_read_or_written_is_said(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^attnviz map: "):
        main(arguments(tmp_path / "nothing", tmp_path / "map.npz"))
    with pytest.raises(SystemExit, match=r"attnviz map: There is no folder .*none for the file"):
        main(arguments(trace, tmp_path / "none" / "map.npz"))
    (tmp_path / "map.npz").mkdir()
    with pytest.raises(SystemExit, match=r"^attnviz map: .*is a folder"):
        main(arguments(trace, tmp_path / "map.npz"))
    assert [file.name for file in tmp_path.iterdir()] == ["map.npz"]


def test_an_interrupted_run_leaves_no_file(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attnviz.command.map.progress_report", lambda _: interrupt)
    with pytest.raises(SystemExit, match=r"stopped\. No file was written"):
        main(arguments(trace, tmp_path / "map.npz"))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("cells", ["0", "many", "8193"])
def test_the_number_of_cells_is_bounded(cells: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments(tmp_path, tmp_path / "map.npz", cells=cells))
    assert "a whole number from 1 to 8,192 is needed" in capsys.readouterr().err
