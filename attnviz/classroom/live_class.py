"""A live class: what its teacher shows and asks, and what the room answers."""

import hashlib
import hmac
import json
import re
import secrets
import time
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from attnviz.classroom.question import Question, Value, distance_sentence
from attnviz.classroom.results import Results
from attnviz.classroom.store import LARGEST, Store, UnknownClass, Version
from attnviz.formatting import quoted

LETTERS = "ACDEFGHJKLMNPQRTUVWXY3479"  # none looks like another
CODE = 5  # letters
MOST_PEOPLE = 500
MOST_POLLS = 100
MOST_MESSAGES, MESSAGES_EACH = 200, 20
MESSAGE, NICKNAME, LINK = 280, 40, 12_000  # characters
PAGES = ("start", "explore", "lessons", "lookup", "steps", "path", "scores", "masks", "transformer", "models")

Phase = Literal["open", "closed", "revealed"]


@dataclass(frozen=True)
class Teaching:
    """A class that was started: its code, for everybody, and the key of its teacher."""

    code: str
    key: str


@dataclass(frozen=True)
class View:
    """What the teacher shows: the page and its parameters, its title, and the stamp of its picture."""

    link: str
    title: str
    stamp: str


@dataclass(frozen=True)
class Poll:
    """A question that was asked: the number of its vote, and whether that is open, closed or revealed."""

    id: str
    question: Question
    link: str  # of the page when it was asked
    round: int = 1
    phase: Phase = "open"

    def to_bytes(self) -> bytes:
        """Returns what the store has."""
        return _bytes({**vars(self), "question": self.question.to_json()})

    @classmethod
    def from_bytes(cls, content: bytes) -> "Poll":
        """Reads what the store has."""
        values = json.loads(content)
        return cls(**{**values, "question": Question.from_json(values["question"])})


@dataclass(frozen=True)
class Message:
    """A question from the room: a text, and the page and the parameters that its sender saw."""

    id: str
    participant: str
    text: str
    link: str
    nickname: str = ""
    read: bool = False


class Classes:
    """The classes of a store, each kept for so many hours."""

    def __init__(self, store: Store, hours: float) -> None:
        self.store, self.hours = store, hours

    def start(self) -> Teaching:
        """Starts a class."""
        key = secrets.token_urlsafe(24)
        while True:
            code = "".join(secrets.choice(LETTERS) for _ in range(CODE))
            if self.store.create(code, {"key": _digest(key)}, time.time() + 3600 * self.hours):
                return Teaching(code, key)

    def open(self, code: str) -> "LiveClass":
        """Returns the class with a code, in large or small letters. Raises UnknownClass."""
        code = code.strip().upper()
        if not re.fullmatch(f"[{LETTERS}]{{{CODE}}}", code) or not self.store.versions([code]):
            raise UnknownClass(f"There is no class {quoted(code[:20])}. Check the code, or ask your teacher.")
        return LiveClass(self.store, code)

    def versions(self, codes: Collection[str]) -> dict[str, Version]:
        """Returns the versions of those classes that have not ended."""
        return self.store.versions(codes)


class LiveClass:
    """One class."""

    def __init__(self, store: Store, code: str) -> None:
        self.store, self.code = store, code

    @property
    def version(self) -> Version:
        """The version. Raises UnknownClass if the class has ended."""
        try:
            return self.store.versions([self.code])[self.code]
        except KeyError:
            raise UnknownClass(f"There is no class {self.code} any more.") from None

    def is_teacher(self, key: str) -> bool:
        """Returns whether this is the key of the teacher."""
        return hmac.compare_digest(self.store.get(self.code, "class", "key") or b"", _digest(key))

    def end(self) -> None:
        """Ends the class and deletes all of it."""
        self.store.delete(self.code)

    # What the teacher shows

    def publish(self, link: str, title: str, picture: bytes) -> None:
        """Shows a page to everybody. Raises ValueError if the picture is too large, or the link no page of the app."""
        if len(picture) > LARGEST:
            raise ValueError(f"A picture for a class has at most {LARGEST >> 20} MB.")
        view = View(page_link(link), title[:80], hashlib.sha256(picture).hexdigest()[:16])
        if view == (before := self.view()):
            return
        if before is None or view.stamp != before.stamp:
            self.store.write(self.code, "pictures", {view.stamp: picture}, "panel", 3)
        self.store.write(self.code, "class", {"view": _bytes(vars(view))}, "state", 10)
        old = [stamp for stamp in self._stamps() if stamp not in (view.stamp, before.stamp if before else "")]
        if old:
            self.store.write(self.code, "pictures", dict.fromkeys(old), "panel", 3)

    def view(self) -> View | None:
        """Returns what the teacher shows; None before the first page."""
        content = self.store.get(self.code, "class", "view")
        return View(**json.loads(content)) if content else None

    def picture(self, stamp: str) -> bytes | None:
        """Returns a picture; None if there is a newer one."""
        return self.store.get(self.code, "pictures", stamp)

    def _stamps(self) -> list[str]:
        return self.store.fields(self.code, "pictures")

    # People

    @property
    def participants(self) -> int:
        """The number of people who have opened the class."""
        return self.store.count(self.code, "people")

    def join(self, participant: str) -> None:
        """Counts a person in. Raises ValueError if the class is full."""
        if self.store.get(self.code, "people", participant) is not None:
            return
        try:
            self.store.write(self.code, "people", {participant: b""}, "panel", MOST_PEOPLE)
        except UnknownClass:
            raise
        except ValueError:
            raise ValueError(f"This class is full: {MOST_PEOPLE} people are in it.") from None

    def nickname(self, participant: str) -> str:
        """Returns the nickname of a person, or no text."""
        return (self.store.get(self.code, "people", participant) or b"").decode()

    def set_nickname(self, participant: str, text: object) -> None:
        """Sets or removes a nickname. Raises ValueError if it is too long."""
        name = " ".join(_printable(_text(text, "A nickname")).split())
        if len(name) > NICKNAME:
            raise ValueError(f"A nickname has at most {NICKNAME} characters; this one has {len(name)}.")
        self._check_member(participant)
        part: Literal["state", "panel"] = "state" if self.shows_names else "panel"
        self.store.write(self.code, "people", {participant: name.encode()}, part, MOST_PEOPLE)

    def people(self) -> dict[str, str]:
        """Returns the nicknames of all participants, in the order in which they came."""
        return {name: nickname.decode() for name, nickname in self.store.read(self.code, "people").items()}

    def names(self) -> list[str]:
        """Returns the nicknames of all who have one."""
        return sorted(name for name in self.people().values() if name)

    @property
    def shows_names(self) -> bool:
        """Whether everybody sees the nicknames."""
        return self.store.get(self.code, "class", "names") == b"1"

    def show_names(self, show: bool) -> None:
        """Shows the nicknames to everybody, or hides them."""
        self.store.write(self.code, "class", {"names": b"1" if show else b"0"}, "state", 10)

    def _check_member(self, participant: str) -> None:
        if self.store.get(self.code, "people", participant) is None:
            raise ValueError("Open the page of the class first.")

    # Polls

    def ask(self, question: Question) -> str:
        """Asks everybody a question, which takes the place of the one before; returns its id."""
        view = self.view()
        poll = Poll(secrets.token_hex(4), question, view.link if view else "explore")
        self.store.write(self.code, "polls", {poll.id: poll.to_bytes()}, "panel", MOST_POLLS)
        self.store.write(self.code, "class", {"poll": poll.id.encode()}, "state", 10)
        return poll.id

    def poll(self) -> Poll | None:
        """Returns the question that is asked at the moment, or None."""
        name = (self.store.get(self.code, "class", "poll") or b"").decode()
        content = self.store.get(self.code, "polls", name) if name else None
        return Poll.from_bytes(content) if content else None

    def polls(self) -> list[Poll]:
        """Returns all questions that were asked, in their order."""
        return [Poll.from_bytes(content) for content in self.store.read(self.code, "polls").values()]

    def answer(self, participant: str, poll: object, vote: object, value: object) -> None:
        """Takes the answer of a person, whose last one counts. Raises ValueError if that vote is not open, or if the
        answer is none."""
        now = self.poll()
        if now is None or poll != now.id or vote != now.round or now.phase != "open":
            raise ValueError("This vote has ended. Your answer does not count any more.")
        parsed = now.question.parse_answer(value)
        self._check_member(participant)
        self.store.write(self.code, _votes(now, now.round), {participant: _bytes(parsed)}, "panel", MOST_PEOPLE)

    def answers(self, poll: Poll, vote: int) -> dict[str, Value]:
        """Returns the answers of a vote by participant."""
        group = self.store.read(self.code, _votes(poll, vote))
        return {participant: _value(content) for participant, content in group.items()}

    def answer_count(self, poll: Poll) -> int:
        """Returns the number of answers of the present vote."""
        return self.store.count(self.code, _votes(poll, poll.round))

    def own_answer(self, participant: str, poll: Poll) -> Value | None:
        """Returns what a person has answered in the present vote, or None."""
        content = self.store.get(self.code, _votes(poll, poll.round), participant)
        return None if content is None else _value(content)

    def own_distance(self, participant: str, poll: Poll) -> str:
        """Returns a sentence about a person's last answer, once the truth is revealed."""
        value = self.own_answer(participant, poll)
        return distance_sentence(poll.question, value) if value is not None and poll.phase == "revealed" else ""

    def results(self, poll: Poll) -> Results:
        """Returns what was answered in all votes of a question."""
        votes = (tuple(self.answers(poll, vote).values()) for vote in range(1, poll.round + 1))
        return Results(poll.question, tuple(votes))

    def close(self) -> None:
        """Ends the present vote, and shows what the room has answered."""
        self._change(("open",), phase="closed")

    def reveal(self) -> None:
        """Ends the present vote, and shows the truth, too."""
        self._change(("open", "closed"), phase="revealed")

    def vote_again(self) -> None:
        """Opens the second vote."""
        self._change(("closed", "revealed"), phase="open", round=2)

    def dismiss(self) -> None:
        """Puts the question away."""
        self.store.write(self.code, "class", {"poll": b""}, "state", 10)

    def _change(self, phases: tuple[Phase, ...], **values: Any) -> None:
        """Changes the present question if it is in one of these phases; what another tab has done is done once."""
        while (poll := self.poll()) and poll.phase in phases:
            after = replace(poll, **values)
            if self.store.swap(self.code, "polls", poll.id, poll.to_bytes(), after.to_bytes(), "state"):
                return

    # Questions from the room

    def send(self, participant: str, link: object, text: object) -> None:
        """Sends a question to the teacher. Raises ValueError if it is too long, or one too many."""
        words = " ".join(_printable(_text(text, "A question")).split())
        if len(words) > MESSAGE:
            raise ValueError(f"A question has at most {MESSAGE} characters; this one has {len(words)}.")
        self._check_member(participant)
        sent = self.messages()
        if sum(one.participant == participant for one in sent) >= MESSAGES_EACH or len(sent) >= MOST_MESSAGES:
            raise ValueError("The teacher has many questions already. Raise your hand instead.")
        message = {"participant": participant, "text": words, "link": page_link(_text(link, "A link"))}
        self.store.write(
            self.code, "messages", {secrets.token_hex(4): _bytes(message | {"read": False})}, "panel", MOST_MESSAGES
        )

    def messages(self) -> list[Message]:
        """Returns the questions from the room, the newest first."""
        people = self.people()
        sent = [(name, json.loads(content)) for name, content in self.store.read(self.code, "messages").items()]
        return [
            Message(name, nickname=people.get(values["participant"], ""), **values) for name, values in reversed(sent)
        ]

    def mark_read(self, name: object) -> None:
        """Marks a question from the room as read."""
        content = self.store.get(self.code, "messages", name) if isinstance(name, str) else None
        if isinstance(name, str) and content:
            after = _bytes(json.loads(content) | {"read": True})
            self.store.swap(self.code, "messages", name, content, after, "panel")


def page_link(link: str) -> str:
    """Returns a link to a page of the app, such as "masks?mask-b=causal". Raises ValueError if it is none."""
    page, _, query = link.partition("?")
    if page not in PAGES or len(link) > LINK or not link.isprintable() or re.search(r"[\s#\"'<>\\]", query):
        raise ValueError("This is no link to a page of this app.")
    return link


def _votes(poll: Poll, vote: int) -> str:
    return f"answers {poll.id} {vote}"


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is a text.")
    return value


def _printable(text: str) -> str:
    """Returns a text without control characters, and without those that turn the direction of writing."""
    return "".join(
        " " if letter.isspace() else letter
        for letter in text
        if letter.isspace() or unicodedata.category(letter)[0] != "C"
    )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).hexdigest().encode()


def _bytes(content: object) -> bytes:
    return json.dumps(content, sort_keys=True).encode()


def _value(content: bytes) -> Value:
    value = json.loads(content)
    return {int(option): count for option, count in value.items()} if isinstance(value, dict) else float(value)
