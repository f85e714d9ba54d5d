"""The lesson that a visitor writes. Its text is the one thing that is kept: in the link, or in the session where it is
too long for a link."""

import re
from collections import deque
from dataclasses import dataclass, field
from urllib.parse import quote

import streamlit as st

from attnviz.base.language import N_, value_error
from attnviz.lessons.lesson_files import Lesson
from attnviz.lessons.lesson_text import name_in_link
from attnviz.page.every_page import EveryPageState
from attnviz.ui.field_widgets import draw_hidden
from attnviz.ui.link_state import opens_in_place
from attnviz.ui.server.addresses import address
from attnviz.ui.session_values import SessionValue, read_widget, write_widget
from attnviz.ui.widget_values import field_text, set_field_value

WRITE = EveryPageState.write
NEW = "new"  # its value for an empty lesson
TEXT = "lesson-text"  # the field of the text, in the session
IN_SESSION = "draft"  # the name of a lesson whose text is too long for a link
_REPLACED = SessionValue[str | None]("lesson text that no link has", lambda: None)  # of the draft before
NOT_HERE = N_(
    "This lesson is too long for a link: it is in the session of the person who wrote it. "
    "Ask for its file, and upload it at Lessons, Write a lesson."
)


@dataclass
class Draft:
    """The text of the lesson, and which widgets show it."""

    text: str
    edition: int = 0  # a text that the form has not written is a new one, with widgets of its own
    steps: list[int] = field(default_factory=list)  # the numbers of the steps' widgets, which move with the steps
    made: int = 0  # steps so far
    replaced: deque[str] = field(default_factory=lambda: deque(maxlen=8))  # the last texts before changes in the form

    @property
    def name(self) -> str:
        """The name with which a link opens the lesson."""
        return name_in_link(self.text) or IN_SESSION

    def replace_text(self, text: str) -> None:
        """Sets a text that is not from the form."""
        self.text = text
        self.edition += 1
        self.steps = []
        self.replaced.clear()

    def change_in_form(self, text: str) -> None:
        """Sets a text that is from the form."""
        self.replaced.append(self.text)
        self.text = text

    def step_keys(self, count: int) -> list[int]:
        """Returns the numbers of the widgets of `count` steps."""
        while len(self.steps) < count:
            self.steps.append(self.new_step())
        del self.steps[count:]
        return self.steps

    def new_step(self) -> int:
        self.made += 1
        return self.made


_DRAFT = SessionValue[Draft | None]("lesson draft", lambda: None)


def current() -> Draft | None:
    """Returns the draft of this session; None if nothing has been written."""
    return _DRAFT.get()


def linked_name() -> str:
    """Returns the name in the link of the editor."""
    return field_text(WRITE)


def is_linked(draft: Draft) -> bool:
    """Returns whether the link has the text of the draft. Only a run that opens a link can have another one: in others
    the browser may send the link of an earlier run, before it has drawn the last one."""
    return linked_name() == draft.name or not opens_in_place()


def take_typed_text(draft: Draft) -> None:
    """Takes the text that was typed since the last run. A browser that has not drawn that run sends, with a change in
    the form, a text that the form has replaced: nobody has typed it."""
    typed = read_widget(TEXT)
    if typed not in (None, draft.text, *draft.replaced):
        draft.replace_text(typed)


def take_earlier_text(draft: Draft) -> bool:
    """Takes a text that the form has replaced and that was typed again, and returns whether there is one; call it if
    the form is unchanged."""
    typed = read_widget(TEXT)
    if typed == draft.text or typed not in draft.replaced:
        return False
    draft.replace_text(typed)
    return True


def show_in_link(draft: Draft) -> None:
    """Writes the draft into the link; call it once a run."""
    set_field_value(WRITE, draft.name)
    draw_hidden(WRITE)


def begin(text: str) -> Draft:
    """Returns the draft of this session with another text."""
    draft = _DRAFT.get() or Draft(text)
    _DRAFT.set(draft)
    if draft.name == IN_SESSION and draft.text != text:
        _REPLACED.set(draft.text)
    draft.replace_text(text)
    return draft


def has_replaced() -> bool:
    """Returns whether another text has taken the place of one that no link has."""
    return _REPLACED.get() is not None


def restore(draft: Draft) -> None:
    """Sets the text that another one has replaced; call it before a run."""
    draft.replace_text(_REPLACED.pop() or draft.text)
    write_widget(TEXT, draft.text)


def session_text() -> str:
    """Returns the text of the draft. Raises ValueError if this session has none."""
    if (draft := current()) is None:
        raise value_error(NOT_HERE)
    return draft.text


def edit_address(name: str) -> str:
    """Returns the address of the editor with a lesson that this session writes; empty for other lessons."""
    draft = current()
    return write_address(name) if draft and draft.name == name else ""


def write_address(name: str) -> str:
    """Returns the address of the editor with the lesson of a name, or with a copy if it is a file's."""
    return address(f"/lessons?{WRITE.parameter}={quote(name)}")


def app_address() -> str:
    """Returns the address of the app, without a page."""
    return (st.context.url or "").rpartition("/")[0]


def file_stem(lesson: Lesson | None) -> str:
    """Returns the name of a lesson's file without its ending, of the letters of its title.

    Example:
        >>> from attnviz.lessons.lesson_files import LessonStep
        >>> file_stem(Lesson("x", "Köpfe & Masken!", "b", (LessonStep("", "", "masks", ()),)))
        'köpfe-masken'
    """
    words = re.findall(r"\w+", lesson.title.lower()) if lesson else []
    return "-".join(words)[:40].strip("-") or "lesson"
