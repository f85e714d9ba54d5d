"""Tokens that a reader has put in place of a model's own, as a link has them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.base.language import value_error

MOST_CHOICES, MOST_IDS = 64, 64  # of a text, and tokens of a choice
BETWEEN = "-"  # choices in a link
CHOICE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,7})+")


@dataclass(frozen=True)
class TokenChoice:
    """Tokens in place of a model's own, from a position among the written tokens on."""

    position: int
    ids: tuple[int, ...]

    def __str__(self) -> str:
        return ".".join(map(str, (self.position, *self.ids)))


def parse_choices(text: str) -> tuple[TokenChoice, ...]:
    """Returns the choices of a link, in the order of their positions. Raises ValueError for any other text.

    Example:
        >>> parse_choices("0.7042-5.260.3575")[1]
        TokenChoice(position=5, ids=(260, 3575))
    """
    entries = text.split(BETWEEN) if text else []
    if len(entries) > MOST_CHOICES or not all(map(CHOICE.fullmatch, entries)):
        raise value_error("This is not a list of chosen tokens, such as 0.7042-5.260.")
    numbers = [[*map(int, entry.split("."))] for entry in entries]
    choices = tuple(TokenChoice(position, tuple(ids)) for position, *ids in numbers)
    ends = [0, *(one.position + len(one.ids) for one in choices)]
    if any(len(one.ids) > MOST_IDS or one.position < end for one, end in zip(choices, ends, strict=False)):
        raise value_error("The positions of chosen tokens must increase.")
    return choices


def format_choices(choices: Sequence[TokenChoice]) -> str:
    """Returns the text of choices in a link."""
    return BETWEEN.join(map(str, choices))
