"""What a teacher can ask the room about the page that is open."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from attnviz.classroom import Question

_KEY = "class questions"
Offer = Callable[[], Mapping[str, Question]]  # by what the teacher reads in the menu


def offer(questions: Offer) -> None:
    """Adds questions about what this run draws; they are made if a class is taught here."""
    st.session_state.setdefault(_KEY, []).append(questions)


def collect() -> dict[str, Question]:
    """Returns the questions of this run; those of which nothing can be asked are left out."""
    offers: Sequence[Offer] = st.session_state.get(_KEY, ())
    return {label: question for questions in offers for label, question in questions().items()}


def discard() -> None:
    """Drops the questions of this run, and with them the arrays that they refer to."""
    st.session_state.pop(_KEY, None)
