"""A lesson for paper: its questions with their pictures and room to write, and the answers on a page of their own."""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import streamlit as st

from attnviz.base.formatting import visible
from attnviz.base.language import ENGLISH, LANGUAGES, _, language
from attnviz.figures.sentences import cell_sentence
from attnviz.figures.svg import BAR_HEIGHT, MOST, svg_row
from attnviz.lessons.checks import Choice
from attnviz.lessons.lesson_files import Lesson, LessonStep
from attnviz.page.html import Markup, element
from attnviz.page.page_view import PageView, Panel
from attnviz.pages.catalogue import step_view
from attnviz.ui.lesson_draft import app_address, file_stem
from attnviz.ui.lesson_strip import find_lesson
from attnviz.ui.markdown import plain
from attnviz.ui.server.addresses import address

HANDOUT = "handout"  # link parameter
STYLE = Path(__file__).with_name("handout.css")
FILE_STYLE = """
@page { margin: 18mm 17mm; }
body { font-family: "Source Sans 3", "Segoe UI", Helvetica, Arial, sans-serif; margin: 2rem auto; max-width: 44rem; }
@media print { body { margin: 0; max-width: none; } }
"""
LONGEST_LINK = 130  # characters that somebody would type
SMALL_BARS = 54  # the height of bars where there are several pictures


def is_handout() -> bool:
    """Returns whether the link opens the handout of a lesson."""
    return HANDOUT in st.query_params


def show() -> None:
    """Draws the handout of the lesson that the link names, and its download."""
    try:
        lesson = find_lesson(st.query_params[HANDOUT])
    except ValueError as problem:
        st.error(plain(str(problem)), icon=":material/error:")
        return
    app = app_address()
    with st.container(horizontal=True, vertical_alignment="center", key="handout-actions"):
        every = element("a", _("← All lessons"), href=address("/lessons"))
        st.html(element("div", every, class_="attnviz-row attnviz-links"), width="content")
        file, name, kind = handout_file(lesson, app), f"{file_stem(lesson)}.html", "application/octet-stream"
        icon, about = ":material/download:", _("One file, which prints without a connection")
        st.download_button(_("Download"), file, name, kind, icon=icon, on_click="ignore", help=about)
        st.caption(_("Print this page with the browser: the answers are on a page of their own."))
    st.html(handout(lesson, app, as_images=True))


def handout_address(lesson: Lesson) -> str:
    """Returns the address of the handout of a lesson."""
    return address(f"/lessons?{HANDOUT}={quote(lesson.name)}")


def handout_file(lesson: Lesson, app: str) -> str:
    """Returns the handout as one HTML file, which loads nothing; `app` is the address of the app, for links."""
    rules = STYLE.read_text(encoding="utf-8") + FILE_STYLE
    head = (
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width">')
        + element("title", lesson.title)
        + element("style", Markup(rules))
    )
    page = element("html", element("head", head), element("body", handout(lesson, app)), lang=lesson.language)
    return str(Markup("<!doctype html>\n") + page)


def handout(lesson: Lesson, app: str, *, as_images: bool = False) -> Markup:
    """Returns the questions and the answers of a lesson, in its language if that has translations. Its
    pictures are SVG elements, or images where those are not allowed."""
    own = lesson.language.partition("-")[0].lower()
    paper = _Paper(lesson, app, as_images)
    numbered = [(number, step) for number, step in enumerate(lesson.steps, 1) if step.ask]
    with language(own if own in LANGUAGES else ENGLISH):
        questions = [paper.question(number, step) for number, step in numbered]
        answers = [paper.answer(number, step) for number, step in numbered]
        return element(
            "article",
            element("h1", lesson.title),
            element("p", lesson.about, class_="attnviz-about"),
            element("p", paper.link(1), class_="attnviz-place"),
            element("div", element("span", _("Name")), element("span", _("Date")), class_="attnviz-name"),
            element("ol", *questions, class_="attnviz-questions"),
            element(
                "section",
                element("h2", _("{title}: answers", title=lesson.title)),
                element("ol", *answers, class_="attnviz-questions"),
            ),
            class_="attnviz-handout",
            lang=lesson.language,
        )


@dataclass
class _Paper:
    """The printed part of one lesson."""

    lesson: Lesson
    app: str
    as_images: bool
    views: dict[int, PageView | None] = field(default_factory=dict)  # of the steps that open a page

    def question(self, number: int, step: LessonStep) -> Markup:
        """Returns the question of a step with its pictures, without the weights that are to be predicted."""
        parts = [element("p", step.ask, class_="attnviz-asked")]
        if step.state is not None:
            view = self.views[number] = step_view(step.page, step.state)
            pictures = self.pictures(view, hidden=True) if view else Markup()
            parts += [pictures] if pictures else []
            if number > 1 or not pictures:
                sentence = (
                    _("In the app: {link}") if pictures else _("This step has no figure on paper. In the app: {link}")
                )
                link = self.link(number, _("step {number}", number=number))
                parts.append(element("p", Markup(sentence).format(link=link), class_="attnviz-place"))
        return element("li", *parts, _answer_space(step))

    def answer(self, number: int, step: LessonStep) -> Markup:
        """Returns the answer of a step, with what was to be predicted."""
        view = self.views.get(number)
        right = [element("p", f"✓ {step.check.right}")] if isinstance(step.check, Choice) else []
        pictures = [self.pictures(view)] if view and view.predicted else []
        return element("li", *right, element("p", step.answer), *pictures)

    def pictures(self, view: PageView, *, hidden: bool = False) -> Markup:
        """Returns the pictures of a page; nothing if they are too large for paper."""
        try:
            figures = [
                self.figure(
                    panel, view.end(panel), len(view.panels), hidden and view.predicted and panel.row is not None
                )
                for panel in view.panels
            ]
        except ValueError:
            return Markup()
        if view.note and figures:
            figures.append(element("p", view.note, class_="attnviz-place"))
        return element("div", *figures, class_="attnviz-pictures") if figures else Markup()

    def figure(self, panel: Panel, largest: float, count: int, hides: bool) -> Markup:
        """Returns one of `count` pictures with its caption; without its weights if it `hides` them."""
        alternative, size = _alternative(panel, hides), BAR_HEIGHT if count == 1 else SMALL_BARS
        svg = svg_row(None, panel.key_tokens, largest=largest) if hides else panel.to_svg(largest, most=MOST, size=size)
        if self.as_images:
            source = f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
            image = Markup('<img src="{}" alt="{}">').format(source, alternative)
        else:
            image = svg.replace("<svg ", Markup('<svg role="img" aria-label="{}" ').format(alternative), 1)
        return element("figure", image, element("figcaption", _caption(panel, hides)))

    def link(self, number: int, text: str = "") -> Markup:
        """Returns a link to a step, by default with its address, if that is short enough to be typed."""
        target = f"{self.app}/{self.lesson.link(number)}"
        if text or len(target) <= LONGEST_LINK:
            return element("a", text or target, href=target)
        return element("a", _("Open this lesson"), href=target, class_="attnviz-screen")


def _caption(panel: Panel, hides: bool) -> str:
    if hides:
        query = _("“{text}”", text=visible(panel.query_tokens[panel.row or 0]))
        return _("{title}: share ten points among the keys of {query}.", title=panel.title, query=query)
    if panel.is_row:
        return panel.title
    return _("{title}: queries from top to bottom, keys from left to right.", title=panel.title)


def _alternative(panel: Panel, hides: bool) -> str:
    """Returns what the picture says, in words."""
    if hides or panel.row is None or panel.is_signed:
        return _caption(panel, hides)
    row = panel.weights[panel.row]
    shown = [i for i in (-row).argsort() if row[i] == row[i]][:3]
    sentences = (cell_sentence(panel.query_tokens[panel.row], panel.key_tokens[i], float(row[i])) for i in shown)
    return f"{panel.title}. {' '.join(sentences)}"


def _answer_space(step: LessonStep) -> Markup:
    """Returns the texts to choose from, or lines to write on."""
    if not isinstance(step.check, Choice):
        return element("div", class_="attnviz-lines")
    return element("ul", *(element("li", option) for option in step.check.options), class_="attnviz-options")
