"""What remains of a class for its teacher: the answers as a table, and what was asked as a lesson."""

import csv
from io import StringIO
from urllib.parse import parse_qsl

from attnviz.classroom.live_class import LiveClass, Poll
from attnviz.classroom.question import Question
from attnviz.lessons.checks import Choice
from attnviz.lessons.lesson_files import MOST_STEPS, PAGES, Lesson, LessonStep
from attnviz.lessons.lesson_text import lesson_text

COLUMNS = ("question", "vote", "participant", "nickname", "answer", "distance")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet begins to compute


def answers_csv(live: LiveClass) -> str:
    """Returns all answers, one in a line; a participant is a number, and has a nickname if one was given."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    people = live.people()
    numbers = {participant: number for number, participant in enumerate(people, 1)}
    for poll in live.polls():
        for vote in range(1, poll.round + 1):
            for participant, value in live.answers(poll, vote).items():
                distance = poll.question.distance(value)
                row = [
                    poll.question.ask, vote, numbers[participant], people[participant],
                    poll.question.in_words(value), "" if distance is None else f"{distance:.4f}",
                ]  # fmt: skip
                writer.writerow([_safe(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def class_lesson(live: LiveClass) -> str:
    """Returns the last questions of a class as the text of a lesson file, each with the page where it was asked.

    Raises ValueError if none was asked about a page that lessons have.
    """
    steps = [_step(poll) for poll in live.polls() if poll.link.partition("?")[0] in PAGES][-MOST_STEPS:]
    if not steps:
        raise ValueError("Nothing was asked in this class that a lesson could ask.")
    return lesson_text(Lesson("class", f"Class {live.code}", "What was asked in a class.", tuple(steps)))


def _step(poll: Poll) -> LessonStep:
    page, _, query = poll.link.partition("?")
    question, state = poll.question, tuple(parse_qsl(query, keep_blank_values=True))
    return LessonStep(question.ask, _answer(question), page, state, _choice(question))


def _choice(question: Question) -> Choice | None:
    """A check of a question with one right answer, if a lesson has that."""
    if question.points or question.numeric or len(question.rows) > 1 or question.picks > 1:
        return None
    right = [option for option, share in zip(question.columns, question.truth, strict=False) if share]
    return (
        Choice(question.columns, right[0])
        if len(right) == 1 and len({*question.columns}) == len(question.columns)
        else None
    )


def _answer(question: Question) -> str:
    if question.numeric:
        return "There is no right number." if question.right is None else f"{question.right:.4g}"
    shares = sorted(zip(question.truth, question.options, strict=False), reverse=True)[:3]
    named = [f"{option} ({share:.0%})".replace("%", " %") for share, option in shares if share]
    return ", ".join(named) or "No answer is right or wrong."


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text
