"""The language of a visitor: that of the link, or else the one that the browser likes best."""

from urllib.parse import parse_qs

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from attnviz.language import ENGLISH, LANGUAGES, _, preferred_language, set_default_language, set_language
from attnviz.ui import link_state
from attnviz.ui.html import element, join
from attnviz.ui.request_language import KEY

_CHOSEN = "language"  # in the session, for fragments and callbacks, which begin without the router


def follow() -> None:
    """Sets the language of this run; call it before any word is drawn. A language of a link stays for the session."""
    link = requested_language()
    st.session_state[_CHOSEN] = link or st.session_state.get(_CHOSEN) or preferred_language(_accepted())
    set_language(st.session_state[_CHOSEN])


def requested_language() -> str:
    """Returns the language that the link asks for, one that there is; no text if it does not."""
    context = get_script_run_ctx(suppress_warning=True)
    codes = parse_qs(context.query_string).get(KEY, []) if context else []
    return codes[0] if codes and codes[0] in LANGUAGES else ""


def keep_in_link() -> None:
    """Draws the hidden field that keeps the language in the link; call it once a run."""
    if (code := link_state.link_value(KEY)) and code not in LANGUAGES:
        link_state.refuse(KEY)


def link_parameter() -> dict[str, str]:
    """Returns what links to other pages of this session say, too: the language, if a link has chosen it."""
    chosen = st.session_state[_CHOSEN]
    return {} if chosen == preferred_language(_accepted()) else {KEY: chosen}


def show_others() -> None:
    """Draws links to this page in the other languages; the browser adds the state of the page (navigation/links.js)."""
    links = (
        element("a", name, href=f"?{KEY}={code}", hreflang=code, lang=code)
        for code, name in LANGUAGES.items()
        if code != st.session_state[_CHOSEN]
    )
    with st.container(key="languages"):
        st.html(element("nav", join(links, " "), class_="attnviz-languages", aria_label=_("Language")))


def _accepted() -> str:
    return st.context.headers.get("Accept-Language") or ""


def _session_language() -> str:
    context = get_script_run_ctx(suppress_warning=True)
    return str(st.session_state.get(_CHOSEN, ENGLISH)) if context else ENGLISH


set_default_language(_session_language)
