"""Path: how do words become the next word?"""

import streamlit as st

from attnviz.language import _
from attnviz.ui.heading import heading
from attnviz.ui.path import path
from attnviz.ui.path.controls import choose_path, draw_again, open_part, select_head
from attnviz.ui.path.pictures import layer_picture, model_picture, part_picture

heading(
    _("Path"), _("How do words become the next word? One forward pass, with its real numbers. Click a part to go in.")
)

notes = st.container()  # one place for what comes and goes, so that what is below stays what it is
selection = choose_path(notes)
record, next_word = selection.record, selection.next_word
if not selection.open:
    picture = model_picture(record, next_word, selection.mask)
elif selection.open in record.layers:
    picture = layer_picture(record, selection.open, selection.head, next_word, selection.mask)
else:
    picture = part_picture(record, selection.open, selection.head, next_word, selection.mask)
path(picture, "path", on_open=open_part, on_head=select_head, on_draw=draw_again)
