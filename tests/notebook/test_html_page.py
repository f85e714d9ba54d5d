"""Viewers as HTML that needs neither Python nor a network."""

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
import torch

import attnviz
from attnviz.notebook import html_page, viewer
from tests.notebook.test_page_viewer import nodes as nodes_of_kind
from tests.ui.test_chart import unpacked

WEIGHTS = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
TOKENS = ["</script><b>", "<!--", "&amp;", "'\"", "é", "six"]


def scripts(page: str, name: str) -> list[Any]:
    found = re.findall(rf'<script type="application/json" data-attnviz-{name}="[^"]*">(.*?)</script>', page, re.S)
    return [json.loads(one) for one in found]


def content(text: str) -> tuple[dict, list[np.ndarray]]:
    return unpacked(gzip.decompress(b64decode(text)))


def maps(page: str) -> dict[str, np.ndarray]:
    """The weights of the heads that a page holds, by their links."""
    [data] = scripts(page, "data")
    charts, links = {}, {}
    for bundle in data["charts"]:
        header, arrays = content(bundle["content"])
        charts |= {name: arrays[chart["figure"]["data"][0]["z"]["array"]] for name, chart in header.items()}
    for bundle in data["states"]:
        states, _arrays = content(bundle["content"])
        for link, nodes in states.items():
            figures = nodes_of_kind(nodes, "figure")
            [links[link]] = [charts[one["chart"]] for one in figures if one["name"] == "heatmap"]
    return links


def test_all_maps_are_in_the_page_to_three_digits() -> None:
    held = maps(attnviz.show(WEIGHTS, TOKENS).to_html())
    assert len(held) == 6
    for link, z in held.items():
        chosen = dict(parse_qsl(link))
        layer, head = (int(chosen.get(name, "0")[-1]) for name in ("layer", "head"))
        np.testing.assert_allclose(z.astype("f4"), WEIGHTS[layer, head], rtol=1e-3)


def test_tokens_cannot_end_a_script() -> None:
    page = attnviz.show(WEIGHTS, TOKENS).to_html(title="</title><script>alert(1)</script>")
    assert "</script><b>" not in page
    assert "<script>alert" not in page
    header, _ = content(scripts(page, "data")[0]["charts"][0]["content"])
    assert next(chart["spec"] for name, chart in header.items() if "heatmap" in name)["queryTokens"] == TOKENS


def test_several_viewers_share_one_copy_of_the_scripts(tmp_path: Path) -> None:
    viewers = [attnviz.show(WEIGHTS), attnviz.show(WEIGHTS[0])]
    page = attnviz.to_html(viewers, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert len(scripts(page, "library")) == 1
    assert len(scripts(page, "data")) == 2
    assert len({one.key for one in viewers}) == 2


def test_nothing_comes_from_another_host() -> None:
    page = attnviz.show(WEIGHTS, TOKENS).to_html()
    [library] = scripts(page, "library")
    addresses = {*re.findall(r"https?://[\w./]+", page + library["script"] + library["styles"])}
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, which nothing is fetched from


def test_what_does_not_fit_is_left_out_and_the_chosen_head_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    view = attnviz.show(WEIGHTS, layer=1, head=2)
    monkeypatch.setattr(viewer, "BUNDLE_CELLS", 1)  # as of larger maps, each of which is compressed by itself
    page = view._html(1)
    assert [*maps(page)] == ["layer=layer+1&head=Head+2"]
    assert scripts(page, "data")[0]["chosen"] == {"link": "layer=layer+1&head=Head+2", "query": None}
    nearest = [*maps(view._html(len(page)))][1:3]
    assert nearest == ["head=Head+2", "layer=layer+1"]  # the same head of another layer, another head of the layer


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
    monkeypatch.setattr(html_page, "_library_cell", None)
    has_library = []
    for cell in cells:
        monkeypatch.setattr(html_page, "_running_cell", lambda cell=cell: cell)
        has_library.append(len(scripts(view._output(), "library")) == 1)
    assert has_library == expected


def test_without_anywidget_a_notebook_shows_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.find_spec", lambda name: None)
    shown = attnviz.show(WEIGHTS)
    assert type(shown) is viewer.Viewer
    assert "data-attnviz" in shown._repr_html_()


def test_a_long_text_is_downsampled_in_a_page() -> None:
    page = attnviz.show(torch.eye(1100)).to_html()
    assert maps(page)[""].shape == (viewer.FILE_CELLS, viewer.FILE_CELLS)
    header, _arrays = content(scripts(page, "data")[0]["charts"][0]["content"])
    assert [chart["views"] for chart in header.values()] == [False]
