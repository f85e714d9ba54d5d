"""Start: what attention is, in one picture, and the ways into the app."""

import streamlit as st

from attnviz.language import _
from attnviz.ui import start

st.title(_("Which words does each word look at?"), anchor=False)
with st.container(key="start"):
    ways, picture = st.columns([0.5, 0.5], gap="large", vertical_alignment="center")
    with picture:
        start.show_picture()
    with ways:
        start.show_ways()
