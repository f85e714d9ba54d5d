"""The names of options in menus. Options are English in the code and in lessons; the link has their names as a visitor
reads them, and opens in every language."""

from collections.abc import Iterable
from typing import Protocol

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.language import option_name, option_with_name


class Name(Protocol):
    """Returns the name of an option in a language, by default the current one."""

    def __call__(self, option: str, code: str | None = None, /) -> str: ...


def names_of(key: str, options: Iterable[str], name: Name = option_name) -> Name:
    """Returns the `format_func` of a menu that is bound to the link parameter `key`.

    The link may name options in another language: Streamlit, which compares names, gets those of this one. `name` gives
    the name of an option if that is not simply its translation.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not is_in_link(key):
        return name
    with context.session_state.query_params() as parameters:
        linked = parameters.get_initial_value(key)
        texts = [linked] if isinstance(linked, str) else linked or []
        by_name = {name(option): option for option in options}
        if any(text not in by_name for text in texts):
            in_links = {text: option_with_name(text, by_name.values(), name) for text in texts if text not in by_name}
            parameters._initial_query_params[key] = [name(in_links.get(text) or text) for text in texts]
    return name


def is_in_link(key: str) -> bool:
    """Returns whether the link that was opened has this parameter."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None:
        return False
    with context.session_state.query_params() as parameters:
        return parameters.get_initial_value(key) is not None


def tab_names(key: str, tabs: Iterable[str]) -> list[str]:
    """Returns the labels of tabs that are bound to the link parameter `key`."""
    tabs = list(tabs)
    return [*map(names_of(key, tabs), tabs)]


def chosen_option(key: str, options: Iterable[str], default: str = "", name: Name = option_name) -> str:
    """Returns the option of a menu before it is drawn: that of the session, or else that of the link."""
    if key in st.session_state:
        return str(st.session_state[key])
    linked = st.query_params.get(key)
    return (option_with_name(linked, options, name) or linked) if linked else default
