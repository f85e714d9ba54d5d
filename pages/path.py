"""Path: how do words become the next word?"""

import streamlit as st

from attnviz.language import _
from attnviz.ui import path
from attnviz.ui.heading import heading
from attnviz.ui.path.controls import choose_path

heading(
    _("Path"), _("How do words become the next word? One forward pass, with its real numbers. Click a part to open it.")
)

notes = st.container()  # one place for what comes and goes, so that what is below stays what it is
path.show(choose_path(notes))
