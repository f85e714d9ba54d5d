"""A slider with a Play button that advances it once a second."""

from typing import Any, TypeVar

import streamlit as st

from attnviz.base.language import _
from attnviz.page.fields import ChoiceField
from attnviz.ui.field_widgets import draw
from attnviz.ui.fragments import draw_repeatedly
from attnviz.ui.session_values import SessionValue
from attnviz.ui.widget_values import field_value, set_field_value

T = TypeVar("T")
EVERY = 1.0  # seconds from one option to the next
PLAYING = SessionValue("plays", str)  # the field that plays; one at a time, so that none disturbs another


def plays(field: ChoiceField[Any]) -> bool:
    """Returns whether the slider of a field plays."""
    return PLAYING.get() == field.parameter


def slider(field: ChoiceField[T], state: Any = None) -> T:
    """Draws a slider over the options of a field and a Play button, and returns the selected option.

    Play starts at the first option if the last one is selected. The page reruns every second while the slider plays.
    Both widgets are also visible in presentations.
    """
    key, options = field.parameter, [*field.options(state).values()]
    with st.container(key=f"play-{key}", horizontal=True, vertical_alignment="bottom", wrap=False, gap="small"):
        st.button(
            _("Pause") if plays(field) else _("Play"),
            icon=":material/pause:" if plays(field) else ":material/play_arrow:",
            key=f"{key}-play",
            disabled=len(options) < 2,
            on_click=_press,
            args=(field, state),
        )
        chosen = draw(field, state, st.select_slider)
    if plays(field):
        _go_on(field, state)
    return chosen


def _press(field: ChoiceField[T], state: Any) -> None:
    if plays(field):
        PLAYING.set("")
        return
    PLAYING.set(field.parameter)
    first, *_more, last = field.options(state).values()
    if field_value(field, state) == last:
        set_field_value(field, first, state)


def _go_on(field: ChoiceField[T], state: Any) -> None:
    """Advances the slider after EVERY seconds."""
    drawn = False

    def advance() -> None:
        nonlocal drawn
        if not drawn:  # with the page, and not by the clock
            drawn = True
            return
        if not plays(field):  # paused, after the browser had asked already
            return
        options = [*field.options(state).values()]
        index = min(options.index(field_value(field, state)) + 1, len(options) - 1)
        set_field_value(field, options[index], state)
        if index == len(options) - 1:
            PLAYING.set("")
        st.rerun()

    draw_repeatedly(advance, EVERY)
