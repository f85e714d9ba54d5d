"""The language of a visitor: that of the link, or else the one that the browser likes best."""

from urllib.parse import parse_qs

import streamlit as st

from attnviz.base.language import ENGLISH, LANGUAGES, _, preferred_language, set_default_language, set_language
from attnviz.page.every_page import EveryPageState
from attnviz.page.html import element, join
from attnviz.ui import link_state
from attnviz.ui.field_widgets import draw_hidden
from attnviz.ui.server.request_language import KEY
from attnviz.ui.server.streamlit_internals import query_string, run_context
from attnviz.ui.session_values import SessionValue

_CHOSEN = SessionValue("language", str)  # for fragments and callbacks, which begin without the router


def follow() -> None:
    """Sets the language of this run; call it before any word is drawn. A language of a link stays for the session."""
    code = requested_language() or _CHOSEN.get() or preferred_language(_accepted())
    _CHOSEN.set(code)
    set_language(code)


def requested_language() -> str:
    """Returns the language that the link asks for, one that there is; no text if it does not."""
    codes = parse_qs(query_string()).get(KEY, [])
    return codes[0] if codes and codes[0] in LANGUAGES else ""


def keep_in_link() -> None:
    """Draws the hidden field that keeps the language in the link; call it once a run."""
    if (code := draw_hidden(EveryPageState.language)) and code not in LANGUAGES:
        link_state.refuse(KEY)


def link_parameter() -> dict[str, str]:
    """Returns what links to other pages of this session say, too: the language, if a link has chosen it."""
    chosen = _CHOSEN.get()
    return {} if chosen == preferred_language(_accepted()) else {KEY: chosen}


def show_others() -> None:
    """Draws links to this page in the other languages; the browser adds the state of the page (navigation/links.js)."""
    links = (
        element("a", name, href=f"?{KEY}={code}", hreflang=code, lang=code)
        for code, name in LANGUAGES.items()
        if code != _CHOSEN.get()
    )
    nav = element("nav", join(links, " "), class_="attnviz-languages", aria_label=_("Language"))
    st.html(nav, width="content")


def _accepted() -> str:
    return st.context.headers.get("Accept-Language") or ""


def _session_language() -> str:
    return (run_context() and _CHOSEN.get()) or ENGLISH


set_default_language(_session_language)
