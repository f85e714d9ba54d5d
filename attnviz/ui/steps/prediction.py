"""Predict, then reveal: from a query's scores to its weights."""

from html import escape

import streamlit as st

from attnviz.formatting import fixed, visible
from attnviz.ui import prediction
from attnviz.ui.steps.walkthrough import Walk


def show(shown: Walk, head: int, row: int) -> None:
    """The scores of one query, from which the reader guesses its weights."""
    inputs = shown.steps.inputs
    head = min(head, inputs.heads - 1)
    attention = shown.steps.mechanism(inputs, heads=[head], rows=[row])
    scores = [fixed(float(score)) if score.isfinite() else "masked" for score in attention.scores[0, 0]]
    query = inputs.query_tokens[row]
    head_cells = "".join(f"<th>{escape(visible(key))}</th>" for key in inputs.key_tokens)
    cells = "".join(f"<td>{score}</td>" for score in scores)
    st.html(
        f"<p>These are the scores of <b>{escape(visible(query))}</b>, before the softmax. What will its weights be?</p>"
        f"<table class='attnviz-table'><tr>{head_cells}</tr><tr>{cells}</tr></table>"
    )
    weights = attention.weights[0, 0].where(attention.allowed[0, 0], float("nan"))
    prediction.ask("steps", query, inputs.key_tokens, weights.numpy())
