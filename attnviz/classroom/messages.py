"""Questions from participants to the teacher."""

import hashlib
import json
import time
from dataclasses import dataclass

from attnviz.base.language import N_, _, value_error
from attnviz.classroom.class_record import encode
from attnviz.classroom.page_link import check_link, without_sender
from attnviz.classroom.participants import NICKNAMES, Participants
from attnviz.classroom.plain_line import plain_line
from attnviz.classroom.store import Changed, Expectation, TooMany

MOST_MESSAGES = 200
MOST_OWN_MESSAGES = 20  # of one participant
LONGEST_MESSAGE = 280  # characters
MESSAGE_TOO_LONG = N_("A question has at most {most} characters; this one has {count}.")
MESSAGES = "messages"  # a section


@dataclass(frozen=True)
class Message:
    """A question from a participant about a cell or a head of a page. The nickname is empty unless names are shown."""

    id: str
    link: str
    text: str
    nickname: str
    sent: float  # Unix time
    is_read: bool


class Messages(Participants):
    """The questions from the participants of a class."""

    def send(self, participant: str, link: str, text: str) -> str:
        """Sends a question about a page to the teacher. Returns its id.

        Raises ValueError for an empty or long text or another link, and TooMany after 20 of one participant or 200.
        """
        line = plain_line(text, LONGEST_MESSAGE, MESSAGE_TOO_LONG)
        if not line:
            raise value_error("The question has no words yet. Write what you want to know.")
        check_link(link)
        link = without_sender(link)
        self._check_joined(participant)
        sender = hashlib.sha256(f"{self.code} {participant}".encode()).hexdigest()[:12]
        own = sum(name.startswith(sender) for name in self.store.read(self.code, MESSAGES))
        for number in range(own, MOST_OWN_MESSAGES):
            message_id = f"{sender}-{number}"
            message = {"link": link, "text": line, "participant": participant, "sent": time.time()}
            absent = Expectation(MESSAGES, message_id, None)
            try:
                values = {MESSAGES: {message_id: encode(message)}}
                self.store.write(self.code, values, expected=absent, most=MOST_MESSAGES, is_shared=False)
            except Changed:
                continue
            except TooMany:
                raise TooMany(_("Your teacher’s list of questions is full. Ask in the room.")) from None
            return message_id
        raise TooMany(_("You have sent {count} questions, which is the most that you may.", count=MOST_OWN_MESSAGES))

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
            raise value_error("There is no such question from a participant.")
        value = encode(json.loads(stored) | {"read": True})
        self.store.write(self.code, {MESSAGES: {message_id: value}}, is_shared=False)
