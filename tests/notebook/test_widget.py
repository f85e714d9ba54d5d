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


def test_the_browser_gets_the_maps_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    content, [bytes_] = answers(attnviz.show(WEIGHTS), monkeypatch, {"maps": [1, 2, None]})
    assert content == {"answer": "1"}
    _, [z] = unpacked(bytes_)
    np.testing.assert_array_equal(z, WEIGHTS[1, 2])
    _, [bytes_] = answers(attnviz.show(WEIGHTS), monkeypatch, {"mosaic": 0})
    assert len(unpacked(bytes_)[0]["places"]) == 6


def test_a_mistake_is_answered_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    content, buffers = answers(attnviz.show(WEIGHTS), monkeypatch, {"maps": [7, 0, None]})
    assert content["error"].startswith("This cannot be shown.")
    assert buffers == []


def test_two_sources_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = Inputs(*torch.randn(3, 2, 5, 8), tuple("abcde"), tuple("abcde"))
    causal = attnviz.Layer(attnviz.show(inputs).pictures.layers[0].id, "self", inputs, Mechanism(mask=Causal()))
    widget = attnviz.show(inputs, causal, names=("full", "causal"))
    _, buffers = answers(widget, monkeypatch, {"maps": [0, 0, None]})
    assert [unpacked(one)[0]["title"] for one in buffers] == ["full", "causal", "causal − full"]
    alone = attnviz.show(inputs, Mechanism(mask=Causal()))
    assert torch.isnan(alone.pictures.layers[0].maps(0)[0][0, 1])


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
