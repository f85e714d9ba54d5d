"""The heading of a page: its name and the question that it answers, in one line where there is room."""

import streamlit as st

from attnviz.base.app_pages import PAGES
from attnviz.base.language import _


def page_heading(name: str) -> None:
    """Draws the heading of a page that attnviz/base/app_pages.py declares."""
    page = PAGES[name]
    heading(_(page.title), f"{_(page.question)} {_(page.hint)}".rstrip())


def heading(name: str, question: str) -> None:
    """Draws the heading of another page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="heading"):
        st.subheader(name, anchor=False, width="content")
        st.caption(question)
