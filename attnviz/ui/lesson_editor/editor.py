"""The editor as a whole: what can be done with the lesson, its form, and beside it the text of its file.

The text is the one state. The form is drawn from it and writes it; a mistake in the text stays in the text.
"""

import re

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.language import ENGLISH, N_, _, current_language, plural, value_error
from attnviz.lessons.lesson_files import MOST_FILE_BYTES, Lesson, decode, parse_lesson, parse_table
from attnviz.lessons.lesson_tables import NEW_LESSON, can_be_edited
from attnviz.lessons.lesson_text import IN_LINK, lesson_text, table_text, text_in_link
from attnviz.page.html import Markup, element
from attnviz.ui import lesson_draft
from attnviz.ui.handout import handout_address
from attnviz.ui.heading import heading
from attnviz.ui.lesson_draft import IN_SESSION, NEW, TEXT, Draft
from attnviz.ui.lesson_editor.form import edit_lesson
from attnviz.ui.lesson_strip import shipped_lessons
from attnviz.ui.markdown import plain
from attnviz.ui.server.addresses import address
from attnviz.ui.session_values import SessionValue, read_widget, write_widget

UPLOAD = "lesson-upload"
UPLOAD_PROBLEM = SessionValue("lesson upload refused", str)  # why the last file was refused
LINE = re.compile(r"(?:(?:Line|Zeile) |at line )([0-9]+)")
TOO_LONG = N_("This lesson is too long for a link: it stays in this session alone. Download its file to keep it.")


def is_writing() -> bool:
    """Returns whether the link opens the editor."""
    return bool(lesson_draft.linked_name())


def show() -> None:
    """Draws the editor."""
    heading(
        _("Write a lesson"),
        _("Pages as you set them up, and your questions about them. The link keeps what you write."),
    )
    notes = st.container()
    draft = _draft(notes)
    actions = st.container(horizontal=True, vertical_alignment="center", gap="small", key="lesson-actions")
    left, right = st.columns([0.6, 0.4], gap="large")
    with left:
        slots = _show_form(draft)
    lesson, problem = _read(draft)
    with right:
        _show_text(draft, lesson, problem)
    for number, slot in enumerate(slots if lesson else (), 1):
        assert lesson
        link = element("a", _("Preview this step"), href=address(f"/{lesson.link(number)}"))
        slot.html(element("div", link, class_="attnviz-row attnviz-links"))
    with actions:
        _show_actions(draft, lesson)
    if draft.name == IN_SESSION:
        notes.info(_(TOO_LONG))
    elif lesson_draft.has_replaced():
        with notes.container(horizontal=True, vertical_alignment="center"):
            note = _("The lesson that you wrote before is too long for a link. It is still in this session.")
            st.caption(note, width="content")
            st.button(_("Continue it"), on_click=lesson_draft.restore, args=(draft,), type="tertiary")
    lesson_draft.show_in_link(draft)


def _draft(notes: DeltaGenerator) -> Draft:
    """Returns the draft, with the text of the link if that is another one; or as it was, if the link has none."""
    draft = lesson_draft.current()
    if draft and lesson_draft.is_linked(draft):
        lesson_draft.take_typed_text(draft)
        return draft
    try:
        return lesson_draft.begin(_opened_text(lesson_draft.linked_name()))
    except ValueError as problem:
        notes.error(plain(str(problem)), icon=":material/error:")
    return draft or lesson_draft.begin(_new_text())


def _opened_text(name: str) -> str:
    """Returns the text that a link opens: an empty lesson, a file's or its own. Raises ValueError if it has none."""
    if name == NEW:
        return _new_text()
    if name == IN_SESSION:
        return lesson_draft.session_text()
    if name.startswith(IN_LINK):
        return text_in_link(name)
    files = {lesson.name: lesson for lesson in shipped_lessons()[0]}
    if name not in files:
        raise value_error("There is no lesson “{name}” to copy.", name=f"{name:.60}")
    return lesson_text(files[name])


def _new_text() -> str:
    """Returns an empty lesson, in the language of the visitor."""
    code = current_language()
    return table_text(NEW_LESSON if code == ENGLISH else {"language": code, **NEW_LESSON})


def _read(draft: Draft) -> tuple[Lesson | None, str]:
    """Returns the lesson of the draft, or what is wrong with it."""
    try:
        return parse_lesson(draft.name, draft.text), ""
    except ValueError as problem:
        return None, str(problem)


def _show_form(draft: Draft) -> list[DeltaGenerator]:
    """Draws the form, which writes the text; none where the text cannot be shown in fields. Returns a place in the form
    of each step."""
    try:
        table = parse_table(draft.text)
    except ValueError:
        table = {"title": 0}
    if not can_be_edited(table):
        st.info(
            _("The text of the file has a mistake. Correct it there, and the form comes back."),
            icon=":material/edit_off:",
        )
        return []
    edited, slots = edit_lesson(draft, table)
    if edited != table:
        draft.change_in_form(table_text(edited))
    elif lesson_draft.take_earlier_text(draft):
        st.rerun()
    return slots


def _show_text(draft: Draft, lesson: Lesson | None, problem: str) -> None:
    write_widget(TEXT, draft.text)
    with st.container(key="lesson-file"):
        st.html(_verdict(draft.text, lesson, problem))
        st.text_area(_("The file of this lesson"), key=TEXT, height=560, max_chars=MOST_FILE_BYTES)
        st.caption(_("The form and the file are the same lesson: change either."))


def _verdict(text: str, lesson: Lesson | None, problem: str) -> Markup:
    """Returns whether the text is a lesson, or its mistake with the line that it is about."""
    if lesson:
        count = sum(bool(step.ask) for step in lesson.steps)
        sentence = plural(
            "A whole lesson, with {count} question.", "A whole lesson, with {count} questions.", count, count=count
        )
        return element("p", sentence, class_="attnviz-verdict attnviz-solved", role="status")
    place, lines = LINE.search(problem), text.splitlines()
    number = int(place[1]) if place else 0
    line = lines[number - 1][:200] if 0 < number <= len(lines) else ""
    quote = [element("code", f"{number}  {line}")] if line.strip() else []
    return element("div", element("p", problem), *quote, class_="attnviz-mistake", role="status")


def _show_actions(draft: Draft, lesson: Lesson | None) -> None:
    preview = element("span", _("Preview"), class_="attnviz-off", aria_disabled="true")
    if lesson:
        preview = element("a", _("Preview"), href=address(f"/{lesson.link()}"), class_="attnviz-main")
    st.html(element("div", preview, class_="attnviz-row attnviz-links"), width="content")
    st.download_button(
        _("Download"),
        draft.text,
        f"{lesson_draft.file_stem(lesson)}.toml",
        "application/toml",
        icon=":material/download:",
        on_click="ignore",
    )
    with st.popover(_("Upload"), icon=":material/upload:"):
        st.file_uploader(_("A lesson file, at most 64 KB"), key=UPLOAD, max_upload_size=1, on_change=_upload)
        if refusal := UPLOAD_PROBLEM.get():
            st.error(plain(refusal))
    if lesson:
        with st.popover(_("Link"), icon=":material/link:"):
            if lesson.name == IN_SESSION:
                st.caption(_(TOO_LONG))
            else:
                st.caption(_("Whoever opens this link gets the lesson. Nothing of it is stored on the server."))
                st.code(f"{lesson_draft.app_address()}/{lesson.link()}", language=None)
    ways = [element("a", _("Handout"), href=handout_address(lesson))] if lesson else []
    ways.append(element("a", _("All lessons"), href=address("/lessons")))
    st.html(element("div", *ways, class_="attnviz-row attnviz-links"), width="content")


def _upload() -> None:
    """Takes a file that is a lesson; of another one, its mistake is shown, and the draft stays."""
    UPLOAD_PROBLEM.set("")
    if (file := read_widget(UPLOAD)) is None:
        return
    try:
        text = decode(file.getvalue() if file.size <= MOST_FILE_BYTES else bytes(MOST_FILE_BYTES + 1))
        parse_lesson("upload", text)
    except ValueError as problem:
        UPLOAD_PROBLEM.set(_("{name} is not accepted. {problem}", name=f"{file.name:.60}", problem=problem))
        return
    draft = lesson_draft.begin(text)
    write_widget(TEXT, draft.text)
