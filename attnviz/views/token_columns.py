"""The tokens of a clean and a corrupted text in columns, those that belong together in one."""

from dataclasses import dataclass
from typing import Literal

from attnviz.state.effects import EffectsState
from attnviz.views.why_answer import plain_word


@dataclass(frozen=True)
class TokenColumn:
    """A token of each text; None where one text has none that belongs to it."""

    clean: str | None
    corrupted: str | None
    position: int | None = None  # in the corrupted text

    @property
    def kind(self) -> Literal["same", "other", "alone"]:
        """Whether both tokens are the same, or others, or one of them is alone."""
        if None in (self.clean, self.corrupted):
            return "alone"
        return "same" if self.clean == self.corrupted else "other"


def token_columns(state: EffectsState) -> list[TokenColumn]:
    """Returns the tokens of both texts in the order of the corrupted one; those of the clean text that belong to none
    follow the token that is before them."""
    clean, corrupted = state.run.source, state.corrupted_inputs.source.tokens
    sources = {target: source for source, target in state.alignment}
    alone = {*range(len(clean))} - {*sources.values()}
    columns: list[TokenColumn] = []

    def add_alone(position: int) -> None:
        while position in alone:
            columns.append(TokenColumn(plain_word(clean[position]), None))
            alone.remove(position)
            position += 1

    add_alone(0)
    for target, token in enumerate(corrupted):
        source = sources.get(target)
        columns.append(TokenColumn(None if source is None else plain_word(clean[source]), plain_word(token), target))
        if source is not None:
            add_alone(source + 1)
    for position in sorted(alone):
        add_alone(position)
    return columns
