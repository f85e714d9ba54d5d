"""Write: what does a language model look at while it writes?"""

import streamlit as st

from attnviz.language import _
from attnviz.ui.heading import page_heading
from attnviz.ui.write import controls, page

page_heading("write")
page.show(controls.choose_written(), st.container())
st.caption(
    _(
        "**What you are seeing.** A model writes one token at a time. For each it compares what it has read last, the "
        "*query*, with all tokens before, the *keys*: the darker a word, the more the chosen head looked at it when "
        "the marked word was written. At the right are the tokens that it found likeliest there; choose another one, "
        "and it goes on from there. Weights show where a head looks, not why the word was chosen."
    )
)
