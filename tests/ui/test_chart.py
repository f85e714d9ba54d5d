"""What travels to the browser."""

import json
import struct

import numpy as np
import plotly.graph_objects as go
import pytest

from attnviz.chart import pack
from attnviz.figures import heatmap
from attnviz.ui import chart as module


def unpacked(payload: bytes) -> tuple[dict, list[np.ndarray]]:
    """A slow reader of the format, as its comment describes it."""
    (length,) = struct.unpack("<Q", payload[:8])
    header, offset, arrays = json.loads(payload[8 : 8 + length]), 8 + length, {}

    def walk(value: object) -> None:
        if isinstance(value, dict) and {"array", "dtype", "shape"} <= value.keys():
            arrays[value["array"]] = value
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                walk(inner)

    walk(header)
    made = []
    for i in range(len(arrays)):
        dtype, shape = np.dtype("<" + arrays[i]["dtype"]), arrays[i]["shape"]
        size = int(np.prod(shape)) * dtype.itemsize
        made.append(np.frombuffer(payload[offset : offset + size], dtype).reshape(shape))
        offset += -(-size // 8) * 8
    assert offset == len(payload)
    return header, made


def test_arrays_travel_as_they_are() -> None:
    one, other = np.arange(6, dtype="f4").reshape(2, 3), np.arange(5, dtype="u1")
    header, arrays = unpacked(pack({"a": {"z": one}, "b": [other], "c": "é"}))
    np.testing.assert_array_equal(arrays[0], one)
    np.testing.assert_array_equal(arrays[1], other)
    assert header["c"] == "é"


def test_what_is_neither_text_nor_array_is_refused() -> None:
    with pytest.raises(TypeError, match=r"A figure cannot hold \{1, 2\}"):
        pack({"a": {1, 2}})


def test_a_heatmap_costs_four_bytes_a_cell_and_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict = {}
    monkeypatch.setattr(module.scripts, "mount", lambda component: lambda **given: sent.update(given))
    tokens = ["token"] * 128
    module.chart(heatmap(np.zeros((128, 128), "f4"), tokens, tokens), "heatmap", height=9)
    assert len(sent["data"]) < 4 * 128 * 128 + 20_000
    header, [z] = unpacked(sent["data"])
    assert z.shape == (128, 128)
    assert header["pinned"] is None
    assert header["figure"]["layout"]["template"] is None


def test_numbers_that_are_none_do_not_travel() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack({"a": float("inf")})


@pytest.mark.parametrize("dtype", ["i8", "i4", "u2", "b1", "f2"])
def test_arrays_of_other_types_travel_as_what_a_browser_knows(dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    _, [made] = unpacked(pack({"a": array}))
    np.testing.assert_array_equal(made, array)
    assert made.dtype.str[1:] in ("f4", "f8", "i4", "u1")


def test_a_click_on_a_figure_that_has_been_replaced_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: dict = {}
    clicks: list[tuple[int, int]] = []
    monkeypatch.setattr(module.scripts, "mount", lambda component: lambda **given: sent.update(given))
    state: dict = {}
    monkeypatch.setattr("streamlit.session_state", state)

    def shown(value: float, cells: object = None) -> int:
        picture = heatmap(np.full((2, 2), value, "f4"), ["a", "b"], ["a", "b"])
        on_click = lambda row, column: clicks.append((row, column))  # noqa: E731
        module.chart(picture, "heatmap", height=9, cells=cells, on_click=on_click)
        return unpacked(sent["data"])[0]["clickStamp"]

    def click(*stamps: int) -> list[tuple[int, int]]:
        clicks.clear()
        for stamp in stamps:
            state["heatmap"] = {"click": {"row": 1, "column": 0, "stamp": stamp}}
            sent["on_click_change"]()
        return clicks

    assert click(shown(0.1), shown(0.2)) == [(1, 0)]
    assert click(shown(0.1, "heads of a"), shown(0.2, "heads of a")) == [(1, 0), (1, 0)]
    assert click(shown(0.1, "heads of a"), shown(0.1, "heads of b")) == [(1, 0)]


def test_plotly_keeps_its_default_template_for_figures_of_others():
    assert go.Figure().layout.template.layout.to_plotly_json()
