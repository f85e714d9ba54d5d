"""A trace as the source of a page: short, long, and damaged."""

import os
import re
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from attnviz import Inputs, Layer, Mechanism, Trace
from attnviz.layer import Kind, LayerId
from attnviz.masks import Causal, Padding
from attnviz.page.head_state import MOST_NAMES, NO_QUERY
from attnviz.trace.manifest import NAME as MANIFEST
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


def without_picture(app: AppTest) -> AppTest:
    assert not app.exception
    assert not app.get("bidi_component")
    return app


@pytest.mark.parametrize("name", ["short", "long"])
def test_its_layers_are_drawn(name: str, root: Path) -> None:
    app = healthy(open_page("explore", source="Trace", trace=name), charts=1)
    assert not errors(app)
    assert f"Something of {name} is missing." in contents(app)
    [layer] = [one for one in app.selectbox if one.label == "Layer"]
    assert layer.options == ["decoder 4"]
    assert ("Queries" in [one.label for one in app.slider]) == (name == "long")


def test_without_a_name_it_asks_for_one(root: Path) -> None:
    app = without_picture(open_page("explore", source="Trace"))
    assert "Name a trace to see its attention. Here are “long” and “short”." in contents(app)


def test_a_page_without_long_maps_says_so(root: Path) -> None:
    app = open_page("scores", source="Trace", trace="long")
    assert "This text is too long for this page. Open it on Explore" in errors(app)
    assert not app.exception


def test_masks_are_compared_on_a_long_text(root: Path) -> None:
    link = {"source": "Trace", "trace": "long", "mask_a": "causal"}
    assert not errors(healthy(open_page("masks", **link), charts=3))
    for part in ("Mass kept", "Cost", "Conventions", "Code"):
        app = healthy(open_page("masks", **link, look="For engineers", part=part))
        assert not errors(app)
        assert "Stacked layers" not in app.selectbox(key="part").options


def test_mass_kept_of_a_long_text_is_of_queries_that_are_evenly_spread(root: Path) -> None:
    link = {"source": "Trace", "trace": "long", "mask_a": "causal", "look": "For engineers", "part": "Mass kept"}
    app = healthy(open_page("masks", **link, mask_b="sliding_window(1500)"), charts=1)
    assert "keeps 100% of its attention under B, on average over 512 of its 1,500 queries" in contents(app)
    assert "No query loses anything." in contents(app)
    app = healthy(open_page("masks", **link, mask_b="sliding_window(5)"), charts=1)
    assert "mass lost" in contents(app)
    assert " as B</a>" in contents(app)


def test_a_number_that_is_not_finite_is_said_and_nothing_else_is_shown(root: Path) -> None:
    file = root / "short" / FILE
    content = bytearray(file.read_bytes())
    content[-4:] = torch.tensor(torch.nan).numpy().tobytes()
    file.write_bytes(content)
    app = open_page("explore")
    [source] = [one for one in app.selectbox if one.label == "Source"]
    app = source.select("Trace").run()
    [name] = [one for one in app.text_input if one.label == "Trace"]
    app = without_picture(name.set_value("short").run())
    assert f"{FILE} holds a value that is not finite" in errors(app)


def test_a_damaged_trace_is_said_and_only_its_own_last_picture_stays(root: Path) -> None:
    app = healthy(open_page("explore", source="Trace", trace="short"), charts=1)
    content = (root / "short" / FILE).read_bytes()
    (root / "short" / FILE).write_bytes(b"nothing")
    os.utime(root / "short" / MANIFEST)  # written again
    app = healthy(app.run(), charts=1)
    assert f"{FILE} cannot be opened" in errors(app)
    assert "The figure below is the last one that could be made." in errors(app)
    [name] = [one for one in app.text_input if one.label == "Trace"]
    for other in ("nowhere", ""):
        app = without_picture(name.set_value(other).run())
        assert "The figure below" not in contents(app)
    (root / "short" / FILE).write_bytes(content)


def place_of(app: AppTest) -> tuple[object, ...]:
    [pinned] = [one.value for one in app.selectbox if one.label == "Pinned query"]
    return (*(one.value for one in app.slider), pinned)


def test_the_link_brings_a_search_back(root: Path) -> None:
    link = {"find": "t9", "pinned": "900 · t900", "part_of_queries": ["644", "1155"]}
    app = healthy(open_page("explore", source="Trace", trace="long", **link), charts=3)
    assert place_of(app) == ((644, 1155), (0, 1499), "900 · t900")
    assert "Match 12 of 111" in contents(app)
    app = healthy(app.text_input(key="find").set_value("no such *word*").run(), charts=3)
    assert "“no such *word*” is not in this text." in contents(app)
    assert place_of(app)[2] == "900 · t900"
    app = open_page("explore", source="Trace", trace="short", find="t9")
    assert not [one for one in app.text_input if one.key == "find"]


def test_the_menu_of_many_queries_has_those_around_the_pinned_one(root: Path) -> None:
    def menu(app: AppTest) -> Selectbox:
        [one] = [one for one in app.selectbox if one.key == "pinned"]
        assert len(one.options) <= MOST_NAMES + 2
        return one

    app = healthy(open_page("explore", source="Trace", trace="long", pinned="1400 · t1400"), charts=3)
    assert menu(app).value == "1400 · t1400"
    assert "0 · t0" not in menu(app).options
    app = healthy(menu(app).select("901 · t901").run(), charts=3)
    assert menu(app).value == "901 · t901"
    app = healthy(app.run(), charts=3)
    assert menu(app).value == "901 · t901"
    assert app.query_params["pinned"] == "901 · t901"
    app = healthy(menu(app).select(NO_QUERY).run(), charts=2)
    assert menu(app).value == NO_QUERY
    app = healthy(open_page("explore", source="Trace", trace="long", pinned="1600 · t1600"), charts=3)
    assert menu(app).value == "750 · t750"


def test_a_mask_that_no_menu_has_stays_until_another_one_is_chosen(root: Path) -> None:
    tokens = tuple("abcde")
    inputs, mask = Inputs(*torch.randn(3, 1, 5, 4), tokens, tokens), Causal() & Padding(3)
    Trace((Layer(LayerId("decoder", 0), Kind.CAUSAL, inputs, Mechanism(mask=mask)),)).save(root / "padded")
    app = healthy(open_page("explore", source="Trace", trace="padded", pinned="4 · e"), charts=2)
    [menu] = [one for one in app.selectbox if one.label == "Mask"]
    assert menu.value == "As in the model"
    assert len(re.findall("<bdi>[abcde]</bdi>", contents(app))) == 3
    app = healthy(menu.select("Causal").run(), charts=2)
    assert len(re.findall("<bdi>[abcde]</bdi>", contents(app))) == 5


def test_masks_have_a_menu_of_more_queries_than_it_holds(root: Path) -> None:
    tokens = tuple(f"t{i}" for i in range(1_020))
    inputs = Inputs(*torch.randn(3, 1, 1_020, 4), tokens, tokens)
    Trace((Layer(LayerId("decoder", 4), Kind.CAUSAL, inputs, Mechanism(mask=Causal())),)).save(root / "wide")
    app = healthy(open_page("masks", source="Trace", trace="wide", pinned="1010 · t1010"), charts=3)
    assert not errors(app)
    [menu] = [one for one in app.selectbox if one.key == "pinned"]
    assert menu.value == "1010 · t1010"
    assert len(menu.options) <= MOST_NAMES + 2
    app = healthy(menu.select("512 · t512").run(), charts=3)
    assert [one.value for one in app.selectbox if one.key == "pinned"] == ["512 · t512"]
