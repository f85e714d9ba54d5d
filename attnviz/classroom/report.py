"""What a teacher keeps of a class: its answers as a table, and its questions as a lesson."""

import csv
import io
from urllib.parse import parse_qsl

from attnviz.base.app_pages import STATE_PAGES
from attnviz.base.formatting import enumeration, percent, significant, spreadsheet_cell
from attnviz.base.formatting import number as format_number
from attnviz.base.language import value_error
from attnviz.classroom.live_class import LiveClass
from attnviz.classroom.polls import PollRecord
from attnviz.classroom.question import Answer, Question
from attnviz.classroom.results import answer_distance, is_right
from attnviz.lessons.checks import Choice
from attnviz.lessons.lesson_files import MOST_STEPS, Lesson, LessonStep
from attnviz.lessons.lesson_text import lesson_text

COLUMNS = ("question", "round", "participant", "nickname", "answer", "right", "distance")
MOST_SHARES = 3  # options that the answer of a lesson's step names


def answers_csv(live: LiveClass) -> str:
    """Returns all answers of a class as CSV. Participants are numbers, in the order in which they joined; the nickname
    is empty unless one was chosen. `distance` is the total variation distance from the truth."""
    numbers = {participant: number for number, participant in enumerate(live.joined(), 1)}
    nicknames = live.nicknames()
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(COLUMNS)
    for record in live.polls():
        for round_, answers in enumerate(record.rounds, 1):
            for participant, answer in sorted(answers.items(), key=lambda one: numbers[one[0]]):
                nickname = spreadsheet_cell(nicknames.get(participant, ""))
                row = [spreadsheet_cell(record.question.ask), round_, numbers[participant], nickname]
                table.writerow(row + _answer_cells(record.question, answer))
    return text.getvalue()


def class_lesson(live: LiveClass) -> str:
    """Returns the last twelve questions of a class as the text of a lesson file, each with the page and the state that
    the teacher showed. Raises ValueError if there is none on a page that lessons have."""
    records = [record for record in live.polls() if record.link.partition("?")[0] in STATE_PAGES]
    if not records:
        raise value_error("No question of this class was about a page that lessons have. Ask one, and save it then.")
    steps = tuple(map(_lesson_step, records[-MOST_STEPS:]))
    return lesson_text(Lesson(f"class-{live.code.lower()}", f"Class {live.code}", "The questions of a class.", steps))


def answer_in_words(question: Question, answer: Answer) -> str:
    """Returns an answer in words: the options with their points, or the number.

    Example:
        >>> import numpy as np
        >>> from attnviz.classroom.question import points_question
        >>> question = points_question("Where?", ["cat", "hen"], np.array([0.5, 0.5]))
        >>> answer_in_words(question, Answer(((0, 7), (1, 3))))
        'cat: 7, hen: 3'
    """
    if answer.number is not None:
        return significant(answer.number).replace("−", "-")
    points = (f": {count}" if question.points else "" for _, count in answer.counts)
    return ", ".join(question.option(option) + text for (option, _), text in zip(answer.counts, points, strict=True))


def _answer_cells(question: Question, answer: Answer) -> list[str]:
    right, distance = is_right(question, answer), answer_distance(question, answer)
    return [
        spreadsheet_cell(answer_in_words(question, answer))
        if answer.number is None
        else answer_in_words(question, answer),
        "" if right is None else "yes" if right else "no",
        "" if distance is None else f"{distance:.4f}",
    ]


def _lesson_step(record: PollRecord) -> LessonStep:
    page, _, query = record.link.partition("?")
    question = record.question
    state = tuple(parse_qsl(query, keep_blank_values=True))
    return LessonStep(question.ask, _truth_in_words(question), page, state, _choice(question))


def _choice(question: Question) -> Choice | None:
    """The check of a question with different options in a list, one of them right."""
    right = [option for option, share in enumerate(question.truth) if share == 1]
    different = len({*question.columns}) == len(question.columns) and all(name.strip() for name in question.columns)
    if question.picks != 1 or len(question.rows) > 1 or not right or not different:
        return None
    return Choice(question.columns, question.columns[right[0]])


def _truth_in_words(question: Question) -> str:
    if question.numeric:
        return "No number is right or wrong." if question.right is None else f"{format_number(question.right)}."
    shares = sorted(((share, -option) for option, share in enumerate(question.truth) if share), reverse=True)
    if not shares:
        return "No answer is right or wrong."
    if len(shares) == 1:
        return f"{question.option(-shares[0][1])}."
    named = [f"{question.option(-option)} ({percent(share, 2)})" for share, option in shares[:MOST_SHARES]]
    rest = len(shares) - len(named)
    return f"{enumeration(named + ([f'{rest} more'] if rest else []))}."
