"""The names of options in menus. Options are English in the code and in lessons; the link has their names as a visitor
reads them, and opens in every language."""

from collections.abc import Iterable

import streamlit as st

from attnviz.base.language import OptionName, option_name, option_with_name
from attnviz.ui.server.streamlit_internals import linked_texts, set_linked_texts
from attnviz.ui.session_values import has_widget, read_widget


def names_of(key: str, options: Iterable[str], name: OptionName = option_name) -> OptionName:
    """Returns the `format_func` of a menu that is bound to the link parameter `key`.

    The link may name options in another language: Streamlit, which compares names, gets those of this one. `name` gives
    the name of an option if that is not simply its translation.
    """
    texts = linked_texts(key) or []
    by_name = {name(option): option for option in options} if texts else {}
    if any(text not in by_name for text in texts):
        in_links = {text: option_with_name(text, by_name.values(), name) for text in texts if text not in by_name}
        set_linked_texts(key, [name(in_links.get(text) or text) for text in texts])
    return name


def chosen_option(key: str, options: Iterable[str]) -> str:
    """Returns the option of a menu before it is drawn: that of the session, or else of the link; else no text."""
    if has_widget(key):
        return str(read_widget(key))
    linked = st.query_params.get(key, "")
    return option_with_name(linked, options, option_name) or linked
