"""The texts of tokens, as a person reads them: the only place that decodes a tokenizer's names."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers.convert_slow_tokenizer import bytes_to_unicode

from attnviz.text import shorten_token

SPACE_MARKS = "Ġ▁"  # stand for a space in the names of byte-level BPE and of SentencePiece
CONTINUATION = "##"  # starts the name of a piece inside a word, in WordPiece
BYTES = {character: byte for byte, character in bytes_to_unicode().items()}  # of byte-level BPE
BYTE_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")  # the name of a byte, in SentencePiece


@dataclass(frozen=True)
class VocabularyToken:
    """A token of a vocabulary: its name there, and what the tokenizer decodes it to."""

    name: str
    decoded: str

    @property
    def text(self) -> str:
        """The token by itself, with its spaces; bytes that are no whole character by number, as in “byte 0xBB”."""
        if "\ufffd" in self.decoded and (numbers := self._byte_numbers):
            return f"byte{'s' * (len(numbers) > 1)} {' '.join(numbers)}"
        before, after = self._spaces
        return shorten_token(f"{before}{self.decoded.strip(' ')}{after}" or self.name)

    def as_typed(self, typed: str, is_shared: bool = False) -> str:
        """Returns the characters that a person typed for the token, with the token's own spaces, and with ## where the
        vocabulary has it. The token's own text follows if other tokens share the characters."""
        before, after = self._spaces
        if not typed.strip():
            return self.text if before or not typed else shorten_token(typed)
        if is_shared:
            return shorten_token(f"{before}{typed.strip()}·{self.text.strip(' ')}")
        inside = CONTINUATION if self.name.startswith(CONTINUATION) and not typed.startswith("#") else ""
        typed = typed.lstrip() if before else typed.lstrip(" ")  # of a line break that is read as a space
        return shorten_token(f"{before}{inside}{typed.rstrip(' ')}{after}")

    @property
    def _spaces(self) -> tuple[str, str]:
        """The spaces at the start and at the end of the token."""
        marks = "".join(mark for mark in SPACE_MARKS if mark not in self.decoded)
        rest = self.name.lstrip(marks)
        return " " * (len(self.name) - len(rest)), " " * (len(rest) - len(rest.rstrip(marks)))

    @property
    def _byte_numbers(self) -> list[str]:
        """The bytes of the token, such as “0xBB”; empty if its name does not stand for bytes."""
        if byte := BYTE_FALLBACK.fullmatch(self.name):
            return [f"0x{byte[1]}"]
        is_bytes = all(character in BYTES for character in self.name)
        return [f"0x{BYTES[character]:02X}" for character in self.name] if is_bytes else []


def vocabulary_tokens(tokenizer: Any, ids: list[int]) -> list[VocabularyToken]:
    """Returns tokens by their ids. A model may have more tokens than its tokenizer: those have their id as a name."""
    if not ids:
        return []
    names, decoded = tokenizer.convert_ids_to_tokens(ids), tokenizer.decode([[token] for token in ids])
    return [VocabularyToken(name or f"[{token}]", text) for token, name, text in zip(ids, names, decoded, strict=True)]


def typed_texts(tokens: Sequence[VocabularyToken], text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Returns the text of each token as it was typed, with its case, accents and marks, from the span of its
    characters.

    A token without characters has its own text. Characters other than spaces that the tokenizer dropped, such as
    combining accents, belong to the token before.
    """
    counts = Counter(spans)
    covered = sorted({i for start, end in spans for i in range(start, end)} | {len(text)})
    texts = []
    for token, (start, end) in zip(tokens, spans, strict=True):
        dropped = re.match(r"\S*", text[end : covered[bisect_left(covered, end)]]) if start < end else None
        typed = text[start:end] + (dropped.group() if dropped else "")
        texts.append(token.as_typed(typed, counts[start, end] > 1))
    return texts
