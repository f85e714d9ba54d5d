"""A slider that plays, without a browser: nobody asks for the next option here."""

from streamlit.testing.v1 import AppTest


def script() -> None:
    from types import SimpleNamespace

    import streamlit as st

    from attnviz.page.fields import ChoiceField
    from attnviz.pages.transformer.state import step_name
    from attnviz.ui.play_slider import slider

    words = ChoiceField[int](
        "Word",
        lambda state: {str(i): i for i in range(1, state.count + 1)},
        lambda state: min(8, state.count),
        parameter="word",
    )
    steps = {str(step): step for step in (0, 40, 1200)}
    step = ChoiceField("Step", steps, lambda _state: 40, parameter="step", option_name=step_name)
    state = SimpleNamespace(count=int(st.number_input("Count", 1, 30, 8, key="count")))
    st.text(f"{slider(words, state)} {slider(step)}")


def page(**link: str) -> AppTest:
    app = AppTest.from_function(script)
    for name, value in link.items():
        app.query_params[name] = value
    return app.run()


def shown(app: AppTest) -> tuple[str, list[str]]:
    assert not app.exception
    return app.text[0].value, [button.label for button in app.button]


def press(app: AppTest, key: str) -> AppTest:
    return app.button(key=f"{key}-play").click().run()


def test_begins_where_it_is_told_or_where_the_link_says() -> None:
    assert shown(page()) == ("8 40", ["Play", "Play"])
    assert shown(page(word="3", step="1,200")) == ("3 1200", ["Play", "Play"])


def test_a_link_to_none_of_the_options_begins_as_without_it() -> None:
    for value in ("99", "", "three", "-1"):
        assert shown(page(word=value, step=value)) == ("8 40", ["Play", "Play"])


def test_plays_from_here_and_from_the_last_it_begins_anew() -> None:
    assert shown(press(page(word="3"), "word")) == ("3 40", ["Pause", "Play"])
    assert shown(press(page(), "word")) == ("1 40", ["Pause", "Play"])


def test_pauses_where_it_is() -> None:
    assert shown(press(press(page(word="3"), "word"), "word")) == ("3 40", ["Play", "Play"])


def test_one_plays_at_a_time_and_moves_no_other() -> None:
    app = press(press(page(word="3"), "word"), "step")
    assert shown(app) == ("3 40", ["Play", "Pause"])
    assert shown(press(app, "step")) == ("3 40", ["Play", "Play"])


def test_options_that_are_no_longer_there_give_way_also_while_it_plays() -> None:
    app = press(page(word="6"), "word")
    app.number_input(key="count").set_value(4).run()
    assert shown(app) == ("4 40", ["Pause", "Play"])
    app.number_input(key="count").set_value(12).run()
    assert shown(app) == ("8 40", ["Pause", "Play"])  # where it opens, as nobody has chosen 4
    assert app.select_slider(key="word").options == [str(i) for i in range(1, 13)]


def test_a_single_option_cannot_be_played() -> None:
    app = page(count="1")
    app.number_input(key="count").set_value(1).run()
    assert shown(app)[0] == "1 40"
    assert app.button(key="word-play").disabled
