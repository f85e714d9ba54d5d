"""Transformer: how does a small, trained translator use attention three ways?"""

from functools import partial

import streamlit as st

from attnviz.translator import EXAMPLES, check
from attnviz.ui import cache
from attnviz.ui.transformer import changed, decoding, notation, sentence_picker, three_uses, training, training_dynamics

st.subheader("Transformer", anchor=False)
st.caption("How does a transformer use attention three ways? A small one translates English into French, word by word.")

with st.sidebar:
    translator = sentence_picker.translator()
    heads = sentence_picker.heads(translator)
text = sentence_picker.sentence()
notes = st.container()  # one place for what comes and goes, so that the charts below stay what they are
english = cache.or_last_good("english", lambda: " ".join(check(text)), lambda: EXAMPLES[0], notes)
translation = translator.translate(english)
step = decoding.show(translation, heads["cross"])
views = {
    "Three uses": partial(three_uses.show, translator, translation, step, heads),
    "What if": partial(changed.show, translator, translation, step, heads),
    "How attention forms": partial(training_dynamics.show, translation),
    "In symbols": partial(notation.show, translator, translation, heads),
}
for tab, view in zip(st.tabs(list(views), key="tab", bind="query-params"), views.values(), strict=True):
    if tab.open:
        with tab:
            view()
training.keep()  # also while another tab is open
