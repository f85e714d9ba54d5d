"""Sentences about cells, and labels of tokens."""

from dataclasses import dataclass
from textwrap import wrap

from attnviz.base.formatting import number, visible
from attnviz.base.language import N_, _

LONGEST_LABEL = 14  # characters of a token on an axis; the sentence has it whole
ARROW = " → "  # between what goes into a decoder and what comes out of it, in the name of a row

GIVES = N_("{query} gives {weight} of its attention to {key}.")
GIVES_ON_AVERAGE = N_("{query} gives {weight} of its attention to {key}, on average over heads.")
GIVES_AT_MOST = N_("{query} gives up to {weight} of its attention to {key}, in the head that gives most.")
MASKED = N_("{query} may not look at {key}.")
EMPTY_ROW = N_("{query} may look at nothing.")


@dataclass(frozen=True)
class CellSentences:
    """The sentences of a map's cells: templates with {query}, {key} and {weight}."""

    allowed: str = GIVES
    masked: str = MASKED
    empty_row: str = EMPTY_ROW  # of a row in which every cell is masked


@dataclass(frozen=True)
class ChangeSentences:
    """The sentences of a cell of two maps: templates with {query}, {key}, and the weights {before} and {after}."""

    neither: str = N_("Neither lets {query} look at {key}.")
    kept: str = N_("{query} gives {after} of its attention to {key}, in both.")
    reweighted: str = N_("{query} gives {after} of its attention to {key}, {before} before.")
    removed: str = N_("{query} no longer sees {key}, to which it gave {before}.")
    added: str = N_("{query} now sees {key} and gives it {after}.")


CELL_SENTENCES, CHANGE_SENTENCES = CellSentences(), ChangeSentences()


def cell_sentence(query: str, key: str, weight: float | None, template: str = GIVES) -> str:
    """Returns the sentence of one cell. A weight of None is a masked cell.

    Example:
        >>> cell_sentence("it", "animal", 0.41)
        'it gives 0.41 of its attention to animal.'
        >>> cell_sentence("it", "road", None)
        'it may not look at road.'
    """
    template = MASKED if weight is None else template
    return _(template, query=visible(query), key=visible(key), weight="" if weight is None else number(weight))


def label(token: str) -> str:
    """Returns a token, or two with an arrow between them, as the label of an axis: visible, short, and escaped,
    because plotly reads markup.

    Example:
        >>> label("<s>"), label(""), label("petite → voiture")
        ('&lt;s&gt;', '∅', 'petite → voiture')
    """
    parts = (
        one if len(one) <= LONGEST_LABEL else f"{one[: LONGEST_LABEL - 1]}…" for one in visible(token).split(ARROW)
    )
    return escaped(ARROW.join(parts))


def label_lines(text: str) -> str:
    """Returns a text of several words as the label of an axis, in at most three lines.

    Example:
        >>> label_lines("It stays as it is")
        'It stays as it<br>is'
    """
    return "<br>".join(map(escaped, wrap(visible(text), LONGEST_LABEL, max_lines=3, placeholder="…")))


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
