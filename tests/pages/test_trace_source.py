"""A trace as the source of a page: short, long, and damaged."""

from pathlib import Path

import pytest
import torch

from attnviz import Inputs, Layer, Mechanism, Trace
from attnviz.layer import Kind, LayerId
from attnviz.masks import Causal
from tests.support.app import contents, errors, healthy, open_page

FILE = "layer-0000.safetensors"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, count in (("short", 6), ("long", 1_500)):
        tokens = tuple(f"t{i}" for i in range(count))
        inputs = Inputs(*torch.randn(3, 2, count, 8), tokens, tokens)
        layer = Layer(LayerId("decoder", 4), Kind.CAUSAL, inputs, Mechanism(mask=Causal()))
        Trace((layer,), (f"Something of {name} is missing.",)).save(tmp_path / name)
    monkeypatch.setenv("ATTNVIZ_TRACES", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["short", "long"])
def test_its_layers_are_drawn(name: str, root: Path) -> None:
    app = healthy(open_page("explore", source="Trace", trace=name), charts=1)
    assert not errors(app)
    assert f"Something of {name} is missing." in contents(app)
    [layer] = [one for one in app.selectbox if one.label == "Layer"]
    assert layer.options == ["decoder 4"]
    assert ("Queries" in [one.label for one in app.slider]) == (name == "long")


def test_without_a_name_it_asks_for_one(root: Path) -> None:
    app = healthy(open_page("explore", source="Trace"), charts=1)
    assert "Name a trace to see its attention. Here are “long” and “short”." in contents(app)


def test_a_page_without_long_maps_says_so(root: Path) -> None:
    app = open_page("scores", source="Trace", trace="long")
    assert "This text is too long for this page. Open it on Explore" in errors(app)
    assert not app.exception


@pytest.mark.parametrize("tab", ["Mass kept", "Cost", "Conventions", "Code", "Gallery"])
def test_masks_are_compared_on_a_long_text(tab: str, root: Path) -> None:
    app = healthy(open_page("masks", source="Trace", trace="long", mask_a="causal", look=tab), charts=2)
    assert not errors(app)
    assert "Where it went" not in [one.label for one in app.tabs]


def test_mass_kept_of_a_long_text_is_of_queries_that_are_evenly_spread(root: Path) -> None:
    link = {"source": "Trace", "trace": "long", "mask_a": "causal", "look": "Mass kept"}
    app = healthy(open_page("masks", **link, mask_b="sliding_window(1500)"), charts=3)
    assert "keeps 100% of its attention under B, on average over 512 of its 1,500 queries" in contents(app)
    assert "No query loses anything." in contents(app)
    app = healthy(open_page("masks", **link, mask_b="sliding_window(5)"), charts=3)
    assert "mass lost" in contents(app)
    app.button(key="take-0").click().run()
    assert app.text_input(key="mask-b").value != "sliding_window(5)"
    assert not errors(app)


def test_a_number_that_is_not_finite_is_said_and_the_last_picture_stays(root: Path) -> None:
    file = root / "short" / FILE
    content = bytearray(file.read_bytes())
    content[-4:] = torch.tensor(torch.nan).numpy().tobytes()
    file.write_bytes(content)
    app = open_page("explore")
    [source] = [one for one in app.selectbox if one.label == "Source"]
    app = source.select("Trace").run()
    [name] = [one for one in app.text_input if one.label == "Trace"]
    app = healthy(name.set_value("short").run(), charts=1)
    assert f"{FILE} holds a value that is not finite" in errors(app)


def test_a_damaged_trace_is_said_and_the_last_picture_stays(root: Path) -> None:
    (root / "short" / FILE).write_bytes(b"nothing")
    app = healthy(open_page("explore", source="Trace", trace="short"), charts=1)
    assert f"{FILE} cannot be opened" in errors(app)
