"""The state that is in the link. Streamlit keeps it over reruns, pages and the browser's history."""

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qs, urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.formatting import enumeration, quoted
from attnviz.language import LANGUAGES, _, option_name
from attnviz.ui.markdown import plain

_READ = "link read"  # whether the link that a session began with has been read
_REFUSED = "link refused"  # the parameters with a value that a page refused in this run
_MOST_NAMED = 3


def follow_history(kept: Mapping[str, str]) -> None:
    """Takes the whole state from the link after Back, Forward or a link that opened in place; call it first in a run.
    A parameter in `kept` has its value there if the link does not have it.

    Streamlit drops parameters of a new page that the page before has, too; and it gives widgets their values from the
    link when they are drawn, where some values are needed earlier.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not context.is_history_navigation:
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


def requested_values() -> dict[str, list[str]]:
    """Returns the parameters of a link that this run opens, none of those that a page has set; call it once a run."""
    context = get_script_run_ctx(suppress_warning=True)
    opens = not st.session_state.get(_READ) or (context is not None and context.is_history_navigation)
    st.session_state[_READ] = True
    return {name: st.query_params.get_all(name) for name in st.query_params} if opens else {}


def name_refused(requested: dict[str, list[str]]) -> None:
    """Names the values of a link that its widgets did not take, once; call it after the page.

    Streamlit removes a value from the link if a widget does not have it, and also if the widget begins with it.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None:
        return
    by_page = st.session_state.pop(_REFUSED, set())
    with context.session_state.query_params() as parameters:
        refused = [
            f"{name} = {quoted(', '.join(values))}"
            for name, values in requested.items()
            if name in by_page
            or (parameters.is_bound(name) and name not in parameters and not _is_value(st.session_state[name], values))
        ]
    if refused:
        count = len(refused) - _MOST_NAMED
        more = [_("{count} more").format(count=count)] if count > 0 else []
        named = enumeration([*refused[:_MOST_NAMED], *more])
        sentence = _("The link asks for {values}, which this page does not have. It shows what it starts with.")
        st.toast(plain(sentence.format(values=named)))


def refuse(name: str) -> None:
    """Notes that a page does not have the value of a parameter that its widget has taken."""
    st.session_state.setdefault(_REFUSED, set()).add(name)


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


def link_value(name: str) -> str:
    """Draws a hidden field bound to a link parameter, and returns its text; call it once a run."""
    with st.container(key=f"in-link-{name}"):
        return st.text_input(name, key=name, bind="query-params", label_visibility="collapsed")


def set_link_value(name: str, value: str) -> None:
    """Sets a parameter; call it before `link_value` in a run, as a callback does."""
    st.session_state[name] = value


def link_parameters() -> list[tuple[str, str]]:
    """Returns all parameters of the link, one with several values several times."""
    return [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
