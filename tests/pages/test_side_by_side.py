"""The page Side by side without a browser: its widgets, and what is refused on the right."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from streamlit.testing.v1 import AppTest

from attnviz.base.text import EXAMPLE
from attnviz.models import TRANSLATOR, model_cache
from attnviz.models.hub import MINILM, SMOLLM2
from attnviz.pages.side_by_side.state import TWINS
from tests.support.app import contents, errors, healthy, linked, ok, open_page
from tests.support.array_files import npz
from tests.support.tiny_models import png

page = partial(open_page, "side_by_side")
ON_THE_RIGHT = ("right-layer", "right-head")


def cells(chart) -> np.ndarray:
    return np.array(chart.figure.data[0].z, dtype=float)


def keys(app: AppTest) -> set[str]:
    return {one.key for one in (*app.selectbox, *app.text_input, *app.file_uploader)}


@pytest.mark.usefixtures("isolated")
def test_it_opens_with_a_twin_of_the_example() -> None:
    app = healthy(ok(page()), charts=3)
    assert (app.text_input(key="text").value, app.text_input(key="right-text").value) == (EXAMPLE, TWINS[EXAMPLE])
    assert app.selectbox(key="right-model").value == "As on the left"
    assert [app.selectbox(key=key).value for key in ON_THE_RIGHT] == ["As on the left"] * 2
    assert app.selectbox(key="right-model").options == ["As on the left", MINILM, SMOLLM2, TRANSLATOR]


def test_the_right_follows_the_left_until_it_is_typed() -> None:
    app = ok(page())
    app = ok(app.text_input(key="text").set_value("one two three").run())
    assert app.text_input(key="right-text").value == "one two three"
    assert "Both maps have the same weights." in contents(app)
    app = ok(app.text_input(key="right-text").set_value("one two four").run())
    app = ok(app.text_input(key="text").set_value("one two five").run())
    assert app.text_input(key="right-text").value == "one two four"
    assert len(app.get("bidi_component")) == 3


def test_a_layer_and_a_head_of_its_own(drawn: dict) -> None:
    app = ok(page())
    app.selectbox(key="right-layer").select("encoder 5").run()
    app.selectbox(key="right-head").select("Head 2").run()
    ok(app)
    assert "encoder 5, head 2" in drawn["right-map"].about.name


def test_another_model_on_the_right_reads_its_own_example() -> None:
    app = ok(page())
    app = ok(app.selectbox(key="right-model").select(TRANSLATOR).run())
    assert "The small red car is beautiful." in app.text_input(key="right-text").value
    app = ok(app.selectbox(key="right-model").select("As on the left").run())
    assert app.text_input(key="right-text").value == TWINS[EXAMPLE]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("right-text", " ", "There is no text yet."), ("right-model", "/nowhere", "There is no folder or file")],
)
def test_what_is_refused_on_the_right_keeps_the_last_maps(
    key: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_cache, "available_models", lambda *_: [MINILM, "/nowhere"])
    app = ok(page())
    box = app.selectbox(key=key) if key == "right-model" else app.text_input(key=key)
    app = healthy(box.set_value(value).run(), charts=3)
    assert len(app.error) == 1
    assert words in errors(app)
    assert "The figure below is the last one that could be made." in errors(app)
    assert app.session_state[key] == value
    box = app.selectbox(key=key) if key == "right-model" else app.text_input(key=key)
    ok(box.set_value("As on the left" if key == "right-model" else EXAMPLE).run())


def test_a_bad_link_can_be_mended() -> None:
    app = page(right_text=" ")
    assert len(app.error) == 1
    assert not app.exception
    healthy(ok(app.text_input(key="right-text").set_value("The animal slept.").run()), charts=2)


@pytest.mark.parametrize("name", ["right-model", "right-text", "right-layer", "right-head", "pinned"])
def test_a_link_with_nonsense_opens(name: str) -> None:
    healthy(page(**{name: "<b>"}))


def test_of_a_file_two_heads_are_compared(drawn: dict) -> None:
    app = page(source="Upload")
    app.file_uploader[0].upload("heads.npz", npz(vectors=np.random.default_rng(0).normal(size=(2, 4, 3))))
    app = healthy(ok(app.run()), charts=3)
    assert not {"right-text", "right-model"} & keys(app)
    app.selectbox(key="right-head").select("Head 1").run()
    ok(app)
    assert "layer 0, head 1" in drawn["right-map"].about.name


def test_two_pictures(saved: Path, isolated: None, drawn: dict) -> None:
    app = ok(page(model=saved / "vit", head="Head 2"))
    assert "right-text" not in {one.key for one in app.main.text_input if one.key != "text"}
    assert [box.label for box in app.file_uploader] == ["Image", "Image on the right"]
    app.file_uploader[0].upload("red.png", png((40, 40)))
    app = ok(app.run())
    np.testing.assert_array_equal(cells(drawn["left-map"]), cells(drawn["right-map"]))  # it is on both sides
    app.file_uploader[1].upload("blue.png", png((40, 40), color="blue"))
    app = ok(app.run())
    own = hf.AutoModel.from_pretrained(saved / "vit", attn_implementation="eager").eval()
    for name, color in (("left-map", [1.0, -1.0, -1.0]), ("right-map", [-1.0, -1.0, 1.0])):
        pixels = torch.tensor(color)[None, :, None, None].expand(1, 3, 32, 32)
        with torch.no_grad():
            expected = own(pixel_values=pixels, output_attentions=True).attentions[0][0, 2]
        np.testing.assert_allclose(cells(drawn[name]), expected, atol=1e-5)
    assert linked(app, "right-picture") == []
