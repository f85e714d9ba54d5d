"""A term of a sum, as a link names it."""

import re
from dataclasses import dataclass

from attnviz.attribution.attribution import WriterShare
from attnviz.base.language import value_error

HEAD = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,6})")
MLP = re.compile(r"mlp\.([0-9]{1,4})\.([0-9]{1,6})")
EMBEDDING = re.compile(r"(?!mlp)([a-z]+)\.([0-9]{1,6})")
NO_STACK = "word"  # before the position of an embedding in a model with one text


@dataclass(frozen=True)
class SumTerm:
    """A head, an MLP (`layer` is its number) or the embeddings at a position; of these `stack` says in which text."""

    position: int
    layer: int | None = None
    head: int | None = None
    stack: str = ""

    @classmethod
    def from_share(cls, share: WriterShare) -> "SumTerm":
        """Returns the term that has a share."""
        return cls(share.position, share.layer, share.head, share.stack if share.layer is None else "")

    def __str__(self) -> str:
        if self.layer is None:
            return f"{self.stack or NO_STACK}.{self.position}"
        return f"mlp.{self.layer}.{self.position}" if self.head is None else f"{self.layer}.{self.head}.{self.position}"


def parse_term(text: str) -> SumTerm | None:
    """Returns the term of a link, None for an empty text. Raises ValueError for any other text.

    Example:
        >>> parse_term("23.3.13"), str(parse_term("mlp.28.13")), str(parse_term("word.9"))
        (SumTerm(position=13, layer=23, head=3, stack=''), 'mlp.28.13', 'word.9')
    """
    if not text:
        return None
    if match := HEAD.fullmatch(text):
        layer, head, position = map(int, match.groups())
        return SumTerm(position, layer, head)
    if match := MLP.fullmatch(text):
        return SumTerm(int(match[2]), int(match[1]))
    if match := EMBEDDING.fullmatch(text):
        return SumTerm(int(match[2]), stack="" if match[1] == NO_STACK else match[1])
    raise value_error("This is not a term of a sum, such as 23.3.13, mlp.28.13 or word.9.")


def format_term(term: SumTerm | None) -> str:
    """Returns the text of a term in a link."""
    return "" if term is None else str(term)
