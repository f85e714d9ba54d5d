"""Sentences that name a cause, or say what a part of a model does, and lists of the measurements that support them.

A list is causal_sentences.toml beside a test: each claim with its measurement and the test of that, and sentences that
claim nothing of a part of a model, by the reason.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from docs.tools.translations import ROOT, syntax_tree

CAUSAL = re.compile(
    r"\b(because|why|so (?:it|they|this|that)|therefore|thus|due to|makes?|helps?|raises?|lowers?|undoes"
    r"|carr(?:y|ies|ied)|works? through|builds? on|makes? up for|steps? in|explains?|causes?|decides?|depends?|matters?"
    r"|recover(?:s|ed)?|repairs?|suppress\w*|copies|copying|without|adds?(?! up)|(?:more|less|times as) likely"
    r"|directly)\b",
    re.IGNORECASE,
)
BEGINS = "…"  # the end of the beginning of a long text in a list
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!et al\.)\s+")
LINK = re.compile(r"!?\[((?:[^\[\]]|\n)*)\]\([^()]*\)")
NO_PROSE = re.compile(r"^ *```.*?^ *```|^#.*?$", re.DOTALL | re.MULTILINE)  # programs and headings
ALT = re.compile(r'<[^<>]*\balt="([^"]*)"[^<>]*>')
TAG = re.compile(r"<[^<>]+>")
PARAGRAPH_END = re.compile(r"\n\s*\n|\n(?= *(?:- |\d+\. |\||: ))")
MARKER = re.compile(r"^\s*(?:- |\d+\. |: )")  # of a list or a definition
CELL_END = re.compile(r"(?<!\\)\|")


def causal(message: str) -> bool:
    """Whether a message may name a cause: a question does not."""
    return bool(CAUSAL.search(message)) and not message.endswith("?")


def sentences(text: str) -> Iterator[str]:
    yield from filter(None, SENTENCE_END.split(" ".join(text.split())))


def prose(markdown: str) -> Iterator[str]:
    """The sentences of a page, without headings, programs and markup; each cell of a table is a text of its own."""
    text = TAG.sub("", ALT.sub(r"\1", NO_PROSE.sub("", markdown)))
    for paragraph in PARAGRAPH_END.split(LINK.sub(r"\1", text).replace("*", "")):
        is_row = paragraph.lstrip().startswith("|")
        for part in CELL_END.split(paragraph) if is_row else [MARKER.sub("", paragraph)]:
            yield from sentences(part)


def is_in(message: str, texts: Iterable[str]) -> bool:
    return any(message.startswith(text[:-1]) if text.endswith(BEGINS) else message == text for text in texts)


class SentenceList:
    """The list beside a test file."""

    def __init__(self, test: str) -> None:
        found = tomllib.loads(Path(test).with_name("causal_sentences.toml").read_text(encoding="utf-8"))
        self.claims: list[dict] = found["claim"]
        self.no_claims: dict[str, list[str]] = found["no_claim"]

    @property
    def texts(self) -> list[str]:
        """Its sentences, or their beginnings."""
        return [*chain.from_iterable(claim["sentences"] for claim in self.claims), *chain(*self.no_claims.values())]

    def missing(self, places: dict[str, str]) -> list[str]:
        """The causal sentences that it does not have, of sentences with their places."""
        texts = self.texts
        return [f"{place}: {one}" for one, place in places.items() if causal(one) and not is_in(one, texts)]

    def unknown(self, known: Iterable[str]) -> list[str]:
        """Its sentences that are not among those known."""
        known = list(known)
        return [text for text in self.texts if not any(is_in(one, [text]) for one in known)]

    def check_claims(self) -> None:
        """Each claim names a measurement, and a test that is there."""
        for claim in self.claims:
            assert {*claim} == {"sentences", "claims", "measured", "test"}
            file, _colons, name = claim["test"].partition("::")
            functions = {node.name for node in ast.walk(syntax_tree(ROOT / file)) if isinstance(node, ast.FunctionDef)}
            assert name in functions, claim["test"]
