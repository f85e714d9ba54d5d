"""The texts of tokens, as a person reads them: the only place that decodes a tokenizer's names."""

import re
from bisect import bisect_left
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, compress, groupby, pairwise
from typing import Any, TypeAlias
from unicodedata import normalize

from attnviz.base.formatting import quoted
from attnviz.base.text import shorten_token

SPACE_MARKS = "Ġ▁"  # stand for a space in the names of byte-level BPE and of SentencePiece
CONTINUATION = "##"  # starts the name of a piece inside a word, in WordPiece
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
# The characters of byte-level BPE: printable ones stand for themselves, the others come after those of a byte.
BYTES = {chr(byte): byte for byte in PRINTABLE} | {
    chr(0x100 + i): byte for i, byte in enumerate(sorted({*range(0x100)} - {*PRINTABLE}))
}
END_OF_WORD = "</w>"  # ends the name of a word's last piece, in the byte-level BPE of CLIP
TokenTexts: TypeAlias = Sequence[str] | Callable[..., Any]  # texts, or a function of a list of ids, or a tokenizer
BYTE_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")  # the name of a byte, in SentencePiece
BYTE_TEXT = re.compile("bytes?( 0x[0-9A-F]{2})+")  # the text of a token that is a part of characters
STRAY_BYTE = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of a byte that belongs to no character

NUMBER = "#"  # before the id of a token that cannot be typed


@dataclass(frozen=True)
class VocabularyToken:
    """A token of a vocabulary: its name there, and what the tokenizer decodes it to."""

    name: str
    decoded: str

    @property
    def text(self) -> str:
        """The token by itself, with its spaces; bytes that are not a whole character by number, as in “byte 0xBB”."""
        if part := self.part_of_characters:
            return f"byte{'s' * (len(part) > 1)} {' '.join(f'0x{byte:02X}' for byte in part)}"
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
    def part_of_characters(self) -> bytes:
        """The bytes of a token that begins or ends within a character; empty for another, and without such a name."""
        if "\ufffd" not in self.decoded:
            return b""
        if byte := BYTE_FALLBACK.fullmatch(self.name):
            return bytes.fromhex(byte[1])
        return _bytes_of(self.name) if BYTES.keys() >= {*self.name.removesuffix(END_OF_WORD)} else b""


def vocabulary_tokens(tokenizer: Any, ids: list[int]) -> list[VocabularyToken]:
    """Returns tokens by their ids. A model may have more tokens than its tokenizer: those have their id as a name, and
    special ones that cannot be printed, such as CANINE's, that of their role."""
    if not ids:
        return []
    names, decoded = tokenizer.convert_ids_to_tokens(ids), tokenizer.decode([[token] for token in ids])
    tokens = [
        VocabularyToken(name or f"[{token}]", text) for token, name, text in zip(ids, names, decoded, strict=True)
    ]
    if getattr(tokenizer, "is_fast", True):
        return tokens
    roles = {
        name: f"[{role.removesuffix('_token').upper()}]"
        for role, name in tokenizer.special_tokens_map.items()
        if isinstance(name, str) and not name.isprintable()
    }
    two = tokenizer("\u01c0", add_special_tokens=False)["input_ids"]
    is_of_bytes = tokenizer.convert_ids_to_tokens(two) == [
        "\xc7",
        "\x80",
    ]  # names by number, as in ByT5
    return [
        VocabularyToken(f"<0x{ord(token.name):02X}>", "\ufffd")
        if is_of_bytes and "\x80" <= token.name <= "\xff"
        else replace(token, name=roles[token.name], decoded=roles[token.name])
        if token.name in roles
        else token
        for token in tokens
    ]


def joined_bytes(texts: Iterable[str]) -> list[str]:
    """Returns the texts of consecutive tokens with whole characters: one of several tokens stands at the last of them,
    and “·” at those before. A byte that is not a part of a character stays as it is.

    Example:
        >>> joined_bytes(["I", "bytes 0x20 0xF0", "byte 0x9F", "bytes 0x98 0x80", "byte 0x80"])
        ['I', ' ·', '·', '😀', 'byte 0x80']
    """
    joined = []
    for is_part, group in groupby(texts, lambda text: BYTE_TEXT.fullmatch(text) is not None):
        decoder = getincrementaldecoder("utf-8")("surrogateescape")
        for text in group:
            part = decoder.decode(bytes.fromhex(text.partition(" ")[2].replace("0x", ""))) if is_part else text
            joined.append(text if STRAY_BYTE.search(part) else part + "·" * (decoder.getstate()[0] != b""))
    return joined


def token_names(tokens: TokenTexts, ids: Sequence[int]) -> tuple[str, ...]:
    """Returns `tokens` themselves, or what they make of token ids: a function its own names, and a tokenizer, or a
    method of one, the texts of tokens. Raises ValueError if a function does not return a text for each id.

    Example:
        >>> token_names(["to", "be"], ()), token_names(lambda ids: [f"t{one}" for one in ids], [3, 5])
        (('to', 'be'), ('t3', 't5'))
    """
    owner = getattr(tokens, "__self__", tokens)
    tokenizer = getattr(owner, "tokenizer", owner)  # of a processor
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        return token_texts(vocabulary_tokens(tokenizer, [*ids]))
    names = tokens if not callable(tokens) else tokens([*ids]) if ids else ()
    if isinstance(names, str) or (callable(tokens) and len(names) != len(ids)):
        result = f"one text, {quoted(names)}" if isinstance(names, str) else str(len(names))
        raise ValueError(
            f"tokens must be a text for each token, or make one of each of {len(ids)} token ids; it gives {result}. "
            "Give the model's tokenizer."
        )
    return tuple(map(str, names))


def token_texts(tokens: Iterable[VocabularyToken]) -> tuple[str, ...]:
    """Returns the text of each token by itself. Tokens that share a character have it before the numbers of their
    bytes, as in “é·byte 0xC3”."""
    texts: list[str] = []
    for is_part, group in groupby(tokens, lambda token: bool(token.part_of_characters)):
        run = [*group]
        texts += _texts_of_parts(run) if is_part else [token.text for token in run]
    return tuple(texts)


def _texts_of_parts(tokens: Sequence[VocabularyToken]) -> list[str]:
    """Returns the texts of consecutive tokens that begin or end within a character."""
    parts = [token.part_of_characters for token in tokens]
    characters = b"".join(parts).decode(errors="surrogateescape")
    widths = [len(one.encode(errors="surrogateescape")) for one in characters]
    owners = [i for i, width in enumerate(widths) for _ in range(width)]  # the character of each byte
    spans = [(owners[first], owners[last - 1] + 1) for first, last in pairwise([0, *accumulate(map(len, parts))])]
    return [
        token.text
        if STRAY_BYTE.search(characters[slice(*span)])
        else token.as_typed(characters[slice(*span)], spans.count(span) > 1)
        for token, span in zip(tokens, spans, strict=True)
    ]


def texts_of_batch(batch: Any, example: int) -> tuple[str, ...]:
    """Returns the texts of the tokens in what a tokenizer makes of texts; none where it does not say."""
    if encodings := getattr(batch, "encodings", None):
        return _texts_of_encoding(encodings[example])
    names = getattr(batch, "tokens", None)
    try:
        return tuple(names(example)) if callable(names) else ()
    except ValueError:  # that of a tokenizer in Python does not keep them
        return ()


def _texts_of_encoding(encoding: Any) -> tuple[str, ...]:
    """Returns the texts of the tokens in an `Encoding` of tokenizers, which does not know its tokenizer."""
    is_own = [not mark for mark in encoding.special_tokens_mask]
    places = [*compress(zip(encoding.tokens, encoding.sequence_ids, encoding.offsets, strict=True), is_own)]
    texts = {sequence: [(name, span) for name, one, span in places if one == sequence] for _, sequence, _ in places}
    decode = _decoded_bytes if all(map(_are_bytes, texts.values())) else _decoded_piece
    names = [name.removesuffix(END_OF_WORD) for name in encoding.tokens]
    return token_texts(
        VocabularyToken(name, decode(name) if own else name) for name, own in zip(names, is_own, strict=True)
    )


def _are_bytes(tokens: Sequence[tuple[str, tuple[int, int]]]) -> bool:
    """Returns whether the tokens of one text, by their names and the spans of their characters, are those of byte-level
    BPE: then they decode to as many characters as the text has, give or take accents that were composed. The first and
    the last may be a part of one, where a text is cut off."""
    names = [name for name, _ in tokens]
    if any(name.strip("▁") != name or BYTE_FALLBACK.fullmatch(name) for name in names):  # of SentencePiece
        return False
    parts = [_bytes_of(name) + b" " * name.endswith(END_OF_WORD) for name in names]
    text = b"".join(parts).decode(errors="surrogateescape")
    whole = text.strip("".join(STRAY_BYTE.findall(text)))
    if STRAY_BYTE.search(whole) or (whole != text and whole in "".join(names).replace(END_OF_WORD, " ")):
        return False
    first, last = min(start for _, (start, _) in tokens), max(end for _, (_, end) in tokens)
    return last - first <= len(normalize("NFD", text))


def _bytes_of(name: str) -> bytes:
    """Returns the bytes that a name of byte-level BPE stands for; a token that was added to it is written as it is."""
    name = name.removesuffix(END_OF_WORD)
    return bytes(map(BYTES.__getitem__, name)) if BYTES.keys() >= {*name} else name.encode()


def _decoded_bytes(name: str) -> str:
    return _bytes_of(name).decode(errors="replace")


def _decoded_piece(name: str) -> str:
    byte = BYTE_FALLBACK.fullmatch(name)
    return bytes.fromhex(byte[1]).decode(errors="replace") if byte else name.replace("▁", " ")


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
