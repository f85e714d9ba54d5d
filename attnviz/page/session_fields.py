"""Fields whose values may be too long or too private for a link; a session keeps them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from attnviz.base.formatting import grouped
from attnviz.base.language import N_, _, value_error
from attnviz.page.fields import Field, LinkReader, ParsedField, opening_text
from attnviz.sources.upload import File

T = TypeVar("T")

LONGEST_LINK = 2_000  # characters of a text in the link: longer addresses are cut off in chats and mails
TEXT_NOT_LINKED = N_("A text of more than {most} characters is not in the link, and is gone after a reload.")
FILE_NOT_LINKED = N_("The uploaded file is not in the link, and is gone after a reload.")


class LongField(ParsedField[T]):
    """A value that is written as a text, which the link has unless it is long."""

    def write(self, state: Any, value: T) -> Iterator[tuple[str, str]]:
        if note := text_note(self.text(value)):
            raise ValueError(note)
        yield from super().write(state, value)


class LongTextField(LongField[str]):
    """A text, which the link has unless it is long. The opening one may depend on the fields before it."""

    def __init__(self, label: str, opening: str | Callable[[Any], str] = "", **options: Any) -> None:
        super().__init__(label, str, "", **options)
        self.opening = opening_text(opening)


class FileField(Field[File | None]):
    """An uploaded file of at most some megabytes with one of some endings, which no link has; None at first."""

    def __init__(self, label: str, endings: Sequence[str], megabytes: int, **options: Any) -> None:
        super().__init__(label, lambda _state: None, **options)
        self.endings, self.megabytes = endings, megabytes

    def read(self, state: Any, link: LinkReader) -> None:
        return None

    def write(self, state: Any, value: File | None) -> Iterator[tuple[str, str]]:
        raise value_error(FILE_NOT_LINKED)


def text_note(*texts: str) -> str:
    """Returns a note if one of the texts is too long for the link, or else an empty text."""
    is_long = any(len(text) > LONGEST_LINK for text in texts)
    return _(TEXT_NOT_LINKED, most=grouped(LONGEST_LINK)) if is_long else ""
