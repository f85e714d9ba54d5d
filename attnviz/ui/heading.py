"""The heading of a page: its name and the question that it answers, in one line where there is room."""

import streamlit as st


def heading(name: str, question: str) -> None:
    """Draws the heading of a page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="heading"):
        st.subheader(name, anchor=False, width="content")
        st.caption(question)
