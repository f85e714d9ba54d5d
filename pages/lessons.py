"""Lessons: from a dictionary to the heads of a transformer, one page in one state at a time."""

import streamlit as st

from attnviz.lessons.lesson_files import FOLDER, Lesson, read_lessons
from attnviz.ui import presentation
from attnviz.ui.heading import heading
from attnviz.ui.html import Markup, element, join
from attnviz.ui.markdown import plain


def card(number: int, lesson: Lesson) -> Markup:
    """A lesson. Its link is an ordinary one: it opens the page anew, with nothing of what was done there."""
    link = lesson.link(*([(presentation.KEY, presentation.ON)] if presentation.presenting() else []))
    questions = (
        element("details", element("summary", question.ask), element("p", question.answer))
        for question in lesson.questions
    )
    title = element("a", lesson.title, href=link, target="_self")
    about = element("div", title, element("p", lesson.about), *questions)
    return element("article", element("span", number, class_="attnviz-number"), about, class_="attnviz-lesson")


heading(
    "Lessons",
    "From a dictionary to the heads of a transformer, a few minutes each. A lesson opens a page in the right state; "
    "come back for its questions, think, and unfold the answers.",
)
good, broken = read_lessons(FOLDER)
for problem in broken:
    st.error(plain(problem), icon=":material/error:")
st.html(element("div", join(card(*one) for one in enumerate(good, 1)), class_="attnviz-lessons"))
