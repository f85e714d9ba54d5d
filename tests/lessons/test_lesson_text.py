"""Lessons as text and in links: what is written is read as the same lesson, and nothing in a link does harm."""

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.base.app_pages import STATE_PAGES
from attnviz.lessons.checks import Choice, Condition, NumberCheck, Tap
from attnviz.lessons.lesson_files import FOLDER, MOST_FILE_BYTES, Lesson, LessonStep, parse_lesson, read_lessons
from attnviz.lessons.lesson_tables import state_table
from attnviz.lessons.lesson_text import IN_LINK, LONGEST_NAME, lesson_text, name_in_link, text_in_link

SHIPPED = read_lessons(FOLDER)[0]
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
values = (
    words | st.integers(-99, 10**6).map(str) | st.sampled_from(["0.5", "0.50", "-0", "1e3", "true", "False", "007"])
)
names = st.text("abcdefgh-.", min_size=1, max_size=8)
states = st.dictionaries(names, st.lists(values, min_size=1, max_size=3), max_size=4).map(
    lambda table: tuple((name, value) for name, several in table.items() for value in several)
)
conditions = st.builds(
    Condition,
    st.sampled_from(["result", 'weight of «é» "x"']),
    st.sampled_from("<>="),
    st.sampled_from(["1", "0.25", "result"]),
)
choices = st.lists(words, min_size=1, max_size=4, unique=True).flatmap(
    lambda options: st.builds(Choice, st.just(tuple(options)), st.sampled_from(options))
)
checks = st.none() | choices | st.integers(1, 5).map(Tap) | words.map(NumberCheck) | conditions


@st.composite
def lessons(draw: st.DrawFn) -> Lesson:
    """Lessons as files can hold them: a step without a state is on the page of the step before."""
    steps: list[LessonStep] = []
    for _ in range(draw(st.integers(1, 5))):
        state = draw(st.none() | states) if steps else draw(states)
        page = draw(st.sampled_from(STATE_PAGES)) if state is not None else steps[-1].page
        holds = tuple(draw(st.lists(conditions, max_size=2)))
        controls = tuple(draw(st.lists(names, max_size=2)))
        steps.append(LessonStep(draw(words), draw(words), page, state, draw(checks), holds, controls))
    language = draw(st.sampled_from(["en", "de", "pt-BR"]))
    return Lesson("one", draw(words), draw(words), tuple(steps), language)


@given(lesson=lessons())
def test_a_lesson_that_is_written_is_read_as_the_same_lesson(lesson: Lesson) -> None:
    assert parse_lesson("one", lesson_text(lesson)) == lesson


@pytest.mark.parametrize("lesson", SHIPPED, ids=lambda lesson: lesson.name)
def test_a_shipped_lesson_is_written_and_fits_into_a_link(lesson: Lesson) -> None:
    text = lesson_text(lesson)
    assert parse_lesson(lesson.name, text) == lesson
    name = name_in_link(text)
    assert name is not None
    assert text_in_link(name) == text


def test_a_lesson_without_questions_is_written() -> None:
    lesson = Lesson("one", "a", "b", (LessonStep("", "", "masks", (("k", "1"), ("k", "x"))),), "de")
    assert parse_lesson("one", lesson_text(lesson)) == lesson
    assert 'language = "de"' in lesson_text(lesson)


def test_values_of_one_parameter_are_a_list_wherever_they_stand() -> None:
    assert state_table((("a", "1"), ("b", "2"), ("a", "3"))) == {"a": ["1", "3"], "b": "2"}


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_is_in_a_link_and_comes_back(text: str) -> None:
    name = name_in_link(text)
    assert name is not None
    assert text_in_link(name) == text


def test_a_text_that_is_too_long_for_a_link_has_no_name() -> None:
    text = "".join(chr(33 + i * i * 7919 % 9973 % 90) for i in range(20_000))
    assert name_in_link(text) is None


def packed(content: bytes) -> str:
    return IN_LINK + base64.urlsafe_b64encode(zlib.compress(content, 9)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "name",
    [
        packed(b"#" * (MOST_FILE_BYTES + 1)),
        packed(bytes(5_000_000)),  # 5 MB in 7,000 characters
        packed(b"title = 'a'")[:-6],
        packed(b"\xff\xfe"),
        IN_LINK,
        f"{IN_LINK}A",
        f"{IN_LINK}<b>ä</b>",
        f"{IN_LINK}{'A' * LONGEST_NAME}",
    ],
    ids=["large", "bomb", "cut", "bytes", "empty", "one letter", "markup", "long"],
)
def test_a_broken_name_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(ValueError, match="Copy the whole address again"):
        text_in_link(name)


@given(name=st.text(max_size=60))
def test_no_name_does_more_than_be_refused(name: str) -> None:
    try:
        text_in_link(IN_LINK + name)
    except ValueError as problem:
        assert "Copy the whole address" in str(problem)  # noqa: PT017


@pytest.mark.parametrize(("language", "right"), [("de", True), ("pt-BR", True), ("German", False), ('d" x="', False)])
def test_the_language_is_a_code(language: str, right: bool) -> None:
    text = f"title = 'a'\nabout = 'b'\nlanguage = '{language}'\npage = 'masks'\n"
    if right:
        assert parse_lesson("one", text).language == language
    else:
        with pytest.raises(ValueError, match="Line 3: language is"):
            parse_lesson("one", text)
