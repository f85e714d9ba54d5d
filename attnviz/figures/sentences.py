"""Cells and tokens in words."""

from attnviz.formatting import number, visible

LONGEST_LABEL = 14  # characters of a token on an axis; the sentence has it whole

GIVES = "{query} gives {weight} of its attention to {key}."
GIVES_ON_AVERAGE = "{query} gives {weight} of its attention to {key}, on average over heads."
GIVES_AT_MOST = "{query} gives up to {weight} of its attention to {key}, in the head that gives most."
MASKED = "{query} may not look at {key}."
NOTHING = "{query} may look at nothing."  # of a row in which every cell is masked
CHANGED = {  # of one cell of two maps; before and after are its weights
    "neither": "Neither lets {query} look at {key}.",
    "same": "{query} gives {after} of its attention to {key}, in both.",
    "re-weighted": "{query} gives {after} of its attention to {key}, {before} before.",
    "removed": "{query} no longer sees {key}, to which it gave {before}.",
    "added": "{query} now sees {key} and gives it {after}.",
}


def sentence(query: str, key: str, weight: float | None, says: str = GIVES) -> str:
    """One cell in words: “it gives 0.41 of its attention to animal.” A weight of None is a masked cell."""
    said = MASKED if weight is None else says
    return said.format(query=visible(query), key=visible(key), weight="" if weight is None else number(weight))


def label(token: str) -> str:
    """A token for an axis: visible, short, and with nothing that plotly would read as markup."""
    shown = visible(token)
    if len(shown) > LONGEST_LABEL:
        shown = shown[: LONGEST_LABEL - 1] + "…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
