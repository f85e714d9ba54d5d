"""Presentation mode for projectors: larger letters, and of the controls those that a lesson needs. `present=1` in the
link; its style is in present.css, and its keys are in navigation/presentation_keys.js."""

from collections.abc import Callable, Iterable
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import _
from attnviz.base.link import page_address
from attnviz.page.every_page import EveryPageState
from attnviz.page.html import Markup
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.page_menu import Menu
from attnviz.ui.widget_values import field_value, set_field_value

PRESENTED = EveryPageState.presented
PRESENTING = (PRESENTED.parameter, "1")  # in a link


def switch(menu: Menu, current: st.Page, class_button: Callable[[], Markup]) -> None:
    """Draws the button that enters and leaves the mode, on every page; in presentations beside a menu of the pages, and
    beside a button that starts a class, which is made when the link says whether the mode is on.

    The link parameter belongs to a hidden menu, so that Streamlit keeps it over reruns, other pages and the browser's
    history.
    """
    on = draw(PRESENTED)
    # In a frame of another site the button is hidden, with everything but pictures and controls: embedding.css.
    off = "embedded" if st.context.is_embedded else "not-presenting"
    with st.container(key="presenting" if on else off, width="content", horizontal=True, vertical_alignment="center"):
        if on:
            _show_pages(menu, current)
        st.button(
            _("Leave") if on else _("Present"),
            icon=":material/close:" if on else ":material/slideshow:",
            key="present-switch",
            type="tertiary",
            help=_("Back to the controls (Escape)") if on else _("Larger letters and few controls, for a projector"),
            on_click=set_field_value,
            args=(PRESENTED, not on),
        )
        if on and (form := class_button()):
            st.html(form, width="content")


def presenting() -> bool:
    """Returns whether the mode is on; call it after `switch`."""
    return bool(field_value(PRESENTED))


def page_link(page: str, link: Iterable[tuple[str, str]]) -> str:
    """Returns the address of another page, which presents if this one does; call it after `switch`."""
    presented = [PRESENTING] if presenting() else []
    return f"./{page_address(page, [*link, *presented])}"


def control(name: str, **layout: Any) -> DeltaGenerator:
    """Returns a container whose widgets stay in presentations; `layout` is as in `st.container`."""
    return st.container(key=f"present-control-{name}", **layout)


def show_title(title: str) -> None:
    """Draws a title in presentations, where menus are hidden."""
    if presenting():
        st.caption(plain(title))


def _show_pages(menu: Menu, current: st.Page) -> None:
    """Draws links to the pages before and after the current one, and between them a menu of all pages."""
    pages = [page for group in menu.values() for page in group]
    index = pages.index(current)
    if index > 0:
        with st.container(key="present-previous", width="content"):
            st.page_link(pages[index - 1], icon=":material/chevron_left:")
    with st.popover(current.title, type="tertiary", help=_("All pages"), key=f"present-menu-{index}"):
        columns = st.columns(2)
        for number, (title, group) in enumerate(menu.items()):
            with columns[2 * number // len(menu)]:
                if title:
                    st.caption(plain(title))
                for page in group:
                    st.page_link(page)
    if index + 1 < len(pages):
        with st.container(key="present-next", width="content"):
            st.page_link(pages[index + 1], icon=":material/chevron_right:", icon_position="right")
