"""The teacher's side of a class: each run of a page is sent to the followers, and has the panel at its foot."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import NamedTuple
from urllib.parse import urlsplit

import segno
import streamlit as st

from attnviz.base.language import _, current_language
from attnviz.base.link import page_address
from attnviz.classroom.live_class import LiveClass
from attnviz.classroom.page_link import LONGEST_LINK
from attnviz.classroom.store import LARGEST_VALUE, StoreError, UnknownClass
from attnviz.page.html import Markup, element
from attnviz.ui import presentation, quantities
from attnviz.ui.classroom import class_questions
from attnviz.ui.classroom.access import TEACHER, class_of_teacher
from attnviz.ui.classroom.class_json import class_address
from attnviz.ui.classroom.page_recorder import PageRecorder, compressed, recording
from attnviz.ui.link_state import link_parameters
from attnviz.ui.markdown import plain
from attnviz.ui.server import hosting, scripts
from attnviz.ui.server.addresses import FIRST_PAGE, address
from attnviz.ui.server.page_runs import PageEnd
from attnviz.ui.server.request_language import KEY

_LOGGER = logging.getLogger(__name__)


class _Drawn(NamedTuple):
    """The recording of a run of a page, with the page's name."""

    recorder: PageRecorder
    page: str
    title: str


def taught_class() -> LiveClass | None:
    """Returns the class that the visitor of this run teaches, or None."""
    cookie = st.context.cookies.get(TEACHER, "")
    try:  # Streamlit's AppTest has no request, and so no text
        return class_of_teacher(cookie) if isinstance(cookie, str) else None
    except StoreError as problem:  # the page is shown without the class
        _LOGGER.warning("The classes cannot be read: %s", problem)
        return None


@contextmanager
def lesson_run(page: str, title: str) -> Iterator[None]:
    """Sends what the block draws to the class that is taught here, and draws the teacher's panel below it."""
    live = taught_class()
    drawn = _Drawn(PageRecorder(), page, title) if live else None
    end: PageEnd | None = None
    try:
        with recording(drawn and drawn.recorder):
            try:
                yield
            except PageEnd as page_end:  # what is drawn so far is the page
                end = page_end
        if live and drawn:
            _publish(live, drawn)
            _show_panel(live)
    finally:
        class_questions.discard_questions()
        quantities.discard()
    if end:
        raise end


def start_button(page: str) -> Markup:
    """Returns a button that starts a class and opens this page again; nothing where a class is taught already."""
    if taught_class():
        return Markup("")
    return element(
        "form",
        element("input", type="hidden", name="back", value=_link(page, keep_presenting=True)),
        element("button", _("Start a class")),
        action=address("/class/start"),
        method="post",
        class_="attnviz-start-class",
    )


def _publish(live: LiveClass, drawn: _Drawn) -> None:
    contents = drawn.recorder.contents()
    if len(contents) > LARGEST_VALUE:
        contents = compressed([{"kind": "text", "text": _("This page is too large for phones: look at the screen.")}])
    link = _link(drawn.page)
    if len(link) > LONGEST_LINK:  # of a lesson whose text it holds
        link = drawn.page
    try:
        with suppress(UnknownClass):  # it was ended in another tab
            live.publish(link, drawn.title, contents)
    except StoreError as problem:
        st.warning(plain(str(problem)))


def _link(page: str, keep_presenting: bool = False) -> str:
    """Returns the page and its parameters, as a reader opens it, in a language of their own."""
    of_teacher = (presentation.PRESENTING, (KEY, current_language()))
    page = "explore" if page in ("", FIRST_PAGE) else page  # the first page has no controls and no parameters
    return page_address(page, [one for one in link_parameters() if keep_presenting or one not in of_teacher])


def _show_panel(live: LiveClass) -> None:
    join = f"{_origin()}{class_address(live.code)}"
    image = BytesIO()
    segno.make(join, micro=False).save(image, kind="svg", border=2, xmldecl=False, svgns=True, omitsize=True)
    with st.container(key="class-strip"):
        scripts.mount("ui/classroom")(
            key="class",
            data={
                "address": class_address(live.code),
                "code": live.code,
                "join": join,
                "qr": image.getvalue().decode(),
                "warning": join_warning(join),
                "chart": scripts.components()["attnviz_chart"]["html"],
                "questions": [
                    {"label": label, "question": json.loads(question.to_json())}
                    for label, question in class_questions.page_questions().items()
                ],
            },
        )


def join_warning(join: str) -> str:
    """Returns why phones cannot open the address of a class; empty if they can."""
    if hosting.is_local():
        return _("Only this computer can reach this address. To let phones join, start attnviz with: attnviz --class.")
    if hosting.is_loopback(urlsplit(join).hostname):
        return _(
            "On a phone, this address means the phone itself. Open attnviz at this computer's name or address in the "
            "network, and show the code again."
        )
    return ""


def _origin() -> str:
    parts = urlsplit(st.context.url or "")
    return f"{parts.scheme}://{parts.netloc}"
