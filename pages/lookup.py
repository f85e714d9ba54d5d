"""Lookup: how is attention a soft dictionary?"""

import streamlit as st

from attnviz.language import _
from attnviz.state.lookup import LookupState
from attnviz.ui import quantities
from attnviz.ui.field_widgets import draw_text
from attnviz.ui.heading import page_heading
from attnviz.ui.lookup import controls, gradient_table, network, plane, result, softness_table
from attnviz.views.lookup import lookup

page_heading("lookup")

left, right = st.columns([0.54, 0.46], gap="medium")
numbers, table = st.columns([0.54, 0.46], gap="large")
with table.container(key="dictionary"):
    st.markdown(_("**The dictionary:** change its words, keys and values"))
state = controls.choose_lookup(left, right, table)
quantities.publish(lambda: lookup(state).quantities)
with left:
    result.show_result(state)
    network.show(state)
with right:
    plane.show(state)
with numbers:
    st.markdown(_("**Similarities and weights,** side by side"))
    result.show_table(state)
with table:
    draw_text(LookupState.table)

softness, why = st.columns([0.6, 0.4], gap="large")
with softness:
    st.markdown(_("**From uniform to the dictionary:** the weights of this query at every softness"))
    softness_table.show(state)
with why:
    st.markdown(_("**Why soft?** How the result changes when the query moves a little"))
    gradient_table.show(state)
    st.caption(
        _(
            "Training moves queries and keys a little to where the result gets better, along this "
            "gradient (the gray arrow in the plane). A hard choice gives zero, which does not show "
            "where to go."
        )
    )
st.caption(
    _(
        "**What you are seeing.** Each arrow is a *key*, and its number the *value* stored under it; "
        "the orange arrow is the *query*. A dictionary returns the value whose key equals the query, "
        "or nothing. Attention compares the query with every key (*similarity*), turns that into "
        "*weights* that add up to 1, and returns the sum of all values, each times its weight. The "
        "plane shows what every other query would get."
    )
)
