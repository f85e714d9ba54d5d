"""Lessons: from a dictionary to the heads of a transformer, one page in one state at a time."""

from html import escape

import streamlit as st

from attnviz.lessons.lesson_files import FOLDER, Lesson, lessons
from attnviz.ui import presentation
from attnviz.ui.markdown import plain


def card(number: int, lesson: Lesson) -> str:
    """A lesson as HTML. Its link is an ordinary one: it opens the page anew, with nothing of what was done there."""
    link = escape(lesson.link(*([("present", "1")] if presentation.presenting() else [])))
    questions = "".join(
        f"<details><summary>{escape(question.ask)}</summary><p>{escape(question.answer)}</p></details>"
        for question in lesson.questions
    )
    return (
        f"<article class='attnviz-lesson'><span class='attnviz-number'>{number}</span>"
        f"<div><a href='{link}' target='_self'>{escape(lesson.title)}</a><p>{escape(lesson.about)}</p>"
        f"{questions}</div></article>"
    )


st.subheader("Lessons", anchor=False)
st.caption(
    "From a dictionary to the heads of a transformer, a few minutes each. A lesson opens a page in the right state; "
    "come back for its questions, think, and unfold the answers."
)
good, broken = lessons(FOLDER)
for problem in broken:
    st.error(plain(problem), icon=":material/error:")
st.html(f"<div class='attnviz-lessons'>{''.join(card(*one) for one in enumerate(good, 1))}</div>")
