"""Fields as widgets: each value is in the link, in every language, and states say which fields are offered."""

import pytest
from streamlit.testing.v1 import AppTest


def script() -> None:
    from types import SimpleNamespace

    import streamlit as st

    from attnviz.base.language import set_language
    from attnviz.masks import MASKS, Full
    from attnviz.page.every_page import EveryPageState
    from attnviz.page.fields import (
        ChoiceField,
        FlagField,
        NumberField,
        ParsedField,
        PartField,
        PartsField,
        RangeField,
        TextField,
    )
    from attnviz.page.parts import by_title
    from attnviz.page.state import State
    from attnviz.ui.field_widgets import choice_tabs, draw, draw_hidden
    from attnviz.ui.widget_values import field_text, field_value, set_field_value

    class Sample(State):
        flag = FlagField("Flag")
        text = TextField("Text", "a b", when=lambda state: not state.flag)
        whole = NumberField("Whole", 3, 1, 9)
        real = NumberField("Real", 0.5, 0.0, 1.0, 2)
        size = ChoiceField("Size", (1, 2, 3), lambda state: 2)
        token = ChoiceField("Token", lambda state: state.text.split())
        part = RangeField("Part", lambda state: (0, len(state.text) - 1))
        squares = ParsedField("Squares", lambda text: int(text) ** 2, 4, text=lambda square: str(int(square**0.5)))
        mask = PartField("Mask", by_title(MASKS), lambda state: Full())
        masks = PartsField("Masks", MASKS, lambda state: (), prefix="x")
        tab = ChoiceField("Tab", ("Cost", "Code"))

    set_language(st.query_params.get("lang", "en"))
    state = SimpleNamespace(tab="")
    problem = ""
    st.button("longer", on_click=lambda: set_field_value(Sample.text, "c a b"))
    st.button("third", on_click=lambda: set_field_value(Sample.size, 3))
    st.button("nine", on_click=lambda: set_field_value(Sample.squares, 81))
    before = field_text(Sample.squares), field_value(Sample.size)
    for field in Sample.fields:
        try:
            if field is not Sample.tab:
                setattr(state, field.name, draw(field, state))
        except ValueError as refusal:
            problem = str(refusal)
    state.tab = next(name for name, tab in choice_tabs(Sample.tab, None).items() if tab.open)
    draw_hidden(EveryPageState.right)
    st.json({"values": {name: str(value) for name, value in vars(state).items()}, "problem": problem, "before": before})


def opened(**link: str | list[str]) -> AppTest:
    app = AppTest.from_function(script, default_timeout=60)
    for name, value in link.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def values(app: AppTest) -> dict[str, str]:
    import json

    assert not app.exception
    return json.loads(app.json[0].value)["values"]


def test_fields_begin_with_their_opening_values() -> None:
    shown = values(opened())
    assert shown == {
        "tab": "Cost",
        "flag": "False",
        "text": "a b",
        "whole": "3",
        "real": "0.5",
        "size": "2",
        "token": "a",
        "part": "(0, 2)",
        "squares": "4",
        "mask": "full",
        "masks": "()",
    }


@pytest.mark.parametrize(
    ("link", "name", "value"),
    [
        ({"flag": "true"}, "flag", "True"),
        ({"text": "x y"}, "token", "x"),
        ({"whole": "7"}, "whole", "7"),
        ({"real": "0.25"}, "real", "0.25"),
        ({"size": "3"}, "size", "3"),
        ({"token": "b"}, "token", "b"),
        ({"part": ["2", "1"]}, "part", "(1, 2)"),
        ({"squares": "3"}, "squares", "9"),
        ({"mask": "Sliding window", "mask.size": "2"}, "mask", "sliding_window(2)"),
        ({"tab": "Code"}, "tab", "Code"),
        ({"mask": "Causal", "lang": "de"}, "mask", "causal"),
        ({"mask": "Kausal", "lang": "en"}, "mask", "causal"),
        ({"whole": "inf"}, "whole", "3"),
        ({"real": "nan"}, "real", "0.5"),
        ({"real": "-0"}, "real", "0.0"),
        ({"size": "9"}, "size", "2"),
        ({"part": ["0", "99"]}, "part", "(0, 2)"),
    ],
)
def test_fields_have_the_values_of_a_link(link: dict[str, str | list[str]], name: str, value: str) -> None:
    assert values(opened(**link))[name] == value


def test_a_field_that_its_state_does_not_offer_has_no_widget() -> None:
    app = opened(flag="true", text="x y")
    assert [one.label for one in app.text_input] == ["Squares", "right"]
    assert values(app)["text"] == "a b"


def test_a_text_that_a_field_does_not_take_is_refused() -> None:
    import json

    app = opened(squares="x")
    assert "invalid literal" in json.loads(app.json[0].value)["problem"]


def test_a_menu_has_the_last_choice_among_the_same_options() -> None:
    app = opened()
    token = lambda: next(one for one in app.selectbox if one.label == "Token")  # noqa: E731
    token().select("b").run()
    app.button[0].click().run()
    assert values(app)["text"] == "c a b"
    assert values(app)["token"] == "b"
    token().select("c").run()
    app.text_input(key="text").input("a b").run()
    assert values(app)["token"] == "b"
    app.button[0].click().run()
    assert values(app)["token"] == "c"


def test_values_are_set_by_callbacks_and_read_before_they_are_drawn() -> None:
    import json

    app = opened(squares="5")
    assert json.loads(app.json[0].value)["before"] == ["5", None]
    app.button[1].click().run()
    app.button[2].click().run()
    assert (values(app)["size"], values(app)["squares"]) == ("3", "81")
    assert json.loads(app.json[0].value)["before"] == ["9", 3]
    assert app.query_params["size"] == "3"


def tabs_in_german() -> None:
    import streamlit as st

    from attnviz.base.language import set_language
    from attnviz.page.fields import ChoiceField
    from attnviz.page.state import State
    from attnviz.ui.field_widgets import choice_tabs
    from attnviz.ui.page_state import current_state

    class Sample(State):
        tab = ChoiceField("Tab", ("This text", "Many texts"))

    set_language("de")
    opened = current_state(Sample)
    choice_tabs(Sample.tab, opened)
    st.json({"values": {"tab": opened.tab}})


def test_a_tab_stays_open_in_every_language() -> None:
    app = AppTest.from_function(tabs_in_german, default_timeout=60)
    app.query_params["tab"] = "Many texts"
    for _run in range(3):
        assert values(app.run())["tab"] == "Many texts"
