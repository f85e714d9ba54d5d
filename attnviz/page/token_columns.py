"""The tokens of two texts in columns, those that belong together in one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attnviz.base.formatting import plain_word
from attnviz.effects.token_alignment import Alignment


@dataclass(frozen=True)
class TokenColumn:
    """A token of each text; None where one text has none that belongs to it."""

    first: str | None
    second: str | None
    position: int | None = None  # in the second text

    @property
    def kind(self) -> Literal["same", "other", "alone"]:
        """Whether both tokens are the same, or others, or one of them is alone."""
        if None in (self.first, self.second):
            return "alone"
        return "same" if self.first == self.second else "other"


def token_columns(first: Sequence[str], second: Sequence[str], aligned: Alignment) -> list[TokenColumn]:
    """Returns the tokens of both texts in the order of the second one; those of the first that belong to none follow
    the token that is before them."""
    sources = {target: source for source, target in aligned}
    alone = {*range(len(first))} - {*sources.values()}
    columns: list[TokenColumn] = []

    def add_alone(position: int) -> None:
        while position in alone:
            columns.append(TokenColumn(plain_word(first[position]), None))
            alone.remove(position)
            position += 1

    add_alone(0)
    for target, token in enumerate(second):
        source = sources.get(target)
        columns.append(TokenColumn(None if source is None else plain_word(first[source]), plain_word(token), target))
        if source is not None:
            add_alone(source + 1)
    for position in sorted(alone):
        add_alone(position)
    return columns
