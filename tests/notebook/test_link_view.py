"""Pages of links: what they show, and what their files hold."""

import json
import re
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest

import attnviz
from attnviz.masks import GROUPS, parse
from attnviz.notebook.page_viewer import PageViewer
from tests.notebook.test_page_viewer import content, held_states, nodes, unbundled

TOY = "source=Toy&text=a+b+c"


def test_a_link_to_explore_has_its_mask_and_its_query() -> None:
    page = attnviz.view(f"https://example.org/explore?{TOY}&mask=Causal&head=Head+1&pinned=2+%C2%B7+c")
    [panel] = page.panels
    assert (panel.title, panel.row) == ("layer 0, head 1", 2)
    assert np.isnan(panel.weights[np.triu_indices(3, 1)]).all()
    assert page.quantities["sum of weights"] == pytest.approx(1, abs=1e-5)


def test_a_file_of_explore_has_each_head_with_each_query() -> None:
    page = attnviz.view(f"/explore?{TOY}&toy.heads=2")
    states = held_states(page.to_html())
    chosen = {link: parse_qs(link) for link in states}
    pinned = {(values.get("head", [""])[0], values.get("pinned", [""])[0]) for values in chosen.values()}
    assert len(pinned) == len(states)
    heads, queries = ({pair[i] for pair in pinned} for i in range(2))
    assert len({"Head 0", "Head 1", "Mean of heads", ""} & heads) == 3
    assert len(queries) == 4  # and none
    assert len(states) == len(heads) * len(queries)
    for shown in states.values():
        menus = nodes(shown["nodes"], "control")
        assert [menu["parameter"] for menu in menus] == ["layer", "head", "pinned"]
        assert {link for menu in menus for link in menu["opens"]} <= states.keys()


def test_a_file_of_masks_has_the_masks_of_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.FILE_STATES", 14)
    states = held_states(attnviz.view(f"/masks?{TOY}&mask-a=full&mask-b=q+-+k+%3C+3+%26+causal").to_html())
    masks = {parse_qs(link).get("mask-b", ["causal"])[0] for link in states}
    catalogue = {str(kind()) for name, group in GROUPS.items() for kind in group if name != "Vision"}
    assert len(masks & catalogue) > 10
    assert parse("q - k < 3 & causal") in map(parse, masks)


def test_a_link_to_why_opens_its_trail() -> None:
    link = "/why?why-model=attnviz%2Ftranslator-en-fr&text=the+cat+sleeps+."
    start = attnviz.view(link)
    [trail, *_] = re.findall(r"trail=(value\.[\d.]+)", " ".join(start._nodes(start.link).links))
    page = attnviz.view(f"{link}&trail={trail}")
    assert trail in page.link
    assert page.quantities["total"] != start.quantities["total"]
    assert page.panels


def test_a_written_text_is_played_and_its_words_pin_rows(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.MOST_STATES", 40)
    page = attnviz.view(f"/write?writer={saved / 'llama'}&prompt=the+cat+sat&length=3")
    shown = page._nodes(page.link, "menus")
    [written] = nodes(shown.nodes, "written")
    text = shown.charts[written["chart"]]
    assert len(text["tokens"]) == text["prompt"] + len(text["steps"])
    assert [*map(len, text["rows"])] == [text["prompt"] + 2] * 3
    *rows, none = written["opens"]
    assert len(rows) == text["prompt"] + 2
    assert none == page.link  # nothing is pinned at first
    pinned = page._nodes(rows[-1], "menus")
    [again] = nodes(pinned.nodes, "written")
    assert (again["chart"], again["pinned"]) == (written["chart"], len(rows) - 1)
    held = held_states(page.to_html())
    assert {*rows, none} <= held.keys()


def test_a_zoom_of_a_long_map_opens_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 8)
    page = attnviz.view(f"/explore?{TOY}+d+e+f")
    [figure] = [node for node in nodes(content(page, monkeypatch)["nodes"], "figure") if node["name"] == "heatmap"]
    sent: list[Any] = []
    monkeypatch.setattr(page, "send", lambda _content, buffers: sent.append(buffers[0].decode()))
    page._answer(None, {"request": "1", "figure": [page.link, figure["name"], "zoom", [0, 2, 1, 3]]}, [])
    page._answer(None, {"request": "2", "figure": [sent[0], figure["name"], "zoom", None]}, [])
    page._answer(None, {"request": "3", "figure": [page.link, figure["name"], "click", [5, 2]]}, [])
    assert parse_qs(sent[0])["part-of-queries"] == ["0", "2"]
    assert parse_qs(sent[0])["part-of-keys"] == ["1", "3"]
    assert "part-of" not in sent[1]
    assert parse_qs(sent[2])["pinned"] == ["5 · f"]


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("/path", "not the address of a page"),
        ("/lessons", "not the address of a page"),
        ("/explore?source=Upload", "Upload vectors"),
    ],
)
def test_a_link_that_shows_nothing_is_refused_in_a_sentence(link: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attnviz.view(link)


def test_values_that_are_not_taken_are_named() -> None:
    with pytest.warns(UserWarning, match="head = “Head 99” is not accepted"):
        attnviz.view(f"/explore?{TOY}&head=Head+99")


def test_states_share_what_is_drawn_alike() -> None:
    page = attnviz.view(f"/explore?{TOY}")
    assert isinstance(page, PageViewer)
    html = page.file_html()
    [text] = re.findall(r'data-attnviz-data="[^"]*">(.*?)</script>', html, re.S)
    assert len(unbundled(json.loads(text)["charts"])) < len(held_states(html))


def test_the_output_of_a_cell_has_the_rows_of_the_shown_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.CELL_STATES", 2)
    page = attnviz.view(f"/explore?{TOY}")
    [figure] = [node for node in nodes(page._nodes(page.link, "menus").nodes, "figure") if node["name"] == "heatmap"]
    assert {*figure["opens"]} <= held_states(page._html(1 << 20)).keys()
