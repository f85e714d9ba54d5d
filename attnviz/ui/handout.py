"""A lesson for paper: its questions with room to write, and the answers on a page of their own."""

from urllib.parse import quote

import streamlit as st

from attnviz.lessons.checks import Choice
from attnviz.lessons.lesson_files import Lesson, LessonStep
from attnviz.ui.addresses import address
from attnviz.ui.html import Markup, element

HANDOUT = "handout"  # link parameter


def handout_address(lesson: Lesson) -> str:
    """Returns the address of the handout of a lesson."""
    return address(f"/lessons?{HANDOUT}={quote(lesson.name)}")


def handout(lesson: Lesson) -> Markup:
    """Returns a lesson for paper: the questions with room to write, and the answers on a page of their own."""
    steps = [step for step in lesson.steps if step.ask]
    questions = (element("li", element("p", step.ask), _answer_space(step)) for step in steps)
    link = f"{(st.context.url or '').rpartition('/')[0]}/{lesson.link()}"
    answers = element("ol", *(element("li", step.answer) for step in steps))
    return element(
        "div",
        element("a", "← All lessons", href=address("/lessons"), target="_self"),
        element("h2", lesson.title),
        element("p", lesson.about),
        element("p", link, class_="attnviz-note"),
        element("ol", *questions),
        element("section", element("h2", f"{lesson.title}: answers"), answers),
        class_="attnviz-handout",
    )


def _answer_space(step: LessonStep) -> Markup:
    """Returns the texts to choose from, or lines to write on."""
    if not isinstance(step.check, Choice):
        return element("div", class_="attnviz-lines")
    return element("ul", *(element("li", f"☐ {option}") for option in step.check.options))
