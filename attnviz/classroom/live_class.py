"""A live class: the teacher's view, one question at a time with up to two votes, and questions from participants."""

import hashlib
import hmac
import json
import re
import secrets
import time
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from attnviz.app_files import PAGES
from attnviz.classroom.question import Answer, Question, parse_answer
from attnviz.classroom.results import Results, measure_results
from attnviz.classroom.store import LARGEST_VALUE, Changed, Expectation, Store, TooMany, UnknownClass, Values, Versions
from attnviz.formatting import grouped, quoted
from attnviz.language import N_, _

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # without letters and digits that look alike: 0 O, 1 I L
CODE_LENGTH = 5
MOST_PARTICIPANTS = 500
OF_THE_SENDER = ("lang", "present", "write")  # parameters of links
MOST_POLLS = 100
MOST_MESSAGES = 200
MOST_OWN_MESSAGES = 20  # of one participant
LONGEST_NICKNAME = 40  # characters
LONGEST_MESSAGE = 280
LONGEST_LINK = 8_000
NICKNAME_TOO_LONG = N_("A nickname has at most {most} characters; this one has {count}.")
MESSAGE_TOO_LONG = N_("A question has at most {most} characters; this one has {count}.")
LONGEST_TITLE = 200
TRIES = 50  # of a change that another one overtakes
NONE, OPEN, CLOSED, REVEALED = "none", "open", "closed", "revealed"  # phases of a poll
CLASS, PICTURE, QUESTIONS, PARTICIPANTS, NICKNAMES, MESSAGES = (
    "class", "picture", "questions", "participants", "nicknames", "messages",
)  # fmt: skip
PARTICIPANT = re.compile(r"[A-Za-z0-9_-]{8,64}")
LINK = re.compile(r"([a-z][a-z0-9_-]{0,40})(\?[!-~]*)?")  # a page and a query, percent-encoded

T = TypeVar("T")


@dataclass(frozen=True)
class Teaching:
    """A class that has been started: its code for all, and the key with which its teacher leads it."""

    code: str
    key: str


@dataclass(frozen=True)
class View:
    """What the teacher shows: the link of the page, its title, and the picture, which followers draw.

    Raises ValueError if one of them is not valid.
    """

    link: str
    title: str
    picture: bytes

    def __post_init__(self) -> None:
        check_link(self.link)
        if len(self.title) > LONGEST_TITLE:
            raise ValueError(
                _("The title of a view has at most {most} characters; it has {count}.").format(
                    most=LONGEST_TITLE, count=grouped(len(self.title))
                )
            )
        if len(self.picture) > LARGEST_VALUE:
            raise ValueError(
                _(
                    "This picture has {size} MB; a class can follow pictures of up to {most} MB. Show fewer heads or a "
                    "shorter text."
                ).format(size=len(self.picture) >> 20, most=LARGEST_VALUE >> 20)
            )


@dataclass(frozen=True)
class PublishedView:
    """What the teacher shows, with the id of its picture, which `LiveClass.picture` returns."""

    link: str
    title: str
    picture_id: str


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


@dataclass(frozen=True)
class Message:
    """A question from a participant about a cell or a head of a page. The nickname is empty unless names are shown."""

    id: str
    link: str
    text: str
    nickname: str
    sent: float  # Unix time
    is_read: bool


class Classes:
    """The live classes of a store; a class is kept for so many hours."""

    def __init__(self, store: Store, hours: float = 24) -> None:
        self.store, self.hours = store, hours

    def start(self) -> Teaching:
        """Starts a class. Raises TooMany if there are too many."""
        key, now = secrets.token_urlsafe(24), time.time()
        values: Values = {"key": _digest(key).encode(), "poll": _encode([0, 0, NONE]), "started": _encode(now)}
        for _attempt in range(TRIES):
            code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
            if self.store.create(code, {CLASS: values}, now + 3600 * self.hours):
                return Teaching(code, key)
        raise TooMany(_("No class can be started at present. Try again later."))

    def open(self, code: str) -> "LiveClass":
        """Returns the class with a code, in upper or lower case. Raises UnknownClass."""
        known = normalize_code(code)
        if known not in self.store.versions([known]):
            raise UnknownClass(known)
        return LiveClass(self.store, known)

    def delete_expired(self) -> int:
        """Deletes the classes that have ended. Returns their number."""
        return self.store.delete_expired(time.time())


class LiveClass:
    """One class, as its store has it: nothing is kept here, so that any process may do any of this at any time.

    All methods raise UnknownClass after the class has ended.
    """

    def __init__(self, store: Store, code: str) -> None:
        self.store, self.code = store, code

    @property
    def version(self) -> Versions:
        versions = self.store.versions([self.code])
        if self.code not in versions:
            raise UnknownClass(self.code)
        return versions[self.code]

    def is_teacher(self, key: str) -> bool:
        """Returns whether this is the key of the teacher."""
        return hmac.compare_digest(_digest(key).encode(), self._class().get("key", b""))

    def end(self) -> None:
        """Deletes all of the class."""
        self.store.delete(self.code)

    # Participants

    @property
    def participants(self) -> int:
        """The number of people who have joined."""
        return self.store.count(self.code, PARTICIPANTS)

    def join(self, participant: str) -> None:
        """Lets a participant in, under an id of 8 to 64 letters and digits. Raises TooMany for more than 500."""
        check_participant(participant)
        absent = Expectation(PARTICIPANTS, participant, None)
        try:
            self._write({PARTICIPANTS: {participant: _encode(time.time())}}, absent, MOST_PARTICIPANTS, is_shared=False)
        except Changed:
            pass  # has joined before
        except TooMany:
            raise TooMany(
                _("This class is full: it has {most} participants already.").format(most=MOST_PARTICIPANTS)
            ) from None

    def remove_silent(self) -> None:
        """Removes the participants who have never answered, with their nicknames; who still follows joins again."""
        rounds = (
            _answers(number, one)
            for number in range(1, _poll_state(self._class().get("poll"))[0] + 1)
            for one in (1, 2)
        )
        answered = {name for section in rounds for name in self.store.read(self.code, section)}
        silent: Values = dict.fromkeys(set(self.joined()) - answered)
        self._write({PARTICIPANTS: silent, NICKNAMES: silent})

    def set_nickname(self, participant: str, text: str) -> str:
        """Gives a participant a nickname, or none for an empty text. Returns it as it is shown.

        Raises ValueError if it has more than 40 characters.
        """
        nickname = plain_line(text, LONGEST_NICKNAME, NICKNAME_TOO_LONG)
        self._check_joined(participant)
        value = nickname.encode() or None
        self._write({NICKNAMES: {participant: value}}, None, MOST_PARTICIPANTS, is_shared=self.shows_names)
        return nickname

    def nickname(self, participant: str) -> str:
        """Returns a participant's own nickname, or an empty text."""
        return (self.store.get(self.code, NICKNAMES, participant) or b"").decode()

    def show_names(self, is_on: bool) -> None:
        """Shows or hides nicknames to the class."""
        self._write({CLASS: {"names": b"1" if is_on else None}})

    @property
    def shows_names(self) -> bool:
        return "names" in self._class()

    # The teacher's view

    def publish(self, view: View) -> None:
        """Shows a view to all; the picture of the view before is deleted."""
        picture_id = hashlib.sha256(view.picture).hexdigest()[:32]
        published = _encode(asdict(PublishedView(view.link, view.title, picture_id)))

        def change(stored: bytes | None) -> tuple[Mapping[str, Values], None]:
            sections: dict[str, Values] = {CLASS: {"view": published}}
            before = json.loads(stored)["picture_id"] if stored else None
            if before != picture_id:
                sections[PICTURE] = {picture_id: view.picture} | ({before: None} if before else {})
            return sections, None

        self._change("view", change)

    def view(self) -> PublishedView | None:
        """Returns what the teacher shows at this moment, if anything."""
        return self._view(self._class())

    def picture(self, picture_id: str) -> bytes | None:
        """Returns the picture of a view; None if the teacher shows another one by now."""
        return self.store.get(self.code, PICTURE, picture_id)

    # Polls

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
            sections = {QUESTIONS: {str(number): _encode(record)}, CLASS: {"poll": _encode([number, 1, OPEN])}}
            return sections, str(number)

        try:
            return self._change("poll", change, MOST_POLLS)
        except TooMany:
            raise TooMany(
                _("A class has at most {most} questions. Start another class.").format(most=MOST_POLLS)
            ) from None

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
            raise ValueError(_("This question has ended. Answer the one that is open now, if there is one."))
        if phase != OPEN or round != current:
            raise ValueError(_("This vote has ended."))
        answer = parse_answer(self._question(question_id), value)
        self._check_joined(participant)
        open_poll = Expectation(CLASS, "poll", stored)
        section = _answers(number, current)
        try:
            self._write(
                {section: {participant: answer.to_json().encode()}}, open_poll, MOST_PARTICIPANTS, is_shared=False
            )
        except Changed:
            raise ValueError(_("This vote has ended.")) from None
        return answer

    def own_answer(self, participant: str, question_id: str, round: int) -> Answer | None:
        """Returns what a participant has answered, if anything."""
        if not question_id.isdecimal() or len(question_id) > 4:
            return None
        stored = self.store.get(self.code, _answers(int(question_id), round), participant)
        return Answer.from_json(stored.decode()) if stored else None

    def close(self) -> None:
        """Ends the vote; its answers stay."""
        self._move(lambda number, round_, phase: (number, round_, CLOSED if phase == OPEN else phase))

    def vote_again(self) -> None:
        """Opens the second vote. Raises ValueError if the answer has been revealed, or after two votes."""

        def second(number: int, round_: int, phase: str) -> tuple[int, int, str]:
            if phase == REVEALED:
                raise ValueError(_("The answer has been shown, so there is nothing to vote on. Ask another question."))
            if round_ == 2 and phase == CLOSED:
                raise ValueError(_("The class has voted twice. Show the answer, or ask another question."))
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

    # Questions from participants

    def send(self, participant: str, link: str, text: str) -> str:
        """Sends a question about a page to the teacher. Returns its id.

        Raises ValueError for an empty or long text or another link, and TooMany after 20 of one participant or 200.
        """
        line = plain_line(text, LONGEST_MESSAGE, MESSAGE_TOO_LONG)
        if not line:
            raise ValueError(_("The question has no words yet. Write what you want to know."))
        check_link(link)
        link = _page_link(link)
        self._check_joined(participant)
        sender = hashlib.sha256(f"{self.code} {participant}".encode()).hexdigest()[:12]
        own = sum(name.startswith(sender) for name in self.store.read(self.code, MESSAGES))
        for number in range(own, MOST_OWN_MESSAGES):
            message_id = f"{sender}-{number}"
            message = {"link": link, "text": line, "participant": participant, "sent": time.time()}
            absent = Expectation(MESSAGES, message_id, None)
            try:
                self._write({MESSAGES: {message_id: _encode(message)}}, absent, MOST_MESSAGES, is_shared=False)
            except Changed:
                continue
            except TooMany:
                raise TooMany(_("Your teacher has as many questions as fit. Ask in the room.")) from None
            return message_id
        raise TooMany(_("You have sent {count} questions, which is as many as fit.").format(count=MOST_OWN_MESSAGES))

    def messages(self) -> tuple[Message, ...]:
        """Returns the questions from participants, oldest first."""
        stored = {name: json.loads(value) for name, value in self.store.read(self.code, MESSAGES).items()}
        names = self.store.read(self.code, NICKNAMES) if self.shows_names else {}
        messages = [
            Message(
                id=name,
                link=one["link"],
                text=one["text"],
                nickname=names.get(one["participant"], b"").decode(),
                sent=one["sent"],
                is_read=one.get("read", False),
            )
            for name, one in stored.items()
        ]
        return tuple(sorted(messages, key=lambda message: (message.sent, message.id)))

    def mark_read(self, message_id: str) -> None:
        """Marks a question from a participant as read. Raises ValueError if there is no such question."""
        stored = self.store.get(self.code, MESSAGES, message_id)
        if stored is None:
            raise ValueError(_("There is no such question from a participant."))
        value = _encode(json.loads(stored) | {"read": True})
        self._write({MESSAGES: {message_id: value}}, None, MOST_MESSAGES, is_shared=False)

    # The store

    def nicknames(self) -> dict[str, str]:
        """Returns the nicknames by participant, for the teacher's report."""
        return {name: value.decode() for name, value in self.store.read(self.code, NICKNAMES).items()}

    def joined(self) -> tuple[str, ...]:
        """Returns the ids of the participants in the order in which they joined."""
        times = self.store.read(self.code, PARTICIPANTS)
        return tuple(sorted(times, key=lambda name: (json.loads(times[name]), name)))

    def _class(self) -> dict[str, bytes]:
        values = self.store.read(self.code, CLASS)
        if not values:
            raise UnknownClass(self.code)
        return values

    @staticmethod
    def _view(values: Mapping[str, bytes]) -> PublishedView | None:
        return PublishedView(**json.loads(values["view"])) if "view" in values else None

    def _question(self, question_id: str) -> Question:
        stored = self.store.get(self.code, QUESTIONS, question_id)
        if stored is None:
            raise UnknownClass(self.code)
        return Question.from_json(json.loads(stored)["question"])

    def _round(self, number: int, round_: int) -> dict[str, Answer]:
        stored = self.store.read(self.code, _answers(number, round_))
        return {name: Answer.from_json(value.decode()) for name, value in stored.items()}

    def has_joined(self, participant: str) -> bool:
        """Returns whether a participant is in. Raises ValueError for what is no id of one."""
        check_participant(participant)
        return self.store.get(self.code, PARTICIPANTS, participant) is not None

    def _check_joined(self, participant: str) -> None:
        if not self.has_joined(participant):
            self.join(participant)

    def _write(
        self,
        sections: Mapping[str, Values],
        expected: Expectation | None = None,
        most: int = MOST_PARTICIPANTS,
        *,
        is_shared: bool = True,
    ) -> None:
        self.store.write(self.code, sections, expected=expected, most=most, is_shared=is_shared)

    def _change(
        self, name: str, change: Callable[[bytes | None], tuple[Mapping[str, Values], T]], most: int = MOST_PARTICIPANTS
    ) -> T:
        """Writes what `change` makes of a value of the class, again if another change came in between."""
        for _attempt in range(TRIES):
            stored = self._class().get(name)
            sections, result = change(stored)
            if not sections:
                return result
            try:
                self._write(sections, Expectation(CLASS, name, stored), most)
            except Changed:
                continue
            return result
        raise Changed(_("Too many changes at once. Try again."))

    def _move(self, move: Callable[[int, int, str], tuple[int, int, str]], *, needs_poll: bool = True) -> None:
        """Moves the poll on; nothing is written where it stays as it is."""

        def change(stored: bytes | None) -> tuple[Mapping[str, Values], None]:
            state = _poll_state(stored)
            if needs_poll and state[2] == NONE:
                raise ValueError(_("There is no open question. Ask one first."))
            new = move(*state)
            return ({CLASS: {"poll": _encode([*new])}} if new != state else {}), None

        self._change("poll", change)


def normalize_code(code: str) -> str:
    """Returns a code in upper case without spaces and hyphens. Raises UnknownClass if it cannot be one.

    Example:
        >>> normalize_code(" k7-m2q ")
        'K7M2Q'
    """
    known = re.sub(r"[\s-]", "", str(code)[:40]).upper()
    if len(known) != CODE_LENGTH or not {*known} <= {*ALPHABET}:
        raise UnknownClass(quoted(code, 20))
    return known


def check_participant(participant: str) -> None:
    """Raises ValueError if this is not the id of a participant."""
    if not isinstance(participant, str) or not PARTICIPANT.fullmatch(participant):
        raise ValueError(_("A participant has an id of 8 to 64 letters, digits, - and _."))


def check_link(link: str) -> None:
    """Raises ValueError if this is not the name of a page of the app, with or without a query."""
    match = LINK.fullmatch(link) if isinstance(link, str) and len(link) <= LONGEST_LINK else None
    if not match or not (PAGES / f"{match[1]}.py").is_file():
        raise ValueError(
            _(
                "A link is the name of a page and its state, such as explore?head=Head+1, of at most {most} characters."
            ).format(most=grouped(LONGEST_LINK))
        )


def _page_link(link: str) -> str:
    """Returns a link without what is about its sender: the teacher opens it in her own language and her own draft."""
    page, _mark, query = link.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name not in OF_THE_SENDER]
    return f"{page}?{urlencode(kept)}" if kept else page


def plain_line(text: str, longest: int, too_long: str) -> str:
    """Returns a text in one line, without control characters and those that change the direction of what follows.

    Raises ValueError if it has more than `longest` characters.

    Example:
        >>> plain_line("  Ada\\u202e\\n L. ", 40, NICKNAME_TOO_LONG)
        'Ada L.'
    """
    if not isinstance(text, str):
        raise ValueError(_("This is no text."))
    shown = (" " if c.isspace() else c for c in text[: 10 * longest])
    line = " ".join("".join(c for c in shown if unicodedata.category(c)[0] != "C" or c == "\u200d").split())
    if len(line) > longest or len(text) > 10 * longest:
        raise ValueError(_(too_long).format(most=longest, count=grouped(len(text))))
    return line


def _answers(number: int, round_: int) -> str:
    return f"answers {number} {round_}"


def _poll_state(stored: bytes | None) -> tuple[int, int, str]:
    number, round_, phase = json.loads(stored) if stored else (0, 0, NONE)
    return number, round_, phase


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _digest(key: str) -> str:
    return hashlib.sha256(str(key).encode("utf-8", "replace")).hexdigest()
