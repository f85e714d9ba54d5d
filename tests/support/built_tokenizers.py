"""Tokenizers of all classes of transformers that can be made without a download, of single characters."""

from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import transformers as hf
from tokenizers import pre_tokenizers

END = "</w>"
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
LETTERS = [*"abeu<nk>pdséäü你🎉\ufffd"]
WORDS = [*"ab", "##b", "é", "##é", "ä", "ü", "你", "🎉", "\ufffd"]
MERGED = [("▁", "a"), ("a", "b"), ("Ġ", "a")]


def built_tokenizers() -> Iterator[Any]:
    """Yields a tokenizer of each class; those that need a file, or a package that is not there, are left out."""
    for file in sorted(Path(hf.models.__path__[0]).glob("*/tokenization_*.py")):
        try:
            module = import_module(f"transformers.models.{file.parent.name}.{file.stem}")
        except (ImportError, NameError):
            continue
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                yield from _built(kind)


def _built(kind: type) -> Iterator[Any]:
    if not issubclass(kind, hf.PreTrainedTokenizerBase):
        return
    try:
        empty = kind()
        yield empty if "vocab" not in signature(kind).parameters else kind(**_vocabulary(empty))
    except (TypeError, ValueError, ImportError, StopIteration):
        return


def _vocabulary(empty: Any) -> dict[str, Any]:
    """Returns arguments with the vocabulary of a tokenizer and with characters, as its model takes them."""
    model, decoder = (type(part).__name__ for part in (empty._tokenizer.model, empty._tokenizer.decoder))
    own = sorted(empty.get_vocab(), key=empty.get_vocab().__getitem__)
    pieces = {
        "WordPiece": WORDS,
        "ByteLevel": [*BYTES, *(byte + END for byte in BYTES), "Ġa", "ab", f"ab{END}"],
        "BPEDecoder": [*LETTERS, *(letter + END for letter in LETTERS), "ab"],
    }.get(decoder, [*(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS, "▁", "▁a", "ab"])
    names = [*dict.fromkeys([*own, *pieces])]
    if model == "Unigram":
        return {"vocab": [(name, 0.0 if name in own else -1.0) for name in names]}
    vocabulary = {name: i for i, name in enumerate(names)}
    merges = [pair for pair in MERGED if {*pair, "".join(pair)} <= vocabulary.keys()]
    return {"vocab": vocabulary} | ({"merges": merges} if model == "BPE" else {})
