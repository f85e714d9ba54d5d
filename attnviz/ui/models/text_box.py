"""The text areas of the Models page: a text is in the link, unless it is long."""

import streamlit as st

from attnviz.formatting import grouped
from attnviz.language import N_, _

LONGEST_LINK = 2_000  # characters of a text in the link: longer addresses are cut off in chats and mails
NOT_LINKED = N_("A text of more than {most} characters is not in the link. It stays in this session.")


def choose_text(label: str, start: str, key: str, *, help: str | None = None, width: int | None = None) -> str:
    """Draws a text area, and returns its text with its line breaks."""
    state, was_long = st.session_state, f"{key} was long"
    is_long = bool(not_linked_note(state.get(key) or ""))  # a long text of an older link is still read
    if state.get(was_long) and not is_long:
        state[key] = state[key]  # the link gets it again: the browser has written none
    state[was_long] = is_long
    return st.text_area(
        label, start, key=key, help=help, width=width or "stretch", height="content",
        bind=None if is_long else "query-params", persist_state="session",
    )  # fmt: skip


def not_linked_note(*texts: str) -> str:
    """Returns a note if one of the texts is too long for the link, or else an empty text."""
    is_long = any(len(text) > LONGEST_LINK for text in texts)
    return _(NOT_LINKED).format(most=grouped(LONGEST_LINK)) if is_long else ""
