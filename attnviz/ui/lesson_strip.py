"""The lesson that a link opens: a question above the picture, a check of the answer, and the way to the next step."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.base.app_pages import PAGES
from attnviz.base.language import N_, _, value_error
from attnviz.base.link import page_address
from attnviz.classroom.question import lesson_question
from attnviz.lessons import lesson_files
from attnviz.lessons.checks import Choice, Condition, NumberCheck, Quantities, Tap, token_weights
from attnviz.lessons.lesson_files import LESSON, STEP, Lesson, LessonStep, parse_lesson, read_lessons
from attnviz.lessons.lesson_text import IN_LINK, text_in_link
from attnviz.page.blocks import Computed, every_block
from attnviz.page.every_page import EveryPageState
from attnviz.page.html import Markup, element, join
from attnviz.pages.catalogue import BLOCKS, read_state
from attnviz.ui import cache, lesson_draft, presentation, quantities
from attnviz.ui.classroom import class_questions
from attnviz.ui.field_widgets import draw_hidden
from attnviz.ui.job_progress import Work, begin_ahead
from attnviz.ui.link_state import link_parameters
from attnviz.ui.markdown import plain
from attnviz.ui.server.addresses import address
from attnviz.ui.server.page_runs import PageEnd
from attnviz.ui.session_values import SessionValue
from attnviz.ui.widget_values import field_text, set_field_value

RIGHT = EveryPageState.right.parameter
WAITING, SOLVED, WRONG = "waiting", "solved", "unsolved"
VERDICTS = {SOLVED: N_("Right."), WRONG: N_("Not yet. Look again, or reveal the answer.")}
TO_REACH = {SOLVED: N_("Right: you are there."), WRONG: N_("Not there yet.")}


class _Drawn(NamedTuple):
    """The step that was drawn last: the start of the keys of its widgets, its texts, and what its page had computed
    when it was opened."""

    key: str
    texts: Markup
    computed: Quantities


_drawn = SessionValue[_Drawn]("drawn step", lambda: _Drawn("", Markup(), {}))


def shipped_lessons() -> tuple[list[Lesson], list[str]]:
    """Returns the lessons and the errors of files that are not valid; a file that was changed is read again."""
    folder = lesson_files.FOLDER
    stamps = [(path.name, path.stat().st_mtime_ns) for path in sorted(folder.glob("*.toml")) if path.is_file()]
    return cache.once(lambda: read_lessons(folder), "lessons", str(folder), stamps)


def find_lesson(name: str) -> Lesson:
    """Returns the lesson of a name: a file's, one whose text is in the name, or this session's draft. Raises ValueError
    if there is none."""
    lessons = {lesson.name: lesson for lesson in shipped_lessons()[0]}
    if name in lessons:
        return lessons[name]
    if name == lesson_draft.IN_SESSION:
        return parse_lesson(name, lesson_draft.session_text())
    if name.startswith(IN_LINK):
        return cache.once(lambda: parse_lesson(name, text_in_link(name)), "lesson in a link", name)
    raise value_error("There is no lesson “{name}”. Choose one on the page Lessons.", name=f"{name:.60}")


def named_controls() -> tuple[str, ...] | None:
    """Returns the parameters of the controls that the open step of a lesson names, where the others are folded: a
    lesson has its own question. None without a lesson, and in a presentation, which has few controls."""
    if not st.query_params.get(LESSON) or presentation.presenting():
        return None
    try:
        lesson = find_lesson(field_text(EveryPageState.lesson))
    except ValueError:  # which the strip shows
        return ()
    number = _step_number(lesson, field_text(EveryPageState.step))
    return lesson.steps[number - 1].controls if number <= len(lesson.steps) else ()


def _step_number(lesson: Lesson, text: str) -> int:
    """Returns the number of a step that the link names, or that of the result, after the last one; 1 for junk."""
    return next((i for i in range(1, len(lesson.steps) + 2) if str(i) == text), 1)


@contextmanager
def strip(page: str) -> Iterator[None]:
    """Draws the lesson that the link opens above what the block draws, the page: its question before, so that it is
    read while the page computes, and the rest after, when the page has published what answers are checked against."""
    name, linked_number = draw_hidden(EveryPageState.lesson), draw_hidden(EveryPageState.step)
    opened: _Opened | None = None
    if name:
        with st.container(key="lesson-strip"):
            opened = _open(name, linked_number, page)
    end: PageEnd | None = None
    try:
        yield
    except PageEnd as page_end:  # the question stays, and the way out of the lesson
        end = page_end
    if opened:
        _finish(opened)
    else:  # when the step is opened again, its answer has to be asked for again
        _drawn.set(_drawn.get()._replace(texts=Markup()))
    draw_hidden(EveryPageState.right)
    if end:
        raise end


class _Opened(NamedTuple):
    """A step on its page, and where its texts, its answer and the ways from it are drawn."""

    lesson: Lesson
    number: int
    texts: DeltaGenerator
    answers: DeltaGenerator
    ways: DeltaGenerator

    @property
    def step(self) -> LessonStep:
        return self.lesson.steps[self.number - 1]

    @property
    def key(self) -> str:
        """The start of the keys of its widgets."""
        return _key(self.lesson, self.number)


def _key(lesson: Lesson, number: int) -> str:
    return f"{_short_name(lesson)}-{number}"


def _open(name: str, linked_number: str, page: str) -> _Opened | None:
    """Draws the title of the lesson, and the question of the step, with its answer if the last run has shown it;
    returns the step if this is its page."""
    try:
        lesson = find_lesson(name)
    except ValueError as problem:
        st.error(plain(str(problem)))
        return None
    number = _step_number(lesson, linked_number)
    step = lesson.steps[number - 1] if number <= len(lesson.steps) else None
    label = _("Step {number} of {count}", number=number, count=len(lesson.steps)) if step else _("Result")
    with st.expander(f"**{plain(lesson.title)}** · {label} · {_(PAGES[page].title)}", expanded=True):
        texts, answers = st.columns([0.58, 0.42], gap="medium")
        texts = texts.container(key="lesson-texts")
    right = field_text(EveryPageState.right)
    if step is None:
        texts.html(_result(lesson, _answered(lesson)))
    elif step.page != page:
        elsewhere = _("This step is on the page {page}.", page=_(PAGES[step.page].title))
        texts.html(element("p", elsewhere, class_="attnviz-ask"))
    else:
        drawn = _drawn.get()
        is_new = drawn.key != _key(lesson, number) or not drawn.texts
        shown = texts.html(_texts(lesson, number, is_open=True) if is_new else drawn.texts)
        # Of the step before nothing stays; what is drawn again stays until then.
        answers = answers.empty() if is_new else answers
        return _Opened(lesson, number, shown, answers, st.html(_ways(lesson, number, page, right)))
    st.html(_ways(lesson, number, page, right))
    return None


def _finish(opened: _Opened) -> None:
    """Draws what depends on the page: the answer and its check, and the ways to the next step and out."""
    lesson, number = opened.lesson, opened.number
    right = _answered(lesson) | _show_step(opened, quantities.collect())
    set_field_value(EveryPageState.right, ".".join(map(str, sorted(right))))
    opened.ways.html(_ways(lesson, number, opened.step.page, field_text(EveryPageState.right)))
    after = lesson.steps[number] if number < len(lesson.steps) else None
    if after and after.state is not None and after.page in BLOCKS:
        begin_ahead(partial(_measurements, after), "measurements", after.page, after.state)


def _answered(lesson: Lesson) -> set[int]:
    """Returns the steps that have been answered right, which the link says."""
    answered = field_text(EveryPageState.right).split(".")
    return {i for i in range(1, len(lesson.steps) + 1) if str(i) in answered}


def _measurements(step: LessonStep) -> list[Work]:
    """Returns what takes time of a step, more than a few forward passes. Raises ValueError if it cannot be shown."""
    blocks = every_block(BLOCKS[step.page].blocks(read_state(step.page, step.state or ())), of_results=False)
    return [(each.compute, each.key()) for each in blocks if isinstance(each, Computed) and each.work is None]


def _show_step(opened: _Opened, computed: Quantities) -> set[int]:
    """Draws the widget of the answer, the verdict and the texts; returns the step if it is answered right."""
    step, is_open = opened.step, True
    if _drawn.get().key != opened.key:
        _drawn.set(_Drawn(opened.key, Markup(), dict(computed)))
    if step.ask:
        offered = _("This step: {question}", question=step.ask)
        class_questions.offer_question(offered, lambda: lesson_question(step.ask, step.check, computed))
        with opened.answers.container():
            try:
                verdict = _verdict(step, opened.key, computed)
            except ValueError as problem:
                st.warning(plain(_("The answer cannot be checked. {problem}", problem=problem)))
                verdict = WAITING
            with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
                revealed = st.toggle(_("Reveal"), key=f"reveal-{opened.key}")
                sentences = TO_REACH if isinstance(step.check, Condition) else VERDICTS
                text = _(sentences.get(verdict, ""))
                st.html(element("p", text, class_=f"attnviz-verdict attnviz-{verdict}", role="status"))
        is_open = not revealed and verdict != SOLVED
    texts = _texts(opened.lesson, opened.number, is_open)
    opened.texts.html(texts)
    _drawn.set(_drawn.get()._replace(texts=texts))
    return {opened.number} if step.ask and verdict == SOLVED else set()


def _texts(lesson: Lesson, number: int, is_open: bool) -> Markup:
    """Returns the question of a step, and unless it is open its answer; above the first one what the lesson is
    about."""
    step = lesson.steps[number - 1]
    texts = [element("p", lesson.about, lang=lesson.language)] if number == 1 else []
    # The answers of these are in a sentence above the picture, too, which styles hide while the question is open.
    hides = ""
    if is_open and isinstance(step.check, Tap | NumberCheck):
        hides = " attnviz-open-question"
    elif is_open and isinstance(step.check, Choice):  # the sentences of a figure may be what it is about
        hides = " attnviz-open-choice"
    if step.ask:
        texts.append(element("p", step.ask, class_=f"attnviz-ask{hides}", lang=lesson.language))
    if step.ask and not is_open:
        texts.append(element("p", step.answer, class_="attnviz-answer", lang=lesson.language))
    return join(texts)


def _verdict(step: LessonStep, key: str, computed: Quantities) -> str:
    """Draws the widget of the answer. Raises ValueError if the page does not have what it is checked against."""
    answer: object
    match step.check:
        case None:
            return WAITING
        case Choice(options=options):
            answer = st.pills(
                step.ask, options, format_func=plain, key=f"choice-{key}", label_visibility="collapsed", wrap=True
            )
        case Tap(count=1):
            tokens = [*token_weights(computed)]
            answer = st.pills(_("Tap one word."), tokens, format_func=plain, key=f"tap-{key}", wrap=True)
            answer = answer and [answer]
        case Tap(count=count):
            label, tokens = _("Tap {count} words.", count=count), [*token_weights(computed)]
            answer = st.pills(label, tokens, selection_mode="multi", format_func=plain, key=f"tap-{key}", wrap=True)
            if len(answer) < count:
                return WAITING
        case NumberCheck():
            key = f"number-{key}"
            answer = st.number_input(_("Your number"), value=None, step=0.01, format="%.2f", key=key, width=160)
        case Condition():  # nothing is wrong before the reader has changed the page
            answer = True if computed != _drawn.get().computed or step.check.is_right(True, computed) else None
    if answer is None:
        return WAITING
    return SOLVED if step.check.is_right(answer, computed) else WRONG  # type: ignore[arg-type]


def _ways(lesson: Lesson, number: int, page: str, right: str) -> Markup:
    """Returns links to the steps around this one, and out of the lesson."""
    count = len(lesson.steps)

    def link(text: str, to: int, class_: str | None = None, rel: str | None = None) -> Markup:
        href = _step_address(lesson, to, page, right, stays=to >= number)
        return element("a", text, href=href, target="_self", class_=class_, rel=rel)

    ways = []
    if number > count or lesson.steps[number - 1].page == page:
        if number > 1:
            ways.append(link(_("← Previous"), number - 1, rel="prev"))
        if number <= count:
            ways.append(link(_("Next →") if number < count else _("Finish"), number + 1, "attnviz-main", "next"))
    else:
        ways.append(link(_("Back to the step"), number, "attnviz-main"))
    edit = lesson_draft.edit_address(lesson.name)
    if edit:
        ways.append(element("a", _("Edit"), href=edit, target="_self"))
    here = address(f"/{page_address(page, _other_parameters())}")
    leave = element("a", _("Leave the lesson"), href=here, target="_self")
    return element("nav", *ways, leave, class_="attnviz-row attnviz-links attnviz-ways", aria_label=_("Steps"))


def _step_address(lesson: Lesson, number: int, page: str, right: str, stays: bool) -> str:
    """Returns the address of a step; a later one without a state of its own keeps that of the page, if it `stays`."""
    answered = [(RIGHT, right)] if right else []
    if number > len(lesson.steps) or (
        stays and lesson.steps[number - 1].state is None and lesson.steps[number - 1].page == page
    ):
        return address(f"/{page_address(page, [*_other_parameters(), *lesson.parameters(number), *answered])}")
    more = [presentation.PRESENTING] if presentation.presenting() else []
    return address(f"/{lesson.link(number, *answered, *more)}")


def _other_parameters() -> list[tuple[str, str]]:
    """Returns what is in the link of the page besides the lesson."""
    return [one for one in link_parameters() if one[0] not in (LESSON, STEP, RIGHT)]


def _short_name(lesson: Lesson) -> str:
    """Returns a name for the keys of widgets; that of a lesson in a link may have thousands of letters."""
    return f"{zlib.crc32(lesson.name.encode()):08x}" if lesson.name.startswith(IN_LINK) else lesson.name


def _result(lesson: Lesson, right: set[int]) -> Markup:
    """Returns how many answers were right, which the link says, and the next lesson."""
    checked = [i for i, step in enumerate(lesson.steps, 1) if step.check]
    lessons = [one for one in shipped_lessons()[0] if one.language == lesson.language]
    names = [one.name for one in lessons]
    parts = [element("span", class_="attnviz-lesson-result", data_lesson=_short_name(lesson), hidden="")]
    if checked:
        count = len(right.intersection(checked))
        parts += [
            element(
                "p",
                _("{count} of {checked} answers were right.", count=count, checked=len(checked)),
                class_="attnviz-ask",
            )
        ]
        parts += [element("p", _("The address of this page is your result: copy it to show or send it."))]
    if lesson.name in names[:-1]:
        after = lessons[names.index(lesson.name) + 1]
        link = element("a", after.title, href=address(f"/{after.link()}"), target="_self")
        parts += [element("p", Markup(_("The next lesson: {link}")).format(link=link))]
    else:
        every = element("a", _("All lessons"), href=address("/lessons"), target="_self")
        last = Markup(_("This was the last lesson. {link}")).format(link=every)
        parts += [element("p", last if lesson.name in names else every)]
    return join(parts)
