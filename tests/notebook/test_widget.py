"""The widget: its state, and its answers to the browser."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import anywidget._util
import IPython.display
import numpy as np
import pytest
import torch
import traitlets

import attnviz
from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.notebook import Viewer
from attnviz.notebook.widget import AttentionWidget
from tests.ui.test_chart import unpacked

WEIGHTS = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)


def answers(widget: AttentionWidget, monkeypatch: pytest.MonkeyPatch, request: dict[str, Any]) -> tuple[dict, list]:
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: sent.append((content, buffers)))
    widget._answer(None, {"request": "1"} | request, [])
    [(content, buffers)] = sent
    return content, buffers


def test_layer_head_and_query_are_traits() -> None:
    widget = attnviz.show(WEIGHTS, layer=1)
    assert isinstance(widget, AttentionWidget)
    assert isinstance(widget, Viewer)
    seen: list[int] = []
    widget.observe(lambda change: seen.append(change["new"]), "head")
    widget.head, widget.query = 2, 5
    assert (widget.layer, widget.head, widget.query, seen) == (1, 2, 5, [2])


@pytest.mark.parametrize(("name", "value"), [("layer", 2), ("layer", -1), ("head", 3), ("query", 6)])
def test_what_is_not_there_cannot_be_chosen(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"There is no {name} {value}"):
        attnviz.show(WEIGHTS, **{name: value})
    widget = attnviz.show(WEIGHTS)
    with pytest.raises(traitlets.TraitError, match=f"There is no {name} {value}"):
        setattr(widget, name, value)


def test_a_link_and_what_is_chosen_are_one() -> None:
    widget = attnviz.show(WEIGHTS, layer=1)
    assert widget.link == "layer=layer+1"
    widget.head = 2
    assert widget.link == "layer=layer+1&head=Head+2"
    widget.link = "head=Head+1"
    assert (widget.layer, widget.head) == (0, 1)


def test_a_query_is_no_longer_pinned_where_a_layer_has_others() -> None:
    other = attnviz.show(WEIGHTS[:, :, :4]).layers
    widget = attnviz.show([*attnviz.show(WEIGHTS).layers, *other], query=5)
    widget.link = "layer=layer+1+·+1"
    assert (widget.layer, widget.query) == (1, 5)
    widget.link = "layer=layer+1+·+3"
    assert (widget.layer, widget.query) == (3, None)


def test_the_browser_gets_the_maps_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    content, [bytes_] = answers(attnviz.show(WEIGHTS), monkeypatch, {"page": "layer=layer+1&head=Head+2"})
    assert content == {"answer": "1"}
    header, arrays = unpacked(bytes_)
    charts = {
        name.split()[0]: arrays[chart["figure"]["data"][0]["z"]["array"]] for name, chart in header["charts"].items()
    }
    np.testing.assert_array_equal(charts["heatmap"], WEIGHTS[1, 2])
    assert len(header["nodes"][1]["columns"][0]["nodes"][0]["opens"]) == 6


def test_a_mistake_is_answered_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    content, buffers = answers(attnviz.show(WEIGHTS), monkeypatch, {"figure": ["", "no figure", "click", [0, 0]]})
    assert content["error"].startswith("This cannot be shown.")
    assert buffers == []


def test_two_sources_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Inputs(*torch.randn(3, 2, 5, 8), tuple("abcde"), tuple("abcde"))
    causal = attnviz.Layer(attnviz.show(inputs).layers[0].id, "self", inputs, Mechanism(mask=Causal()))
    widget = attnviz.show(inputs, causal, names=("full", "causal"))
    _, [bytes_] = answers(widget, monkeypatch, {"page": ""})
    titles = [chart["title"] for chart in unpacked(bytes_)[0]["charts"].values()]
    assert titles == ["", "full", "causal", "causal − full"]
    alone = attnviz.show(inputs, Mechanism(mask=Causal()))
    assert torch.isnan(alone.layers[0].maps(0)[0][0, 1])


def test_a_mechanism_needs_inputs() -> None:
    with pytest.raises(ValueError, match=r"attnviz\.Inputs"):
        attnviz.show(WEIGHTS, Mechanism())


def test_colab_loads_the_widget_and_each_output_has_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    output = SimpleNamespace(_widgets=SimpleNamespace(_installed_url=None))
    output.enable_custom_widget_manager = lambda: setattr(output._widgets, "_installed_url", "https://manager")
    monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    anywidget._util.enable_custom_widget_manager_once.cache_clear()
    shown: list[tuple[Any, Any]] = []
    monkeypatch.setattr(IPython.display, "display", lambda data, metadata=None, **_: shown.append((data, metadata)))
    for _time in range(2):
        attnviz.show(WEIGHTS)._ipython_display_()
        (_widget, metadata), (html, _none) = shown[-2:]
        view = metadata["application/vnd.jupyter.widget-view+json"]
        assert view["colab"] == {"custom_widget_manager": {"url": "https://manager"}}
        assert "data-attnviz-library" in html.data
