"""Start: what attention is, in one picture, and the groups of pages."""

import streamlit as st

from attnviz.language import _
from attnviz.ui import start

st.title(_("Which words does each word look at?"), anchor=False)
with st.container(key="start"):
    groups, picture = st.columns([0.5, 0.5], gap="large")
    with picture:
        start.show_picture()
    with groups:
        start.show_groups()
