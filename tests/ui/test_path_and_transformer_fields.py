"""Choices on Path and Transformer that are set, restored or refused."""

from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.models import MINILM, TRANSLATOR
from attnviz.state.path import PathState
from attnviz.state.transformer import TransformerState
from tests.support.app import healthy, linked, open_page

path, transformer = partial(open_page, "path"), partial(open_page, "transformer")


def script() -> None:
    from types import SimpleNamespace

    import streamlit as st

    from attnviz.state.fields import ChoiceField
    from attnviz.ui.field_widgets import draw
    from attnviz.ui.widget_values import set_field_value

    field = ChoiceField[int]("Word", lambda state: {str(i): i for i in range(state.count)}, parameter="word")
    state = SimpleNamespace(count=int(st.number_input("Count", 1, 9, 5, key="count")))
    if st.session_state.get("set"):
        set_field_value(field, 1, state)
    st.text(str(draw(field, state)))


def test_a_value_that_is_set_wins_over_the_last_choice_among_its_options() -> None:
    app = AppTest.from_function(script).run()
    app.selectbox(key="word").select("4").run()
    app.number_input(key="count").set_value(3).run()
    app.session_state["set"] = True
    assert app.number_input(key="count").set_value(5).run().text[0].value == "1"
    app.session_state["set"] = False
    app.number_input(key="count").set_value(3).run()
    assert app.number_input(key="count").set_value(5).run().text[0].value == "1"


def test_a_part_of_one_model_is_open_again_when_the_model_is() -> None:
    app = path(open="decoder 1", path_head="3")
    app.selectbox(key="path-model").set_value(MINILM).run()
    assert healthy(app).selectbox(key="open").value == "model"
    app.selectbox(key="open").set_value("encoder 4").run()
    app.selectbox(key="path-model").set_value(TRANSLATOR).run()
    assert healthy(app).selectbox(key="open").value == "decoder 1"


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("path", {"path-mask": "Voll", "temperature": "0.35", "word": "2", "open": "decoder 0"}),
        ("path", {"path-model": "MiniLM", "text": "One cat.", "path-head": "7", "draw": "5"}),
        ("transformer", {"tab": "What if", "change": "Encoder", "encoder-mask": "Band", "encoder-mask.width": "2"}),
        ("transformer", {"tab": "What if", "cross-score": "Scaled dot", "decoder-off-1": ["0", "3"]}),
        ("transformer", {"tab": "How attention forms", "map": "Decoder, layer 0, head 1", "step": "1,200"}),
        ("transformer", {"tab": "Several heads", "heads-of": "Encoder self-attention", "english": "I sleep ."}),
        ("transformer", {"encoder-row": "1 · small", "cross-head": "Schicht 0, Kopf 1", "word": "99"}),
    ],
)
def test_a_page_keeps_the_state_that_its_link_opens(page: str, link: dict[str, str | list[str]]) -> None:
    kind = {"path": PathState, "transformer": TransformerState}[page]
    app = healthy(open_page(page, **link, lang="de"))
    kept = [(name, value) for name in app.query_params for value in linked(app, name)]
    opened = [(name, text) for name, value in link.items() for text in ([value] if isinstance(value, str) else value)]
    assert kind.read(kept) == kind.read(opened)
    assert not kind.read(kept).problem


@pytest.mark.parametrize(
    "link",
    [
        {"encoder-off-0": ["0", "9", "0"], "tab": "What if"},
        {"word": "0"},
        {"encoder-row": "3 · red", "english": "I sleep ."},
        {"cross-score": "General", "tab": "What if", "similarity": "General"},
        {"tab": "What if", "change": "\u202e"},
        {"tab": "How attention forms", "map": "Encoder, layer 9, head 9"},
    ],
)
def test_what_a_page_does_not_have_is_not_in_its_link_and_no_exception(link: dict[str, str | list[str]]) -> None:
    app = healthy(transformer(**link))
    for name in ("word", "encoder-row", "cross-score", "change", "map"):
        assert not linked(app, name), name
    assert linked(app, "encoder-off-0") in ([], ["0"])
