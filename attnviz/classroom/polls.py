"""The questions that a class is asked: one at a time, with up to two votes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnviz.base.language import _, value_error
from attnviz.classroom.class_record import CLASS, MOST_PARTICIPANTS, encode
from attnviz.classroom.participants import NICKNAMES, PARTICIPANTS, Participants
from attnviz.classroom.question import Answer, Question, parse_answer
from attnviz.classroom.results import Results, measure_results
from attnviz.classroom.store import Changed, Expectation, TooMany, UnknownClass, Values
from attnviz.classroom.teacher_view import TeacherView

MOST_POLLS = 100
QUESTIONS = "questions"  # a section
NONE, OPEN, CLOSED, REVEALED = "none", "open", "closed", "revealed"  # phases of a poll
NO_POLL = (0, 0, NONE)  # the number of the question, the round and the phase, as they are stored


@dataclass(frozen=True)
class Poll:
    """The question of a class at this moment, and the number of answers of each round."""

    id: str
    question: Question
    round: int  # 1 or 2, after discussion
    phase: str  # open, closed or revealed
    counts: tuple[int, ...]


@dataclass(frozen=True)
class PollRecord:
    """A question that was put to a class, with its view, and its answers by participant in each round."""

    id: str
    question: Question
    link: str
    title: str
    rounds: tuple[Mapping[str, Answer], ...]


class Polls(Participants, TeacherView):
    """The questions of a class and their answers."""

    def ask(self, question: Question) -> str:
        """Puts a question to the class in place of the one before. Returns its id. Raises TooMany after 100."""

        def change(stored: bytes | None) -> tuple[Mapping[str, Values], str]:
            number = _poll_state(stored)[0] + 1
            view = self.view()
            record = {
                "question": question.to_json(),
                "link": view.link if view else "",
                "title": view.title if view else "",
            }
            sections = {QUESTIONS: {str(number): encode(record)}, CLASS: {"poll": encode([number, 1, OPEN])}}
            return sections, str(number)

        try:
            return self._change("poll", change, MOST_POLLS)
        except TooMany:
            raise TooMany(_("A class has at most {most} questions. Start another class.", most=MOST_POLLS)) from None

    def poll(self) -> Poll | None:
        """Returns the question of this moment, if there is one."""
        number, round_, phase = _poll_state(self._class().get("poll"))
        if phase == NONE:
            return None
        counts = tuple(self.store.count(self.code, _answers(number, one)) for one in range(1, round_ + 1))
        return Poll(str(number), self._question(str(number)), round_, phase, counts)

    def answer(self, participant: str, question_id: str, round: int, value: Any) -> Answer:
        """Counts a participant's answer, in place of an earlier one in this round. `value` is JSON from outside.

        Raises ValueError if it does not answer the question, or if another question or round is open.
        """
        stored = self._class().get("poll")
        number, current, phase = _poll_state(stored)
        if phase == NONE or question_id != str(number):
            raise value_error("This question has ended. Answer the one that is open now, if there is one.")
        if phase != OPEN or round != current:
            raise value_error("This vote has ended.")
        answer = parse_answer(self._question(question_id), value)
        self._check_joined(participant)
        open_poll = Expectation(CLASS, "poll", stored)
        values = {_answers(number, current): {participant: answer.to_json().encode()}}
        try:
            self.store.write(self.code, values, expected=open_poll, most=MOST_PARTICIPANTS, is_shared=False)
        except Changed:
            raise value_error("This vote has ended.") from None
        return answer

    def own_answer(self, participant: str, question_id: str, round: int) -> Answer | None:
        """Returns what a participant has answered, if anything."""
        stored = self.store.get(self.code, _answers(int(question_id), round), participant)
        return Answer.from_json(stored.decode()) if stored else None

    def close(self) -> None:
        """Ends the vote; its answers stay."""
        self._move(lambda number, round_, phase: (number, round_, CLOSED if phase == OPEN else phase))

    def vote_again(self) -> None:
        """Opens the second vote. Raises ValueError if the answer has been revealed, or after two votes."""

        def second(number: int, round_: int, phase: str) -> tuple[int, int, str]:
            if phase == REVEALED:
                raise value_error("The answer has been shown, so there is nothing to vote on. Ask another question.")
            if round_ == 2 and phase == CLOSED:
                raise value_error("The class has voted twice. Show the answer, or ask another question.")
            return number, 2, OPEN

        self._move(second)

    def reveal(self) -> None:
        """Ends the vote and shows the answer."""
        self._move(lambda number, round_, phase: (number, round_, REVEALED))

    def dismiss(self) -> None:
        """Takes the question away; its answers stay for the report."""
        self._move(lambda number, round_, phase: (number, round_, NONE), needs_poll=False)

    def results(self) -> Results | None:
        """Returns the results of the question of this moment, if there is one."""
        number, round_, phase = _poll_state(self._class().get("poll"))
        if phase == NONE:
            return None
        rounds = [[*self._round(number, one).values()] for one in range(1, round_ + 1)]
        return measure_results(self._question(str(number)), rounds)

    def polls(self) -> tuple[PollRecord, ...]:
        """Returns all questions of the class with their answers, in order."""
        records = []
        for number, value in sorted(
            (int(name), value) for name, value in self.store.read(self.code, QUESTIONS).items()
        ):
            record = json.loads(value)
            rounds = tuple(one for one in (self._round(number, 1), self._round(number, 2)) if one)
            question = Question.from_json(record["question"])
            records.append(PollRecord(str(number), question, record["link"], record["title"], rounds))
        return tuple(records)

    def remove_silent(self) -> None:
        """Removes the participants who have never answered, with their nicknames; who still follows joins again."""
        rounds = (
            _answers(number, one)
            for number in range(1, _poll_state(self._class().get("poll"))[0] + 1)
            for one in (1, 2)
        )
        answered = {name for section in rounds for name in self.store.read(self.code, section)}
        silent: Values = dict.fromkeys(set(self.joined()) - answered)
        self.store.write(self.code, {PARTICIPANTS: silent, NICKNAMES: silent})

    def _question(self, question_id: str) -> Question:
        stored = self.store.get(self.code, QUESTIONS, question_id)
        if stored is None:
            raise UnknownClass(self.code)
        return Question.from_json(json.loads(stored)["question"])

    def _round(self, number: int, round_: int) -> dict[str, Answer]:
        stored = self.store.read(self.code, _answers(number, round_))
        return {name: Answer.from_json(value.decode()) for name, value in stored.items()}

    def _move(self, move: Callable[[int, int, str], tuple[int, int, str]], *, needs_poll: bool = True) -> None:
        """Moves the poll on; nothing is written where it stays as it is."""

        def change(stored: bytes | None) -> tuple[Mapping[str, Values], None]:
            state = _poll_state(stored)
            if needs_poll and state[2] == NONE:
                raise value_error("There is no open question. Ask one first.")
            new = move(*state)
            return ({CLASS: {"poll": encode([*new])}} if new != state else {}), None

        self._change("poll", change)


def _answers(number: int, round_: int) -> str:
    return f"answers {number} {round_}"


def _poll_state(stored: bytes | None) -> tuple[int, int, str]:
    number, round_, phase = json.loads(stored) if stored else NO_POLL
    return number, round_, phase
