"""Why: why does a head look there, and why does the model say that?"""

import streamlit as st

from attnviz.language import _
from attnviz.ui.heading import page_heading
from attnviz.ui.why import controls, page

page_heading("why")
page.show(controls.choose_answer(st.container()))
st.caption(
    _(
        "**What you are seeing.** The weights of attention and the scales of norms are held at what they are in this "
        "run, and what an MLP has written is taken as given. Then the number is a sum over all that heads, MLPs and "
        "embeddings have written, and each share is exact. **What it does not say:** a share is not a cause. Without "
        "a head, other heads would look elsewhere, and their shares would change."
    )
)
