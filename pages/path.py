"""Path: how do words become the next word?"""

import streamlit as st

from attnviz.ui import path
from attnviz.ui.heading import page_heading
from attnviz.ui.path.controls import choose_path

page_heading("path")

notes = st.container()  # one place for what comes and goes, so that what is below stays what it is
path.show(choose_path(notes))
