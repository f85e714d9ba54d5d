"""Lessons: from a dictionary to the heads of a transformer, one page in one state at a time."""

import streamlit as st

from attnviz.lessons.lesson_files import Lesson
from attnviz.ui import presentation
from attnviz.ui.addresses import address
from attnviz.ui.classroom.teacher import start_button
from attnviz.ui.handout import HANDOUT, handout, handout_address
from attnviz.ui.heading import heading
from attnviz.ui.html import Markup, element, join
from attnviz.ui.lesson_strip import shipped_lessons
from attnviz.ui.markdown import plain


def card(number: int, lesson: Lesson) -> Markup:
    """Returns a lesson with its link, and its questions, whose answers are folded."""
    link = lesson.link(1, *([presentation.PRESENTING] if presentation.presenting() else []))
    questions = (
        element("details", element("summary", step.ask), element("p", step.answer)) for step in lesson.steps if step.ask
    )
    title = element("a", lesson.title, href=address(f"/{link}"), target="_self")
    paper = element("a", "Handout to print", href=handout_address(lesson), target="_self", class_="attnviz-paper")
    about = element("div", title, element("p", lesson.about), *questions, element("p", paper))
    return element("article", element("span", number, class_="attnviz-number"), about, class_="attnviz-lesson")


good, broken = shipped_lessons()
chosen = next((lesson for lesson in good if lesson.name == st.query_params.get(HANDOUT)), None)
if chosen:
    st.html(handout(chosen))
    st.stop()
heading(
    "Lessons",
    "From a dictionary to the heads of a transformer, a few minutes each. A lesson opens a page in the right state "
    "and asks; answers are checked against what the page computes.",
)
if button := start_button("lessons"):
    st.html(button)
for problem in broken:
    st.error(plain(problem), icon=":material/error:")
st.html(element("div", join(card(*one) for one in enumerate(good, 1)), class_="attnviz-lessons"))
