"""What a teacher keeps of a class."""

import csv
import io

import numpy as np
import pytest

from attnviz.classroom.live_class import LiveClass
from attnviz.classroom.question import Question, cells_question, points_question, text_question
from attnviz.classroom.report import answers_csv, class_lesson
from attnviz.lessons.checks import Choice
from attnviz.lessons.lesson_files import parse_lesson

ADA, BEN = "ada-participant", "ben-participant"


def rows(live: LiveClass) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(answers_csv(live), newline=""))]


def test_answers_are_a_table_without_names_unless_they_were_chosen(live: LiveClass) -> None:
    live.join(ADA)
    live.join(BEN)
    live.set_nickname(BEN, "Ben")
    question = points_question("Where does “it” look?", ["cat", "hen", "pig"], np.array([0.5, 0.25, 0.25]))
    first = live.ask(question)
    live.answer(BEN, first, 1, {"0": 5, "1": 5})
    live.answer(ADA, first, 1, {"2": 10})
    live.vote_again()
    live.answer(ADA, first, 2, {"0": 8, "1": 2})
    second = live.ask(Question("How much?", numeric=True, right=0.25))
    live.answer(ADA, second, 1, -0.5)
    live.answer(BEN, second, 1, 25)
    table = rows(live)
    assert [[*row.values()] for row in table] == [
        [question.ask, "1", "1", "", "pig: 10", "", "0.7500"],
        [question.ask, "1", "2", "Ben", "cat: 5, hen: 5", "", "0.2500"],
        [question.ask, "2", "1", "", "cat: 8, hen: 2", "", "0.3000"],
        ["How much?", "1", "1", "", "-0.5", "no", ""],
        ["How much?", "1", "2", "Ben", "25", "yes", ""],
    ]
    assert ADA not in answers_csv(live)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", '=HYPERLINK("http://x","y")'])
def test_no_cell_is_a_formula(live: LiveClass, text: str) -> None:
    question = live.ask(Question(text, columns=(text, 'B, "C"\nD'), picks=1))
    live.set_nickname(ADA, text)
    live.answer(ADA, question, 1, [0])
    live.answer(BEN, question, 1, [1])
    ada, ben = rows(live)
    assert ada["question"] == ada["answer"] == f"'{text}"
    assert ada["nickname"] == f"'{text.strip()}"
    assert ben["answer"] == 'B, "C"\nD'


def test_a_class_without_answers_is_a_table_without_rows(live: LiveClass) -> None:
    assert rows(live) == []


def test_the_questions_of_a_class_are_a_lesson(live: LiveClass) -> None:
    live.publish("explore?head=Head+1&pinned=10+%C2%B7+it&biases=ALiBi&biases=Soft+cap", "Explore", b"1")
    live.ask(text_question('Which is "right"?', ["A", "B"], "B"))
    live.publish("masks?mask-b=causal", "Masks", b"2")
    live.ask(
        cells_question("Which cells does B lose?", ["a", "b"], ["a", "b"], np.array([[False, True], [False, False]]))
    )
    live.publish("lessons", "Lessons", b"3")
    live.ask(text_question("On a page without lessons?", ["A", "B"]))
    live.publish("steps", "Steps", b"4")
    live.ask(Question("What number?", numeric=True, right=0.125))
    live.ask(points_question("Where does “it” look?", ["cat", "hen", "pig", "cow"], np.array([0.5, 0.25, 0.15, 0.1])))
    lesson = parse_lesson("class", class_lesson(live))
    assert lesson.title == f"Class {live.code}"
    assert [(step.page, step.ask, step.answer) for step in lesson.steps] == [
        ("explore", 'Which is "right"?', "B."),
        ("masks", "Which cells does B lose?", "a → b."),
        ("steps", "What number?", "0.13."),
        ("steps", "Where does “it” look?", "cat (50%), hen (25%), pig (15%) and 1 more."),
    ]
    first, cells, number, _ = lesson.steps
    assert first.state == (("head", "Head 1"), ("pinned", "10 · it"), ("biases", "ALiBi"), ("biases", "Soft cap"))
    assert first.check == Choice(("A", "B"), "B")
    assert cells.state == (("mask-b", "causal"),)
    assert number.check is None


def test_a_lesson_has_the_last_twelve_questions(live: LiveClass) -> None:
    live.publish("explore", "Explore", b"")
    for number in range(14):
        live.ask(text_question(f"Question {number}?", ["A", "B"]))
    assert [step.ask for step in parse_lesson("class", class_lesson(live)).steps] == [
        f"Question {number}?" for number in range(2, 14)
    ]


def test_a_class_without_questions_is_no_lesson(live: LiveClass) -> None:
    live.ask(text_question("Without a page?", ["A", "B"]))
    with pytest.raises(ValueError, match="No question of this class"):
        class_lesson(live)
