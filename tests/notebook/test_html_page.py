"""Viewers as HTML that needs neither Python nor a network."""

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnviz
from attnviz.notebook import html_page, viewer
from attnviz.notebook.pictures import Pictures
from tests.ui.test_chart import unpacked

WEIGHTS = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
TOKENS = ["</script><b>", "<!--", "&amp;", "'\"", "é", "six"]


def scripts(page: str, name: str) -> list[Any]:
    found = re.findall(rf'<script type="application/json" data-attnviz-{name}="[^"]*">(.*?)</script>', page, re.S)
    return [json.loads(one) for one in found]


def content(text: str) -> tuple[dict, list[np.ndarray]]:
    return unpacked(gzip.decompress(b64decode(text)))


def test_all_maps_are_in_the_page_to_three_digits() -> None:
    page = attnviz.show(WEIGHTS, TOKENS).to_html()
    [data] = scripts(page, "data")
    assert [stream["heads"] for stream in data["streams"]] == [["0 0", "0 1", "0 2"], ["1 0", "1 1", "1 2"]]
    for stream in data["streams"]:
        header, arrays = content(stream["charts"])
        assert [*header] == stream["heads"]
        for place, z in zip(stream["heads"], arrays, strict=True):
            layer, head = map(int, place.split())
            np.testing.assert_allclose(z.astype("f4"), WEIGHTS[layer, head], rtol=1e-3)


def test_tokens_cannot_end_a_script() -> None:
    page = attnviz.show(WEIGHTS, TOKENS).to_html(title="</title><script>alert(1)</script>")
    assert "</script><b>" not in page
    assert "<script>alert" not in page
    header, _ = content(scripts(page, "data")[0]["streams"][0]["charts"])
    assert header["0 0"][0]["spec"]["queryTokens"] == TOKENS


def test_several_viewers_share_one_copy_of_the_scripts(tmp_path: Path) -> None:
    viewers = [attnviz.show(WEIGHTS), attnviz.show(WEIGHTS[0])]
    page = attnviz.to_html(viewers, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert len(scripts(page, "library")) == 1
    assert len(scripts(page, "data")) == 2
    assert len({one.pictures.key for one in viewers}) == 2


def test_nothing_comes_from_another_host() -> None:
    page = attnviz.show(WEIGHTS, TOKENS).to_html()
    [library] = scripts(page, "library")
    addresses = {*re.findall(r"https?://[\w./]+", page + library["script"] + library["styles"])}
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, which nothing is fetched from


def test_what_does_not_fit_is_left_out_and_the_chosen_head_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    view = attnviz.show(WEIGHTS, layer=1, head=2)
    [data] = scripts(view._html(limit=1), "data")
    assert [stream["heads"] for stream in data["streams"]] == [["1 2", "1 0", "1 1"]]
    monkeypatch.setattr(html_page, "STREAM_CELLS", 1)  # as of larger maps, each of which is compressed by itself
    [data] = scripts(view._html(limit=1), "data")
    assert [stream["heads"] for stream in data["streams"]] == [["1 2"]]
    assert data["chosen"] == {"layer": 1, "head": 2, "query": None}


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        # The first cell, also when it runs again.
        ([("a", 1), ("a", 1), ("b", 2), ("a", 3), ("b", 4)], [True, False, False, True, False]),
        ([(None, 1), (None, 1), (None, 2)], [True, False, False]),  # as nbclient runs them
        ([None, None], [True, True]),  # outside a notebook
    ],
)
def test_one_cell_has_the_library(monkeypatch: pytest.MonkeyPatch, cells: list, expected: list[bool]) -> None:
    view = attnviz.show(WEIGHTS)
    monkeypatch.setattr(viewer, "_library_cell", None)
    has_library = []
    for cell in cells:
        monkeypatch.setattr(viewer, "_running_cell", lambda cell=cell: cell)
        has_library.append(len(scripts(view._output(), "library")) == 1)
    assert has_library == expected


def test_without_anywidget_a_notebook_shows_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.viewer.find_spec", lambda name: None)
    shown = attnviz.show(WEIGHTS)
    assert type(shown) is viewer.Viewer
    assert "data-attnviz" in shown._repr_html_()


def test_a_long_text_is_downsampled_in_a_page() -> None:
    weights = torch.eye(1100)
    header, arrays = content(scripts(attnviz.show(weights).to_html(), "data")[0]["streams"][0]["charts"])
    assert arrays[0].shape == (html_page.CELLS, html_page.CELLS)
    assert not header["0 0"][0]["views"]
    assert isinstance(attnviz.show(weights).pictures, Pictures)
