"""All lessons, those in the visitor's language first, with the way to write one."""

from collections.abc import Sequence

import streamlit as st

from attnviz.base.language import _, current_language
from attnviz.lessons.lesson_files import Lesson
from attnviz.page.html import Markup, element, join
from attnviz.ui import lesson_draft, presentation
from attnviz.ui.classroom.teacher import start_button
from attnviz.ui.handout import handout_address
from attnviz.ui.heading import page_heading
from attnviz.ui.lesson_strip import shipped_lessons
from attnviz.ui.markdown import plain
from attnviz.ui.server.addresses import address

# What speakers call their language.
LANGUAGES = {
    "ar": "العربية", "de": "Deutsch", "en": "English", "es": "Español", "fr": "Français", "he": "עברית",
    "hi": "हिन्दी", "it": "Italiano", "ja": "日本語", "ko": "한국어", "nl": "Nederlands", "pl": "Polski",
    "pt": "Português", "ru": "Русский", "tr": "Türkçe", "uk": "Українська", "zh": "中文",
}  # fmt: skip


def show() -> None:
    """Draws the lessons: in the visitor's language in view, all others folded, and below them what teachers need."""
    good, broken = shipped_lessons()
    page_heading("lessons")
    for problem in broken:
        st.error(plain(problem), icon=":material/error:")
    own, *others = by_language(good, current_language()) or [("", [])]
    more = (_folded(element("span", _name(one), lang=one), _lessons(lessons)) for one, lessons in others)
    teach = element("div", *_ways_to_write(), start_button("lessons"), class_="attnviz-row attnviz-links")
    papers = (element("article", *map(_for_teachers, lessons)) for _language, lessons in (own, *others))
    st.html(_lessons(own[1]) + join(more) + _folded(_("For teachers"), teach, *papers))


def by_language(lessons: Sequence[Lesson], own: str) -> list[tuple[str, list[Lesson]]]:
    """Returns the lessons by their languages, without regions, their `own` first.

    Example:
        >>> from attnviz.lessons.lesson_files import Lesson
        >>> one, two = (Lesson(code, "", "", (), code) for code in ("en", "de-AT"))
        >>> [(code, len(some)) for code, some in by_language([one, two], "de")]
        [('de', 1), ('en', 1)]
    """
    languages = [*dict.fromkeys(_without_region(lesson.language) for lesson in lessons)]
    ordered = sorted(languages, key=lambda language: language != own)
    return [(one, [each for each in lessons if _without_region(each.language) == one]) for one in ordered]


def _without_region(language: str) -> str:
    return language.partition("-")[0].lower()


def _ways_to_write() -> list[Markup]:
    ways = [element("a", _("Write a lesson"), href=lesson_draft.write_address(lesson_draft.NEW))]
    if draft := lesson_draft.current():
        ways.insert(0, element("a", _("Go on with your lesson"), href=lesson_draft.write_address(draft.name)))
    return ways


def _name(language: str) -> str:
    return LANGUAGES.get(language, language)


def _folded(title: object, *content: object) -> Markup:
    return element("details", element("summary", title), *content, class_="attnviz-folded")


def _lessons(lessons: Sequence[Lesson]) -> Markup:
    return element(
        "div", *(_card(number, lesson) for number, lesson in enumerate(lessons, 1)), class_="attnviz-lessons"
    )


def _card(number: int, lesson: Lesson) -> Markup:
    """Returns a lesson: its link, what it is about, and a tick if it is finished."""
    link = lesson.link(1, *([presentation.PRESENTING] if presentation.presenting() else []))
    title = element("a", lesson.title, href=address(f"/{link}"), target="_self")
    finished = _("Finished in this browser")
    named = {"title": finished, "aria_label": finished, "role": "img"}
    tick = element("span", "✓", class_="attnviz-tick", data_lesson=lesson.name, hidden="", **named)
    return element(
        "article",
        element("span", number, tick, class_="attnviz-number"),
        element("div", title, element("p", lesson.about), lang=_foreign(lesson)),
        class_="attnviz-lesson",
    )


def _for_teachers(lesson: Lesson) -> Markup:
    """Returns a lesson with its questions, whose answers are folded, its handout, and a copy to edit."""
    questions = (
        element("details", element("summary", step.ask), element("p", step.answer)) for step in lesson.steps if step.ask
    )
    paper = element("a", _("Handout to print"), href=handout_address(lesson), target="_self")
    copy = element("a", _("Edit a copy"), href=lesson_draft.write_address(lesson.name))
    about = element("div", *questions, lang=_foreign(lesson))
    return _folded(element("span", lesson.title, lang=_foreign(lesson)), about, element("p", paper, " · ", copy))


def _foreign(lesson: Lesson) -> str | None:
    return None if lesson.language == current_language() else lesson.language
