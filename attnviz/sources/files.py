"""A reader of untrusted uploaded files."""

from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np

from attnviz.base.formatting import byte_size, quoted
from attnviz.base.language import value_error
from attnviz.base.settings import unpacked_bytes, upload_bytes
from attnviz.sources.arrays import MOST_TOKENS, check_array, check_tokens
from attnviz.sources.formats import MOST_ARRAYS, READERS, UNNAMED, Budget
from attnviz.sources.tables import TOKEN_NAMES, NumberTable

MAGIC = {".npz": (b"PK\x03\x04", b"PK\x05\x06"), ".npy": (b"\x93NUMPY",), ".parquet": (b"PAR1\x15",)}


@dataclass(frozen=True)
class Limits:
    """The largest sizes of a file and of its content, in bytes."""

    disk: int = field(default_factory=upload_bytes)
    unpacked: int = field(default_factory=unpacked_bytes)


@dataclass(frozen=True, eq=False)
class FileContents:
    """The content of a file: arrays with 2 to 4 axes in the type of `storage_type`, by lower-case name, and tokens."""

    arrays: dict[str, np.ndarray]  # a matrix without a name is called "vectors"
    tokens: dict[str, tuple[str, ...]]  # "tokens" and "key_tokens", where given
    is_named: bool = True  # whether the arrays have names
    columns: tuple[str, ...] = ()  # the headings of a table


def read_file(name: str, data: bytes, limits: Limits | None = None) -> FileContents:
    r"""Reads the arrays and tokens in a file, whose format is the ending of its name.

    Nothing is unpickled, and sizes are checked before memory is allocated. Tokens are cut after 200 characters. Raises
    only ValueError, for any invalid file.

    Example:
        >>> read_file("x.csv", b"token,1,2\ncat,0.5,1\nhen,0,2").tokens
        {'tokens': ('cat', 'hen')}
    """
    limits, ending = limits or Limits(), PurePath(name).suffix.lower()
    if ending not in READERS:
        got = f"ends in {quoted(ending)}" if ending else "has no ending that tells its format"
        raise value_error(
            "This file {got}. Upload {endings} or {READERS}.",
            got=got,
            endings=", ".join(list(READERS)[:-1]),
            READERS=list(READERS)[-1],
        )
    if not data:
        raise value_error("This file is empty. Save it again, with at least one row of numbers.")
    if len(data) > limits.disk:
        raise value_error(
            "This file has {count}; at most {disk} are read. Upload fewer rows.",
            count=byte_size(len(data)),
            disk=byte_size(limits.disk),
        )
    real = next((e for e, magic in MAGIC.items() if data.startswith(magic)), "")
    if real and real != ending:
        raise value_error(
            "This file ends in {ending}, but its content is that of a {real} file. Rename it.",
            ending=ending,
            real=real,
        )
    if ending in MAGIC and not real:
        raise value_error(
            "This file ends in {ending}, but does not begin as such a file does. Save it again.", ending=ending
        )

    contents: dict[str, np.ndarray | tuple[str, ...]] = {}
    is_named = True
    columns: tuple[str, ...] = ()
    for label, content in READERS[ending](data, Budget(limits.unpacked)):
        if label == UNNAMED:
            is_named, label = False, "vectors"
        if isinstance(content, NumberTable):
            columns, content = _column_names(content), content.matrix
        label = TOKEN_NAMES.get(label.lower(), label.lower())
        if label in contents:
            raise value_error(
                "This file names {label} twice; capitals do not count. Keep one of the two.", label=quoted(label)
            )
        if len(contents) == MOST_ARRAYS:
            raise value_error(
                "This file holds more than {MOST_ARRAYS} arrays. Keep those that are to be shown.",
                MOST_ARRAYS=MOST_ARRAYS,
            )
        contents[label] = check_tokens(label, content) if label in TOKEN_NAMES else check_array(label, content)
    arrays = {label: content for label, content in contents.items() if isinstance(content, np.ndarray)}
    if not arrays:
        raise value_error("This file holds no numbers. Give it at least one row of them.")
    tokens = {label: content for label, content in contents.items() if isinstance(content, tuple)}
    return FileContents(arrays, tokens, is_named, columns)


def _column_names(table: NumberTable) -> tuple[str, ...]:
    """Returns the headings of a table, unless there are more than may be names of keys."""
    return check_tokens("columns", [*table.columns]) if len(table.columns) <= MOST_TOKENS else ()
