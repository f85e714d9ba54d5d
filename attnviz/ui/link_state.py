"""The state that is in the link. Streamlit keeps it over reruns, pages and the browser's history."""

from urllib.parse import parse_qs

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx


def follow_history() -> None:
    """Takes the whole state from the link after Back, Forward or a link that opened in place; call it first in a run.

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
        for name in linked.keys() - {*parameters}:
            parameters[name] = linked[name]
        parameters.set_initial_query_params(context.query_string)


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
