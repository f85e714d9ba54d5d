"""The tabs of circuits and of kinds of heads, opened by their links."""

import pytest

from attnviz.models import MINILM, TRANSLATOR
from attnviz.state.effects import CIRCUITS, KINDS, MORE
from tests.support.app import contents, errors, healthy, ok, open_page

CIRCUITS_OPEN, KINDS_OPEN = ({"inspect": MORE, "effects_more": part} for part in (CIRCUITS, KINDS))


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


def test_kinds_of_heads_are_listed() -> None:
    link = {"inspect": MORE, "effects-more": KINDS, "kind": "copy-suppression head", "effects_head": "layer 24, head 4"}
    text = contents(ok(healthy(open_page("effects", **link), charts=1)))
    assert "Over 300 queries of 3 texts of repeated random tokens." in text
    assert ">24.4</a>" in text  # in the list
    assert "layer 24, head 4" in text  # the chosen head
    text = contents(ok(open_page("effects", **KINDS_OPEN)))
    assert "effects-head=layer+16%2C+head+0" in text  # a link that chooses it


def test_what_is_not_known_is_said_in_its_place() -> None:
    app = open_page("effects", why_model=MINILM, **CIRCUITS_OPEN)
    assert "norms or other maps lie in the residual stream" in errors(app)
    text = contents(ok(open_page("effects", why_model=TRANSLATOR, **CIRCUITS_OPEN, effects_head="encoder 0, head 1")))
    assert "encoder 0 writes to no logits" in text
    assert "is a part of the key of" in text


def test_both_tabs_are_in_german() -> None:
    text = contents(ok(open_page("effects", lang="de", **CIRCUITS_OPEN)))
    assert "Standardabweichungen" in text
    text = contents(ok(open_page("effects", lang="de", **KINDS_OPEN)))
    assert "Texten aus wiederholten zufälligen Tokens" in text


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "t5"])
def test_saved_models_show_both_tabs(saved, name: str) -> None:
    folder = str(saved / name)
    text = contents(ok(healthy(open_page("effects", why_model=folder, **CIRCUITS_OPEN), charts=2)))
    assert "Its copying score is" in text
    text = contents(ok(healthy(open_page("effects", why_model=folder, **KINDS_OPEN), charts=1)))
    assert "texts of repeated random tokens" in text


def test_a_model_with_norms_in_its_stream_shows_kinds_alone(saved) -> None:
    folder = str(saved / "bart")
    app = open_page("effects", why_model=folder, **CIRCUITS_OPEN)
    assert "norms or other maps lie in the residual stream" in errors(app)
    ok(healthy(open_page("effects", why_model=folder, **KINDS_OPEN), charts=1))
