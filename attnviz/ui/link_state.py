"""The state that is in the link. Streamlit keeps it over reruns, pages and the browser's history."""

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qs, urlencode

import streamlit as st

from attnviz.formatting import enumeration, quoted
from attnviz.language import LANGUAGES, _, option_name
from attnviz.server.streamlit_internals import run_context
from attnviz.ui.markdown import plain
from attnviz.ui.session_values import SessionValue, read_widget

# session_state: after Back and Forward all values of widgets, of whatever page, are those of the link.
_READ = SessionValue("link read", bool)  # whether the link that a session began with has been read
_REFUSED = SessionValue[set[str]]("link refused", set)  # the parameters with a value that a page refused in this run
_MOST_NAMED = 3


unlinked = SessionValue("unlinked", str)  # why the link does not have all of what this run shows


def follow_history(kept: Mapping[str, str]) -> None:
    """Takes the whole state from the link after Back, Forward or a link that opened in place; call it first in a run.
    A parameter in `kept` has its value there if the link does not have it.

    Streamlit drops parameters of a new page that the page before has, too; and it gives widgets their values from the
    link when they are drawn, where some values are needed earlier.
    """
    context = run_context()
    if context is None or not opens_in_place():
        return
    with context.session_state.query_params() as parameters:
        for name in [*st.session_state]:
            if parameters.is_bound(str(name)):
                del st.session_state[name]
        linked = parse_qs(context.query_string, keep_blank_values=True)
        linked = {**{name: [value] for name, value in kept.items()}, **linked}
        for name in linked.keys() - {*parameters}:
            if binding := parameters.get_binding_for_param(name):  # of the run before
                parameters.unbind_widget(binding.widget_id)
            parameters[name] = linked[name]
        parameters.set_initial_query_params(urlencode(linked, doseq=True))


def opens_in_place() -> bool:
    """Returns whether this run opens a link in a page that was open: after Back, Forward or a click."""
    context = run_context()
    return bool(context and context.is_history_navigation)


def requested_values() -> dict[str, list[str]]:
    """Returns the parameters of a link that this run opens, none of those that a page has set; call it once a run."""
    opens = not _READ.get() or opens_in_place()
    _READ.set(True)
    return {name: st.query_params.get_all(name) for name in st.query_params} if opens else {}


def name_refused(requested: dict[str, list[str]]) -> None:
    """Names the values of a link that its widgets did not take, once; call it after the page.

    Streamlit removes a value from the link if a widget does not have it, and also if the widget begins with it.
    """
    context = run_context()
    if context is None:
        return
    by_page = _REFUSED.pop()
    with context.session_state.query_params() as parameters:
        refused = [
            f"{name} = {quoted(', '.join(values))}"
            for name, values in requested.items()
            if name in by_page
            or (parameters.is_bound(name) and name not in parameters and not _is_value(read_widget(name), values))
        ]
    if refused:
        count = len(refused) - _MOST_NAMED
        more = [_("{count} more", count=count)] if count > 0 else []
        named = enumeration([*refused[:_MOST_NAMED], *more])
        sentence = _(
            "The link asks for {values}, which this page does not have. It shows what it starts with.", values=named
        )
        st.toast(plain(sentence))


def refuse(name: str) -> None:
    """Notes that a page does not have the value of a parameter that its widget has taken."""
    _REFUSED.get().add(name)


def _is_value(value: object, texts: list[str]) -> bool:
    """Returns whether texts in a link, in some language, are the value of a widget."""
    values = value if isinstance(value, list | tuple) else [] if value is None else [value]
    return any(_names(values, code) == _names(texts, code) for code in LANGUAGES)


def _names(texts: Iterable[object], code: str) -> list[object]:
    """Returns texts as they are compared: English ones by their names in a language, others as they are."""
    return [_comparable(option_name(str(text), code)) for text in texts if text != ""]


def _comparable(value: object) -> object:
    try:
        return float(str(value).replace(",", ""))
    except ValueError:
        return str(value).casefold()


def link_parameters() -> list[tuple[str, str]]:
    """Returns all parameters of the link, one with several values several times."""
    return [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
