"""Lookup: how is attention a soft dictionary?"""

import streamlit as st

from attnviz.lessons.lookup import look_up, mechanism
from attnviz.ui.lookup import dictionary_table, numbers, plane, query_picker

st.subheader("Lookup", anchor=False)
st.caption("How is attention a soft dictionary? Ask for a key that is there, then for one in between, and soften.")

left, right = st.columns(2, gap="large")
with left:
    dictionary = dictionary_table.dictionary()
    query = query_picker.query(dictionary)
    notch = query_picker.softness()
    result = st.container()
with right:
    choices = st.container(horizontal=True)
    settings = st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall")
    with choices:
        score = query_picker.similarity(settings)
        colored_by = plane.coloring()

by = mechanism(notch, score)
answer = look_up(dictionary, query, by)
with result:
    numbers.sums(dictionary, query, notch, by.score, answer)
with right:
    plane.show(dictionary, query, by, answer, notch, colored_by)

steps, why = st.columns([0.6, 0.4], gap="large")
with steps:
    st.markdown("**From uniform to the dictionary:** the weights of this query, notch by notch")
    numbers.limit(dictionary, query, notch, score)
with why:
    st.markdown("**Why soft?** How the result changes when the query moves a little")
    numbers.slopes(dictionary, query, notch, score)
    st.caption(
        "Training moves queries and keys a little to where the result gets better, along this gradient (the gray arrow "
        "in the plane). A hard choice gives zero, which says nothing about where to go."
    )
    dictionary_table.as_text()
st.caption(
    "**What you are seeing.** Each arrow is a *key*, and its number the *value* stored under it; the orange arrow is "
    "the *query*. A dictionary returns the value whose key equals the query, or nothing. Attention compares the query "
    "with every key (*similarity*), turns that into *weights* that add up to 1, and returns the sum of all values, "
    "each times its weight. The plane shows what every other query would get."
)
