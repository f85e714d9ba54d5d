"""A trace as the source of a page: short, long, and damaged."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from attnviz import Inputs, Layer, Mechanism, Trace
from attnviz.formatting import number
from attnviz.layer import Kind, LayerId
from attnviz.masks import Causal
from attnviz.trace.manifest import NAME as MANIFEST
from attnviz.ui import pinned_query, query_row
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


@pytest.fixture
def curve(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The curve that is drawn, with what a click on it does."""
    drawn: dict[str, Any] = {}

    def chart(picture: Any, key: str, **options: Any) -> None:
        drawn.update(picture=picture, click=options["on_click"])
        show(picture, key, **options)

    show = query_row.chart
    monkeypatch.setattr(query_row, "chart", chart)
    return drawn


def test_the_pinned_query_of_a_long_map_is_a_curve_over_all_keys(root: Path, curve: dict[str, Any]) -> None:
    link = {"source": "Trace", "trace": "long", "pinned": "700 · t700"}
    app = healthy(open_page("explore", **link, scale="Linear"), charts=3)
    assert not errors(app)
    [layer] = Trace.load(root / "long")
    row = layer.mechanism(layer.inputs, heads=0, rows=slice(700, 701)).weights[0, 0]
    best = int(row.argmax())
    line, ring = curve["picture"].figure.data
    assert len(line.x) == 1000
    assert (ring.x[0], ring.y[0]) == (best, pytest.approx(float(row.max()), abs=1e-5))
    assert np.isfinite(line.y[np.asarray(line.x) <= 700]).all()
    assert np.isnan(line.y[np.asarray(line.x) > 701]).all()
    sentences = curve["picture"].spec.sentences
    assert f"t700 (700) gives {number(float(row.max()))} of its attention to t{best} ({best})." in sentences
    assert sentences[-1].startswith("t700 (700) may not look at t149")
    around = " ".join(f"t{i}" for i in range(692, 700))
    assert f"… {around} <mark>t700</mark> t701" in contents(app)
    assert f"<mark>t{best}</mark>" in contents(app)
    app = healthy(app.slider[1].set_value((100, 300)).run())
    [shape] = curve["picture"].figure.layout.shapes
    assert (shape.x0, shape.x1) == (99.5, 300.5)
    assert len(curve["picture"].figure.data[0].x) == 1000
    healthy(open_page("explore", **link, scale="Square root"), charts=3)
    y = np.asarray(curve["picture"].figure.data[0].y)
    np.testing.assert_allclose(y, np.sqrt(np.asarray(line.y) / ring.y[0]), atol=1e-3)


def test_a_click_on_the_curve_moves_the_viewport(curve: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    open_page("explore", source="Trace", trace="long", pinned="700 · t700")
    state: dict[str, Any] = {}
    monkeypatch.setattr("streamlit.session_state", state)
    curve["click"](0, 0)
    assert state == {"part-of-queries": (444, 955), "part-of-keys": (0, 511)}
    curve["click"](999, 0)
    assert state["part-of-keys"] == (988, 1499)


def test_the_text_around_a_token_is_text() -> None:
    text = query_row.text_around("It", ["<b>", "<i>x</i>", "&"], 1)
    assert "&lt;b&gt; <mark>&lt;i&gt;x&lt;/i&gt;</mark> &amp;" in text


def test_a_short_map_has_no_curve(curve: dict[str, Any]) -> None:
    healthy(open_page("explore", source="Trace", trace="short"), charts=2)
    assert not curve


def place_of(app: AppTest) -> tuple[object, ...]:
    [pinned] = [one.value for one in app.selectbox if one.label == "Pinned query"]
    return (*(one.value for one in app.slider), pinned)


def test_the_search_goes_from_match_to_match(root: Path) -> None:
    app = healthy(open_page("explore", source="Trace", trace="long"), charts=3)
    app = healthy(app.text_input(key="find").set_value("T70 t71").run(), charts=3)
    assert place_of(app) == ((0, 511), (0, 511), "70 · t70")
    assert "Match 1 of 1" in contents(app)
    app = healthy(app.text_input(key="find").set_value("t70").run(), charts=3)
    assert "Match 1 of 11" in contents(app)
    for position in (700, 701):
        app = healthy(app.button(key="find-next").click().run(), charts=3)
        assert place_of(app) == (*[(position - 256, position + 255)] * 2, f"{position} · t{position}")
    assert "Match 3 of 11" in contents(app)
    assert "<mark>t701</mark>" in contents(app)
    app = healthy(app.text_input(key="find").set_value("no such *word*").run(), charts=3)
    assert "“no such *word*” is not in this text." in contents(app)
    assert place_of(app)[2] == "701 · t701"


def test_the_search_of_two_texts_moves_the_one_that_has_the_match(root: Path) -> None:
    queries, keys = tuple(f"q{i}" for i in range(1_200)), tuple(f"k{i}" for i in range(1_300))
    inputs = Inputs(torch.randn(1, 1_200, 8), *torch.randn(2, 1, 1_300, 8), queries, keys)
    Trace((Layer(LayerId("decoder", 0, cross=True), Kind.CROSS, inputs, Mechanism()),)).save(root / "cross")
    app = healthy(open_page("explore", source="Trace", trace="cross"), charts=3)
    app = healthy(app.text_input(key="find").set_value("k1299").run(), charts=3)
    assert place_of(app) == ((0, 1199), (788, 1299), "600 · q600")
    app = healthy(app.text_input(key="find").set_value("q5").run(), charts=3)
    assert place_of(app) == ((0, 511), (788, 1299), "5 · q5")


def test_the_link_brings_a_search_back(root: Path) -> None:
    link = {"find": "t9", "pinned": "900 · t900", "part_of_queries": ["644", "1155"]}
    app = healthy(open_page("explore", source="Trace", trace="long", **link), charts=3)
    assert place_of(app) == ((644, 1155), (0, 1499), "900 · t900")
    assert "111 matches" in contents(app)
    app = open_page("explore", source="Trace", trace="short", find="t9")
    assert not [one for one in app.text_input if one.key == "find"]


def bookmarked(app: AppTest) -> str:
    return app.text_input(key="bookmarks").value


def test_bookmarks_are_kept_opened_and_removed(root: Path) -> None:
    app = healthy(open_page("explore", source="Trace", trace="long", pinned="900 · t900"), charts=3)
    app = healthy(app.slider[0].set_value((800, 999)).run(), charts=3)
    app.text_input(key="bookmark-name").set_value("*the*~needle")
    app = healthy(app.button(key="bookmark-add").click().run(), charts=3)
    assert bookmarked(app) == "800-999.0-1499.900.*the* needle"
    app = healthy(app.slider[0].set_value((3, 4)).run(), charts=3)
    app = healthy(app.button(key="bookmark-add").click().run(), charts=3)
    assert bookmarked(app) == "800-999.0-1499.900.*the* needle~3-4.0-1499.900.3–4"
    app = healthy(app.button(key="bookmark-0").click().run(), charts=3)
    assert place_of(app) == ((800, 999), (0, 1499), "900 · t900")
    app = healthy(app.button(key="bookmark-0-remove").click().run(), charts=3)
    assert bookmarked(app) == "3-4.0-1499.900.3–4"


def test_the_link_brings_bookmarks_back_as_many_as_it_holds(root: Path) -> None:
    marks = "~".join(f"{i}-{i + 9}.{i}-{2000 if i == 7 else i + 9}..mark {i}" for i in range(8))
    app = healthy(open_page("explore", source="Trace", trace="long", bookmarks=marks), charts=3)
    assert bookmarked(app) == marks
    assert [app.button(key=f"bookmark-{i}").disabled for i in range(8)] == [False] * 7 + [True]  # beyond this text
    assert app.button(key="bookmark-add").disabled
    app = healthy(app.button(key="bookmark-3").click().run(), charts=3)
    assert place_of(app)[:2] == ((3, 12), (3, 12))
    assert not app.toast


def test_a_link_with_other_bookmarks_is_refused_in_a_sentence(root: Path) -> None:
    app = healthy(open_page("explore", source="Trace", trace="long", bookmarks="nonsense"), charts=3)
    [toast] = app.toast
    assert "The link asks for bookmarks" in toast.value
    assert not [one for one in app.button if one.key == "bookmark-0"]
    app = healthy(app.button(key="bookmark-add").click().run(), charts=3)
    assert bookmarked(app) == "0-1499.0-1499.750.0–1499"
    assert not app.toast


def test_the_menu_of_many_queries_has_those_around_the_pinned_one(root: Path) -> None:
    def menu(app: AppTest) -> Selectbox:
        [one] = [one for one in app.selectbox if one.key == pinned_query.KEY]
        assert len(one.options) <= pinned_query.MOST_NAMES + 2
        return one

    app = healthy(open_page("explore", source="Trace", trace="long", pinned="1400 · t1400"), charts=3)
    assert menu(app).value == "1400 · t1400"
    assert "0 · t0" not in menu(app).options
    app = healthy(menu(app).select("901 · t901").run(), charts=3)
    assert menu(app).value == "901 · t901"
    app = healthy(app.run(), charts=3)
    assert menu(app).value == "901 · t901"
    assert app.query_params[pinned_query.KEY] == "901 · t901"
    app = healthy(menu(app).select(pinned_query.NO_QUERY).run(), charts=2)
    assert menu(app).value == pinned_query.NO_QUERY
    app = healthy(open_page("explore", source="Trace", trace="long", pinned="1600 · t1600"), charts=3)
    assert menu(app).value == "750 · t750"
