"""Start: which words does each word look at, in a model that writes, and the pages that answer more."""

import streamlit as st

from attnviz.base.language import _
from attnviz.ui import start

st.title(_("Which words does each word look at?"), anchor=False)
with st.container(key="start"):
    ways, picture = st.columns([0.5, 0.5], gap="large")
    with picture:
        start.show_picture()
    with ways:
        start.show_ways()
