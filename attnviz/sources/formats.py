"""Readers of the upload formats: from untrusted bytes to arrays, within a memory budget."""

import csv
import io
import json
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import safetensors.torch

from attnviz.base.formatting import byte_size, grouped, quoted
from attnviz.base.language import N_, value_error
from attnviz.base.limited_process import run_program
from attnviz.base.npy import DAMAGED, read_npy
from attnviz.base.text import LONGEST_TOKEN
from attnviz.sources.arrays import (
    MOST_TOKENS,
    NARROW_TENSORS,
    check_array_header,
    check_tokens,
    check_tokens_header,
    element_name,
    numpy_array,
    storage_type,
)
from attnviz.sources.tables import TOKEN_NAMES, NumberTable, check_index, read_rows

MOST_ARRAYS = 100  # in one file
LARGEST_HEADER = 1 << 20  # bytes of a safetensors file that describe the others
PARQUET_SECONDS = 30  # seconds that a parquet file may take
PARQUET_READER = 128 << 20  # bytes that its reader takes itself
MOST_PACKED = 16  # how many times as large as a parquet file its numbers may be
COLUMNS = "columns of the matrix"  # as parquet.py calls their names
UNNAMED = ""  # the name of an array that has none

# The bytes that a mark in a text takes once Python has parsed it, so that they are known before it is parsed.
CELL_COST = 60
JSON_COST = {b",": 32, b"[": 96, b'"': 32, b":": 64, b"{": 256}

# Exceptions of the libraries about bytes they cannot read, found by feeding them millions of damaged ones.
UNREADABLE = (*DAMAGED, zipfile.BadZipFile, zlib.error, safetensors.SafetensorError)


class Budget:
    """The bytes that may still be unpacked; they are spent before the memory is allocated."""

    def __init__(self, size: int) -> None:
        self.left = self.whole = size

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise value_error(
                "This file would take more than {whole} of memory. Upload fewer or smaller arrays.",
                whole=byte_size(self.whole),
            )


@contextmanager
def _report_damage(subject: str) -> Iterator[None]:
    """Converts errors of libraries about unreadable bytes to ValueError."""
    try:
        yield
    except UNREADABLE as error:
        raise value_error(
            "{subject} cannot be read: it was damaged or cut off. Save it again.", subject=subject
        ) from error


# One reader for each format, from bytes to pairs of a name and what it names.

NamedArrays = Iterator[tuple[str, Any]]


def _read_npy(data: bytes, budget: Budget) -> NamedArrays:
    yield UNNAMED, _array("vectors", data, budget)


def _array(name: str, data: bytes, budget: Budget) -> np.ndarray:
    """Returns the array in the bytes of a .npy file."""
    check = check_tokens_header if name.lower() in (*TOKEN_NAMES, COLUMNS) else check_array_header
    array = read_npy(data, partial(check, name), quoted(name))
    budget.spend(max(array.size * storage_type(array.dtype).itemsize - len(data), 0))  # beyond the bytes that are here
    return array


def _read_npz(data: bytes, budget: Budget) -> NamedArrays:
    # Counted before zipfile lists the members: a long list is a bomb of its own.
    if data.count(b"PK\x01\x02") > MOST_ARRAYS:
        raise value_error(
            "This file holds more than {MOST_ARRAYS} arrays. Keep those that are to be shown.",
            MOST_ARRAYS=MOST_ARRAYS,
        )
    with _report_damage("This .npz file"):
        archive = zipfile.ZipFile(io.BytesIO(data))
    for member in archive.infolist():
        if not member.filename.endswith(".npy"):
            raise value_error(
                "{filename} is not a .npy array. Save the arrays with numpy.savez.", filename=quoted(member.filename)
            )
        if member.flag_bits & 1:
            raise value_error("{filename} is encrypted. Save it without a password.", filename=quoted(member.filename))
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise value_error(
                "{filename} is packed in an unusual way. Save it with numpy.savez.", filename=quoted(member.filename)
            )
        budget.spend(member.file_size)
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        with _report_damage(quoted(name)), archive.open(member) as file:
            content = file.read(member.file_size)  # no more than was declared, whatever is there
        yield name, _array(name, content, budget)


def _read_safetensors(data: bytes, budget: Budget) -> NamedArrays:
    size = int.from_bytes(data[:8], "little")
    with _report_damage("This .safetensors file"):
        if size > LARGEST_HEADER:
            raise value_error("too long a header")
        tensors = safetensors.torch.load(data)
    for name, tensor in tensors.items():
        budget.spend(tensor.numel() * (tensor.element_size() if tensor.dtype in NARROW_TENSORS else 4))
        yield name, numpy_array(tensor)
    for name, text in _parse_json(data[8 : 8 + size], budget).get("__metadata__", {}).items():
        if name.lower() in TOKEN_NAMES:
            yield name, _parse_json(text.encode(), budget, f"The metadata {quoted(name)}")


def _read_table(data: bytes, budget: Budget, delimiter: str) -> NamedArrays:
    """Reads rows of numbers; a row of headings and a column of tokens are optional."""
    budget.spend(CELL_COST * sum(data.count(mark) for mark in (delimiter.encode(), b"\n", b"\r")))
    reader = csv.reader(_lines(data), delimiter=delimiter, strict=True)
    try:
        rows = list(islice(((n, row) for n, row in enumerate(reader, 1) if any(row)), MOST_TOKENS + 2))
    except csv.Error as error:
        raise value_error(
            "Line {line} is not a row of cells. Look for a stray quotation mark.", line=reader.line_num
        ) from error
    table = read_rows(rows, delimiter)
    if len(table.matrix) > MOST_TOKENS:
        raise value_error(
            "This file has more than {MOST_TOKENS} rows, which is the most that can be shown.",
            MOST_TOKENS=grouped(MOST_TOKENS),
        )
    if table.rows:
        yield "tokens", [*table.rows]
    yield UNNAMED, table


def _lines(data: bytes) -> Iterator[str]:
    try:
        yield from io.TextIOWrapper(io.BytesIO(data), encoding="utf-8-sig", newline="")
    except UnicodeDecodeError as error:
        raise value_error(NOT_TEXT) from error


def _read_json(data: bytes, budget: Budget) -> NamedArrays:
    content = _parse_json(data, budget)
    if isinstance(content, list):
        yield UNNAMED, _nested("vectors", content)
        return
    if not isinstance(content, dict):
        raise value_error("This file must hold a list of rows, or an object that names some. Put [ ] around the rows.")
    for name, value in content.items():
        yield name, value if name.lower() in TOKEN_NAMES else _nested(name, value)


def _parse_json(data: bytes, budget: Budget, subject: str = "This file") -> Any:
    budget.spend(sum(cost * data.count(mark) for mark, cost in JSON_COST.items()))
    budget.spend(0 if data.isascii() else 4 * len(data))
    try:
        # Whole numbers too are read as floats: Python refuses those of more than 4,300 digits.
        return json.loads(data.decode("utf-8-sig"), parse_int=float)
    except UnicodeDecodeError as error:
        raise value_error(NOT_TEXT) from error
    except json.JSONDecodeError as error:
        raise value_error(
            "{subject} is not valid JSON in line {line}, character {character}. Write numbers, texts "
            "in double quotes, and lists in square brackets.",
            subject=subject,
            line=error.lineno,
            character=error.colno,
        ) from error
    except RecursionError as error:
        raise value_error(
            "{subject} nests lists too deeply. Give rows of numbers, in at most 4 levels.", subject=subject
        ) from error


def _nested(name: str, value: object) -> np.ndarray:
    """Returns nested lists of numbers as an array, level by level; lists must have equal lengths on each level."""
    shape: tuple[int, ...] = ()
    level: list[Any] = [value]
    while level and isinstance(level[0], list) and len(shape) < 5:
        width = len(level[0])
        for i, entry in enumerate(level):
            if not isinstance(entry, list) or len(entry) != width:
                element = element_name(name, np.unravel_index(i, shape))
                sentence = (
                    N_("{element} has length {length}, the lists before have {width}. Make all equally long.")
                    if isinstance(entry, list)
                    else N_("{element} is not a list, but those before are. Write numbers in lists of the same length.")
                )
                length = len(entry) if isinstance(entry, list) else 0
                raise value_error(sentence, element=element, length=length, width=width)
        shape += (width,)
        level = list(chain.from_iterable(level))
    for i, entry in enumerate(level):
        if not isinstance(entry, float | bool):
            content = quoted(entry) if isinstance(entry, str) else JSON_NAMES[type(entry)]
            raise value_error(
                "{element_name} holds {content}, which is not a number.",
                element_name=element_name(name, np.unravel_index(i, shape)),
                content=content,
            )
    return np.array(level, np.float64).reshape(shape)


def parquet_bytes(size: int, unpacked: int) -> int:
    """Returns the memory that a process may take to read a parquet file of `size` bytes, in bytes: for the reader, and
    three times for what it unpacks, which is at most `unpacked`."""
    return PARQUET_READER + 3 * min(unpacked, MOST_PACKED * size + PARQUET_READER // 4)


def _read_parquet(data: bytes, budget: Budget) -> NamedArrays:
    """Reads the file in a separate process, because Arrow may crash the process that it runs in."""
    limits, memory = (MOST_TOKENS, LONGEST_TOKEN, budget.left), parquet_bytes(len(data), budget.left)
    try:
        npz = run_program("attnviz.base.parquet", *limits, data=data, seconds=PARQUET_SECONDS, memory=memory)
    except subprocess.TimeoutExpired as error:
        raise value_error("This .parquet file takes too long to read. Save it as .npz instead.") from error
    except OSError as error:
        raise value_error("A .parquet file cannot be read on this computer now. Save it as .npz instead.") from error
    except subprocess.CalledProcessError as error:
        raise value_error(
            "This .parquet file is damaged, or takes too much memory. Save it again, or as .npz."
        ) from error
    columns: tuple[str, ...] = ()
    has_tokens = False
    for name, array in _read_npz(npz, budget):
        has_tokens |= name.lower() in TOKEN_NAMES
        if name == COLUMNS:
            columns = check_tokens("columns", array)
        elif name == UNNAMED:
            table = NumberTable(array, columns=columns)
            if not has_tokens:
                check_index(table)
            yield name, table
        else:
            yield name, array


JSON_NAMES = {type(None): "null", list: "a list", dict: "an object"}
NOT_TEXT = N_("This file is not text in UTF-8. Save it as UTF-8, or give it the ending of its real format.")
READERS: dict[str, Callable[[bytes, Budget], NamedArrays]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
    ".csv": partial(_read_table, delimiter=","),
    ".tsv": partial(_read_table, delimiter="\t"),
    ".json": _read_json,
    ".parquet": _read_parquet,
}
