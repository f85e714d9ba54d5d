"""Lessons that are being written: steps that move keep their pages, and addresses are checked."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.base.link import page_address
from attnviz.lessons.lesson_files import FOLDER, parse_lesson, parse_table, read_lessons
from attnviz.lessons.lesson_tables import (
    LONGEST_ADDRESS,
    NEW_LESSON,
    can_be_edited,
    lesson_steps,
    parse_address,
    step_places,
    with_steps,
)
from attnviz.lessons.lesson_text import lesson_table, table_text

SHIPPED = read_lessons(FOLDER)[0]


@pytest.mark.parametrize("lesson", SHIPPED, ids=lambda lesson: lesson.name)
def test_steps_in_another_order_keep_their_questions_and_places(lesson) -> None:
    table = lesson_table(lesson)
    assert can_be_edited(table)
    steps, places = lesson_steps(table), step_places(table)
    assert [place and place[1] for place in places] == [step.state for step in lesson.steps]
    assert with_steps(table, steps, places) == table
    order = random.Random(lesson.name).sample(range(len(steps)), len(steps))
    moved = with_steps(table, [steps[i] for i in order], [places[i] for i in order])
    read = parse_lesson(lesson.name, table_text(moved))
    assert [step.ask for step in read.steps] == [lesson.steps[i].ask for i in order]
    for step, i in list(zip(read.steps, order, strict=True))[1:]:
        assert step.state == lesson.steps[i].state
        assert step.state is None or step.page == lesson.steps[i].page
    assert read.steps[0].state == (lesson.steps[order[0]].state or lesson.steps[0].state)


def test_what_a_step_has_besides_stays() -> None:
    table = parse_table('title = "a"\nx = 1\nquestions = [{ ask = "b", answer = "c", reech = "d" }]')
    written = with_steps(table, lesson_steps(table), [("masks", (("a", "1"),))])
    assert written == {
        "title": "a",
        "x": 1,
        "page": "masks",
        "state": {"a": "1"},
        "steps": [{"ask": "b", "answer": "c", "reech": "d"}],
    }


def test_a_new_lesson_can_be_edited_and_is_not_whole() -> None:
    assert can_be_edited(NEW_LESSON)
    with pytest.raises(ValueError, match="empty title"):
        parse_lesson("new", table_text(NEW_LESSON))


@pytest.mark.parametrize(
    "text",
    [
        "title = 3",
        "steps = 'x'",
        "steps = ['x']",
        "state = { a = { b = 1 } }",
        "[[steps]]\nask = true",
        "page = []",
        "[[steps]]\n" * 13,
    ],
)
def test_a_table_of_other_types_or_of_too_many_steps_is_not_for_the_form(text: str) -> None:
    assert not can_be_edited(parse_table(text))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("http://localhost:8501/explore", ("explore", ())),
        ("https://a.org/base/masks?mask-a=band(2)&mask-a=x#top", ("masks", (("mask-a", "band(2)"), ("mask-a", "x")))),
        ("/lookup?softness=T+%3D+1&embed=true", ("lookup", (("softness", "T = 1"),))),
        ("steps?lesson=01&lesson-step=2&right=1&present=1", ("steps", (("present", "1"),))),
        ("  effects?text=  ", ("effects", (("text", ""),))),
    ],
)
def test_an_address_is_a_page_in_a_state(text: str, place) -> None:
    assert parse_address(text) == place
    assert parse_address(page_address(*place)) == place


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not the address of a page"),
        ("https://example.org/", "not the address of a page"),
        ("https://example.org/lessons", "which are lookup, steps"),
        ("javascript:alert(1)", "not the address of a page"),
        ("http://[", "not an address"),
        ("explore?a=1&" * 101, "not an address"),
        ("explore?a=\n1", "characters that no address has"),
        ("explore?a=" + "x" * LONGEST_ADDRESS, "a step may have 6,000"),
    ],
    ids=["empty", "start", "lessons", "script", "bracket", "many", "lines", "long"],
)
def test_what_is_no_address_is_refused_in_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_address(text)


@given(text=st.text())
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        page, _ = parse_address(text)
    except ValueError:
        return
    assert page in text
