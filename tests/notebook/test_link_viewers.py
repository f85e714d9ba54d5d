"""The viewers of links: what is chosen, and the numbers that their pages hold."""

import gzip
import json
import re
from base64 import b64decode
from typing import Any

import numpy as np
import pytest

import attnviz
from attnviz.masks import GROUPS, Causal, Full, parse
from attnviz.notebook.link_viewers import NoViewerError
from attnviz.notebook.page_viewer import PageViewer
from attnviz.notebook.recorded_text import RecordedText
from attnviz.notebook.viewer import Viewer
from tests.ui.test_chart import unpacked

TOY = "source=Toy&text=a+b+c+d+e"


def data(viewer: Any) -> dict[str, Any]:
    [text] = re.findall(r'data-attnviz-data="[^"]*">(.*?)</script>', viewer.file_html(), re.S)
    return json.loads(text)


def maps(shown: dict[str, Any]) -> dict[str, list[np.ndarray]]:
    """The maps of each layer and head that a page holds."""
    found = {}
    for stream in shown["streams"]:
        heads, arrays = unpacked(gzip.decompress(b64decode(stream["charts"])))
        for name, charts in heads.items():
            found[name] = [arrays[chart["figure"]["data"][0]["z"]["array"]] for chart in charts]
    return found


def test_a_link_to_explore_has_its_mask_in_all_heads_and_its_query() -> None:
    viewer = attnviz.viewer(f"https://example.org/explore?{TOY}&mask=Causal&head=Head+1&pinned=2+%C2%B7+c")
    assert isinstance(viewer, Viewer)
    assert (viewer.layer, viewer.head, viewer.query) == (0, 1, 2)
    [layer] = viewer.pictures.layers
    assert layer.known_mechanism.mask == Causal()
    for head, weights in enumerate(layer.maps().numpy()):
        np.testing.assert_allclose(maps(data(viewer))[f"0 {head}"][0], weights, rtol=1e-3)


def test_hidden_special_tokens_do_not_move_the_pinned_query() -> None:
    viewer = attnviz.viewer("/explore?special-tokens=Hidden&pinned=10+%C2%B7+it")
    assert isinstance(viewer, Viewer)
    assert viewer.query is not None
    assert viewer.pictures.layers[0].inputs.query_tokens[viewer.query] == "it"


def test_masks_are_a_softmax_over_the_keys_that_they_allow() -> None:
    viewer = attnviz.viewer(f"/masks?{TOY}&mask-a=full&mask-b=q+-+k+%3C+3+%26+causal&head=Head+1")
    shown = data(viewer)
    names = [one["name"] for one in shown["layers"]]
    catalogue = {str(kind()) for name, group in GROUPS.items() for kind in group if name != "Vision"}
    assert parse(names[0]) == parse("q - k < 3 & causal")
    assert set(names[1:]) <= catalogue - {"full"}
    assert len(names) == len({*names}) > 10
    full = attnviz.view(f"/explore?{TOY}&head=Head+1").panels[0].weights
    held = maps(shown)
    for i, name in enumerate(names):
        allowed = parse(name).matrix(5, 5, head=1).numpy()
        kept = np.where(allowed, full, 0)
        sums = kept.sum(1, keepdims=True)
        expected = np.where(allowed, kept / np.where(sums, sums, 1), np.nan)
        before, after, *_ = held[f"{i} 1"]
        np.testing.assert_allclose(before, full, atol=1e-3)
        np.testing.assert_allclose(after, expected, atol=1e-3, err_msg=name)
        assert shown["layers"][i]["mask"]["sentence"] == f"A: {Full().describe()} B: {parse(name).describe()}"


def test_a_link_to_why_opens_its_trail() -> None:
    link = "/why?why-model=attnviz%2Ftranslator-en-fr&text=the+cat+sleeps+."
    start = attnviz.viewer(link)
    assert isinstance(start, PageViewer)
    [trail, *_] = re.findall(r"trail=(value\.[\d.]+)", " ".join(start._nodes(start.link).links))
    viewer = attnviz.view(f"{link}&trail={trail}")
    assert isinstance(viewer, PageViewer)
    assert trail in viewer.link
    assert viewer.quantities["total"] != start.quantities["total"]
    assert viewer.panels


def test_a_link_to_write_has_the_text_and_the_rows_of_its_words() -> None:
    viewer = attnviz.viewer(
        "/write?writer=attnviz%2Ftranslator-en-fr&prompt=the+cat+sleeps+.&layer=decoder+1&head=Head+1"
    )
    assert isinstance(viewer, RecordedText)
    shown = data(viewer)
    written = shown["written"]
    assert "".join(written["tokens"]) == "".join(viewer.text.parts)
    assert len(written["tokens"]) == written["prompt"] + len(written["steps"])
    assert [step["id"] for step in written["steps"]] == [step.token_id for step in viewer.text.steps]
    read = written["prompt"] - written["queryOffset"]
    for i, one in enumerate(shown["layers"]):
        weights = maps(shown)[f"{i} 0"][0]
        assert len(weights) == read - 1 + len(written["steps"])  # a row for each word, and those read before
        keys = written["tokens"][written["keyOffsets"][i] :][: one["keys"]]
        assert len(keys) == weights.shape[1]
        assert (written["keyOffsets"][i] == 0) == one["name"].endswith("cross")


@pytest.mark.parametrize(
    ("link", "error", "message"),
    [
        ("/path", NoViewerError, "“path” has no viewer; expected a link to one of explore, masks, write"),
        (f"/explore?{TOY}&head=Mean+of+heads", NoViewerError, "has the mean of several"),
        ("/lessons", ValueError, "not the address of a page"),
        ("/explore?source=Upload", ValueError, "Upload vectors"),
    ],
)
def test_a_link_without_a_viewer_is_refused_in_a_sentence(link: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attnviz.viewer(link)


def test_values_that_are_not_taken_are_named() -> None:
    with pytest.warns(UserWarning, match="head = “Head 99” is not accepted"):
        attnviz.viewer(f"/explore?{TOY}&head=Head+99")


def test_a_written_text_is_a_page_and_is_played_by_its_viewer(saved) -> None:
    link = f"/write?writer={saved / 'llama'}&prompt=the+cat+sat&length=3"
    page = attnviz.view(link)
    assert isinstance(page, PageViewer)
    assert "attnviz-colored" in page.to_html()
    assert page.quantities["sum of weights"] == pytest.approx(1, abs=1e-5)
    assert isinstance(attnviz.viewer(link), RecordedText)
