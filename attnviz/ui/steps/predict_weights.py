"""Predict, then reveal: from a query's scores to its weights."""

import streamlit as st

from attnviz.formatting import fixed, visible
from attnviz.language import _
from attnviz.page.html import Markup, element, table
from attnviz.state.steps import StepsState
from attnviz.ui import prediction_form


def show(state: StepsState) -> None:
    """Draws the scores of one query, from which the reader predicts its weights."""
    inputs, head, row = state.steps.inputs, state.head_shown, state.query
    attention = state.steps.mechanism(inputs, heads=[head], rows=[row])
    scores = [fixed(float(score)) if score.isfinite() else _("masked") for score in attention.scores[0, 0]]
    query = inputs.query_tokens[row]
    question = Markup(_("These are the scores of {query}, before the softmax. What will its weights be?"))
    st.html(
        element("p", question.format(query=element("b", visible(query))))
        + table([_("key"), *map(visible, inputs.key_tokens)], [[_("score"), *scores]])
    )
    prediction_form.predict("steps", query, inputs.key_tokens, attention.maps[0, 0].numpy())
