"""The circuits of a head, opened by their links."""

import pytest

from attnviz.models import MINILM, TRANSLATOR
from attnviz.pages.effects.state import CIRCUITS, MORE
from tests.support.app import contents, errors, healthy, ok, open_page

CIRCUITS_OPEN = {"inspect": MORE, "effects_more": CIRCUITS}


def test_a_head_shows_its_circuits() -> None:
    app = ok(
        healthy(
            open_page("effects", **CIRCUITS_OPEN, effects_head="layer 18, head 6", reads="river"),
            charts=2,
        )
    )
    text = contents(app)
    assert "When layer 18, head 6 looks at “river”, it raises “river” itself by 2.76 standard deviations" in text
    assert "When it looks from “river”, it prefers and avoids" in text
    assert "layer 16, head 0" in text  # composes with it by its key
    app.text_input(key="reads").set_value("Mary")
    app.selectbox(key="composition").set_value("the query")
    text = contents(ok(app.run()))
    assert "looks at “Mary”" in text
    assert "is a part of the query of" in text


def test_the_head_that_copies_or_suppresses_most_is_shown_first() -> None:
    app = ok(open_page("effects", **CIRCUITS_OPEN))
    assert "When layer 23, head 3 looks at “Mary”" in contents(app)
    assert app.selectbox(key="effects-head").value == "automatic"


def test_what_is_not_known_is_said_in_its_place() -> None:
    app = open_page("effects", why_model=MINILM, **CIRCUITS_OPEN)
    assert "norms or other maps lie in the residual stream" in errors(app)
    text = contents(ok(open_page("effects", why_model=TRANSLATOR, **CIRCUITS_OPEN, effects_head="encoder 0, head 1")))
    assert "encoder 0 writes to no logits" in text
    assert "is a part of the key of" in text


def test_circuits_are_in_german() -> None:
    text = contents(ok(open_page("effects", lang="de", **CIRCUITS_OPEN)))
    assert "Standardabweichungen" in text


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "t5"])
def test_saved_models_show_circuits(saved, name: str) -> None:
    folder = str(saved / name)
    text = contents(ok(healthy(open_page("effects", why_model=folder, **CIRCUITS_OPEN), charts=2)))
    assert "Its copying score is" in text


def test_a_model_with_norms_in_its_stream_is_refused(saved) -> None:
    folder = str(saved / "bart")
    app = open_page("effects", why_model=folder, **CIRCUITS_OPEN)
    assert "norms or other maps lie in the residual stream" in errors(app)
