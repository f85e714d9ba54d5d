"""The start page: a small model reads a sentence and goes on with it, a field for another text, and the pages with
their questions."""

import json
from urllib.parse import urlencode

import streamlit as st

from attnviz.base.app_files import ASSETS
from attnviz.base.app_pages import GROUPS, Page, PageGroup
from attnviz.base.formatting import number
from attnviz.base.language import N_, _, current_language
from attnviz.figures.sentences import cell_sentence
from attnviz.layer import head_name
from attnviz.lessons.lesson_files import Lesson
from attnviz.page.html import Markup, element, join
from attnviz.ui import presentation
from attnviz.ui.lesson_strip import shipped_lessons
from attnviz.ui.server import scripts
from attnviz.ui.server.addresses import address

MODEL = "SmolLM2"  # which assets/start/make.py has recorded
LONGEST_TEXT = 300  # characters
ABOUT = N_(
    "Attention lets every word take what it needs from the words before it: much from some, next to nothing from most."
)
TEACH = N_("In a class, every page fills a projector, and its link opens exactly the state that you have set.")


def show_picture() -> None:
    """Draws the recording; its root has data-ready="true" once drawn."""
    recorded = json.loads((ASSETS / "start" / "writing.json").read_text(encoding="utf-8"))
    read, rows = recorded["read"], recorded["weights"]
    words = [token.strip() for token in recorded["tokens"]]
    text, written = ("".join(part) for part in (recorded["tokens"][:read], recorded["tokens"][read:]))
    about = _("{model} reads “{text}” and goes on: “{written}”", model=MODEL, text=text, written=written.strip())
    sentences = [
        cell_sentence(word, words[row.index(max(row))], max(row)) if row else about
        for word, row in zip(words, rows, strict=True)
    ]
    candidates = [
        [(token.strip(), probability, number(probability)) for token, probability in step]
        for step in recorded["candidates"]
    ]
    for row, (likeliest, *_others) in enumerate(candidates, read - 1):
        sentences[row] += " " + _("The likeliest next word is {word}.", word=likeliest[0])
    data = {"words": words, "read": read, "weights": rows, "candidates": candidates, "sentences": sentences}
    scripts.mount("ui/start")(key="picture", data=data | {"about": about})
    link = recorded["link"]
    note = _(
        "{model}, a small language model, has written this. The lines are what {head} looks at.",
        model=MODEL,
        head=head_name(link["layer"], recorded["head"]),
    )
    st.html(element("p", note, " ", _link(_("Watch it write"), f"write?{urlencode(link)}"), class_="attnviz-note"))


def show_ways() -> None:
    """Draws what attention is in a sentence, a field whose text Explore shows, the first lesson, the pages with their
    questions, and a way to present."""
    first, label = _first_lesson(), _("Your own sentence")
    own = {"name": "text", "maxlength": LONGEST_TEXT, "required": "", "autocomplete": "off"}
    field, button = element("input", placeholder=label, aria_label=label, **own), element("button", _("Explore it"))
    form = element("form", field, button, action=address("/explore"), class_="attnviz-row attnviz-own-text")
    begin = _link(_("Lesson 1: {title}", title=first.title), first.link(), class_="attnviz-main")
    present = _link(_("Present lesson 1"), first.link(1, presentation.PRESENTING))
    st.html(
        element("p", _(ABOUT), class_="attnviz-about")
        + form
        + element("div", begin, class_="attnviz-row attnviz-links")
        + element("div", join(map(_group, GROUPS)), class_="attnviz-groups")
        + element("p", _(TEACH), " ", present, class_="attnviz-teach")
    )


def _first_lesson() -> Lesson:
    lessons = shipped_lessons()[0]
    return next((lesson for lesson in lessons if lesson.language == current_language()), lessons[0])


def _group(group: PageGroup) -> Markup:
    return element("article", element("h2", _(group.title)), element("ul", join(map(_entry, group.pages))))


def _entry(page: Page) -> Markup:
    return element("li", _link(_(page.title), page.name), " ", element("span", _(page.question)))


def _link(text: str, page: str, **attributes: str) -> Markup:
    return element("a", text, href=address(f"/{page}"), target="_self", **attributes)
