"""Who has joined a class, and their nicknames."""

import json
import re
import time

from attnviz.base.language import N_, _, value_error
from attnviz.classroom.class_record import CLASS, MOST_PARTICIPANTS, ClassRecord, encode
from attnviz.classroom.plain_line import plain_line
from attnviz.classroom.store import Changed, Expectation, TooMany

LONGEST_NICKNAME = 40  # characters
NICKNAME_TOO_LONG = N_("A nickname has at most {most} characters; this one has {count}.")
PARTICIPANTS, NICKNAMES = "participants", "nicknames"  # sections
PARTICIPANT = re.compile(r"[A-Za-z0-9_-]{8,64}")


class Participants(ClassRecord):
    """The participants of a class, by their ids."""

    @property
    def participants(self) -> int:
        """The number of people who have joined."""
        return self.store.count(self.code, PARTICIPANTS)

    def join(self, participant: str) -> None:
        """Lets a participant in, under an id of 8 to 64 letters and digits. Raises TooMany for more than 500."""
        check_participant(participant)
        absent = Expectation(PARTICIPANTS, participant, None)
        try:
            values = {PARTICIPANTS: {participant: encode(time.time())}}
            self.store.write(self.code, values, expected=absent, most=MOST_PARTICIPANTS, is_shared=False)
        except Changed:
            pass  # has joined before
        except TooMany:
            raise TooMany(
                _("This class is full: it has {most} participants already.", most=MOST_PARTICIPANTS)
            ) from None

    def joined(self) -> tuple[str, ...]:
        """Returns the ids of the participants in the order in which they joined."""
        times = self.store.read(self.code, PARTICIPANTS)
        return tuple(sorted(times, key=lambda name: (json.loads(times[name]), name)))

    def has_joined(self, participant: str) -> bool:
        """Returns whether a participant is in. Raises ValueError if its id is not valid."""
        check_participant(participant)
        return self.store.get(self.code, PARTICIPANTS, participant) is not None

    def set_nickname(self, participant: str, text: str) -> str:
        """Gives a participant a nickname, or none for an empty text. Returns it as it is shown.

        Raises ValueError if it has more than 40 characters.
        """
        nickname = plain_line(text, LONGEST_NICKNAME, NICKNAME_TOO_LONG)
        self._check_joined(participant)
        value = nickname.encode() or None
        self.store.write(self.code, {NICKNAMES: {participant: value}}, is_shared=self.shows_names)
        return nickname

    def nickname(self, participant: str) -> str:
        """Returns a participant's own nickname, or an empty text."""
        return (self.store.get(self.code, NICKNAMES, participant) or b"").decode()

    def nicknames(self) -> dict[str, str]:
        """Returns the nicknames by participant, for the teacher's report."""
        return {name: value.decode() for name, value in self.store.read(self.code, NICKNAMES).items()}

    def show_names(self, is_on: bool) -> None:
        """Shows or hides nicknames to the class."""
        self.store.write(self.code, {CLASS: {"names": b"1" if is_on else None}})

    @property
    def shows_names(self) -> bool:
        return "names" in self._class()

    def _check_joined(self, participant: str) -> None:
        if not self.has_joined(participant):
            self.join(participant)


def check_participant(participant: str) -> None:
    """Raises ValueError if this is not the id of a participant."""
    if not isinstance(participant, str) or not PARTICIPANT.fullmatch(participant):
        raise value_error("A participant has an id of 8 to 64 letters, digits, - and _.")
