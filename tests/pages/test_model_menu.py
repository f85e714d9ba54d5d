"""The menu of models on the pages that show a head of a source."""

import pytest

from attnviz.base.text import EXAMPLE
from attnviz.models import TRANSLATOR
from attnviz.models.hub import MINILM, SMOLLM2
from attnviz.models.smollm2 import smollm2
from attnviz.pages.explore.state import ExploreState
from attnviz.pages.masks.state import MasksState
from attnviz.sources import Model
from attnviz.sources.model import TRANSLATED
from tests.support.app import errors, linked, ok, open_page

pytestmark = pytest.mark.usefixtures("isolated")
PAGES = ("explore", "masks", "scores", "side_by_side")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_of_a_source_shows_any_model(page: str) -> None:
    app = ok(open_page(page))
    menu = app.selectbox(key="model")
    assert (menu.value, menu.options) == (MINILM, [MINILM, SMOLLM2, TRANSLATOR])
    assert not linked(app, "model")
    app = ok(menu.select(SMOLLM2).run())
    assert app.selectbox(key="layer").options == [layer.name for layer in smollm2().layers(EXAMPLE)]
    assert len(app.get("bidi_component")) >= 2


def test_a_link_opens_a_head_of_another_model_and_a_state_writes_it() -> None:
    link = (("model", SMOLLM2), ("layer", "layer 16"), ("head", "Head 2"))
    state = ExploreState.read(link)
    assert (state.source, state.layer, state.head) == (Model(name=SMOLLM2), 16, 2)
    assert state.link() == link
    app = ok(open_page("explore", **dict(link)))
    assert [app.selectbox(key=key).value for key in ("layer", "head")] == ["layer 16", "Head 2"]


@pytest.mark.parametrize("page", PAGES)
def test_a_model_that_cannot_be_loaded_is_refused_with_the_reason(page: str) -> None:
    app = open_page(page, model="/nowhere")
    assert "There is no folder or file “/nowhere” that can be opened." in errors(app)
    assert not app.get("bidi_component"), "the picture of another model"
    assert app.selectbox(key="model").value == "/nowhere"
    assert app.button(key="again")


@pytest.mark.parametrize(("page", "kept"), [("explore", ExploreState), ("masks", MasksState)])
def test_a_session_keeps_no_layers_of_a_model(page: str, kept: type) -> None:
    app = ok(open_page(page, model=SMOLLM2, text="one fox " * 20))
    assert app.get("bidi_component")
    assert type(app.session_state[f"last good {page}"][1]) is kept
    source, layers = app.session_state["last good layers"][1]
    assert (source.name, layers) == (SMOLLM2, ())


@pytest.mark.parametrize("page", ["explore", "masks", "scores", "write"])
def test_the_translator_opens_with_a_sentence_that_it_knows(page: str) -> None:
    menu = "writer" if page == "write" else "model"
    app = ok(open_page(page, **{menu: TRANSLATOR}))
    assert typed(app).value == TRANSLATED
    assert (app.selectbox(key="layer").value, app.selectbox(key="head").value) == ("decoder 0 cross", "Head 1")
    assert len(app.get("bidi_component")) >= 2


def test_an_example_follows_the_model_and_a_typed_text_does_not() -> None:
    app = ok(open_page("explore"))
    for name, text in ((TRANSLATOR, TRANSLATED), (MINILM, EXAMPLE), (TRANSLATOR, TRANSLATED)):
        app = ok(app.selectbox(key="model").select(name).run())
        assert typed(app).value == text
    app = ok(typed(app).set_value("the cat sleeps").run())
    for name in (MINILM, TRANSLATOR):
        app = ok(app.selectbox(key="model").select(name).run())
        assert typed(app).value == "the cat sleeps"


@pytest.mark.parametrize("page", ["explore", "masks", "scores"])
def test_unknown_words_are_named_above_the_example_of_the_translator(page: str) -> None:
    app = open_page(page, model=TRANSLATOR, text="the zebra sleeps")
    assert "but not “zebra”" in errors(app)
    assert "The figure below is the example." in errors(app)
    assert len(app.get("bidi_component")) >= 2


@pytest.mark.parametrize("text", [TRANSLATED, EXAMPLE, "the cat sleeps"])
def test_a_state_of_the_translator_is_read_as_it_is_written(text: str) -> None:
    link = ExploreState.read((("model", TRANSLATOR), ("text", text))).link()
    assert dict(link) == {"model": TRANSLATOR} | ({} if text == TRANSLATED else {"text": text})
    assert ExploreState.read(link).source == Model(text, TRANSLATOR)


def typed(app):
    """The field of the text, which is an area on some pages."""
    return next(one for one in (*app.text_input, *app.text_area) if one.key in ("text", "prompt"))
