"""The state that is in the link. Streamlit keeps it over reruns, pages and the browser's history."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, urlencode

import streamlit as st

from attnviz.base.formatting import enumeration, quoted
from attnviz.base.language import _
from attnviz.base.link import Link, page_address
from attnviz.page.fields import LinkReader
from attnviz.ui.markdown import plain
from attnviz.ui.server.streamlit_internals import bound_keys, query_string, run_context
from attnviz.ui.session_values import SessionValue, has_widget, read_widget, write_widget

# session_state: after Back and Forward all values of widgets, of whatever page, are those of the link.
_OPENED = SessionValue[LinkReader | None]("opened link", lambda: None)  # None before the first run of a session
_MOST_NAMED = 3

unlinked = SessionValue("unlinked", str)  # why the link does not have all of what this run shows


def follow_history(kept: Mapping[str, str]) -> None:
    """Takes the whole state from the link after Back, Forward or a link that opened in place; call it first in a run.
    A parameter in `kept` has its value there if the link does not have it.

    Streamlit drops parameters of a new page that the page before has, too; it gives widgets their values from the link
    when they are drawn, where some values are needed earlier; and it keeps those of the widgets of other pages.
    """
    context, opens = run_context(), opens_in_place()
    if context and opens:
        with context.session_state.query_params() as parameters:
            for name in bound_keys() & {*st.session_state}:
                del st.session_state[name]
            linked = parse_qs(context.query_string, keep_blank_values=True)
            linked = {**{name: [value] for name, value in kept.items()}, **linked}
            for name in linked.keys() - {*parameters}:
                if binding := parameters.get_binding_for_param(name):  # of the run before
                    parameters.unbind_widget(binding.widget_id)
                parameters[name] = linked[name]
            parameters.set_initial_query_params(urlencode(linked, doseq=True))
    _OPENED.set(LinkReader(link_parameters() if opens or _OPENED.get() is None else ()))


def opens_in_place() -> bool:
    """Returns whether this run opens a link in a page that was open: after Back, Forward or a click."""
    context = run_context()
    return bool(context and context.is_history_navigation)


def requested_values() -> LinkReader:
    """Returns the link that this run opens; it has no parameters in a run that opens none, and none that a page set."""
    return _OPENED.get() or LinkReader(())


def name_refused(requested: LinkReader) -> None:
    """Names the values of a link that its fields did not take; call it after the page."""
    refused = [f"{name} = {quoted(', '.join(requested.texts(name) or ()))}" for name in requested.refused]
    if refused:
        count = len(refused) - _MOST_NAMED
        more = [_("{count} more", count=count)] if count > 0 else []
        named = enumeration([*refused[:_MOST_NAMED], *more])
        sentence = _("The link asks for {values}, which this page does not have. It shows its default.", values=named)
        st.toast(plain(sentence))


def refuse(name: str) -> None:
    """Notes that a page does not have the value of a parameter that its widget has taken."""
    if (link := requested_values()).texts(name):
        link.refuse(name, "")


def write_in_link(key: str) -> None:
    """Writes the value of a widget into the link where the browser has not; call it before the widget is drawn.

    Streamlit 1.67 no longer writes a widget that has moved on its page: its browser learns of the new place, and then
    forgets the widget with the place that it has left.
    """
    if not has_widget(key):
        return
    before = SessionValue[tuple[Any, ...]](f"{key} in link", tuple)
    now = read_widget(key), _parsed(query_string()).get(key)
    if before.get() not in ((), now) and before.get()[1] == now[1]:
        write_widget(key, now[0])
    before.set(now)


def link_parameters() -> list[tuple[str, str]]:
    """Returns all parameters of the link, one with several values several times."""
    return [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]


def own_address(page: str, dropped: Sequence[str], added: Link) -> str:
    """Returns the address of this page with other values: without those of the parameters that are dropped, and with
    those that are added."""
    kept = [(name, value) for name, value in link_parameters() if name not in dropped]
    return f"./{page_address(page, [*kept, *added])}"


@lru_cache(maxsize=1)  # each widget of a run asks
def _parsed(query: str) -> dict[str, list[str]]:
    return parse_qs(query, keep_blank_values=True)
