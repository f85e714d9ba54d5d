"""The weights in an ONNX file, and the operators that use them; no more of the format is read.

The format is that of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, in protobuf. Every length is compared with
the bytes that are there, and every count with a limit. The numbers of a weight are not copied.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attnviz.base.formatting import byte_size, grouped, quoted
from attnviz.base.language import N_, _, value_error

FILE_BYTES = 256 << 20
MOST_FIELDS = 1 << 15  # of a file, without those in parts that are not read
NAME_BYTES, MOST_DIMENSIONS = 1 << 10, 8
# The numbers of the fields that are read, by the message that they are in, and that of float32 as a type.
GRAPH = 7
NODE, INITIALIZER = 1, 5
NODE_INPUT, NODE_NAME = 1, 3
DIMENSIONS, TYPE, TENSOR_NAME, NUMBERS = 1, 2, 8, 9
FLOAT32 = 1
# How a value is written: as an integer of 7 bits a byte, or as bytes, 8, 4 or as many as an integer before them says.
INTEGER, BYTES = 0, 2
SIZES = {1: 8, 5: 4}
INTEGER_BYTES = 10

CUT_OFF, WRONG_KIND = N_("it ends in the middle"), N_("a value is of another kind than the format has")
Value = int | memoryview
NOTHING = memoryview(b"")


@dataclass(frozen=True, eq=False)
class OnnxWeights:
    """The weights in an ONNX file by name, and the names of what each operator reads, by the name of the operator."""

    weights: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


def read_onnx(path: Path) -> OnnxWeights:
    """Returns the weights in an ONNX file, which are float32. Raises ValueError if it is damaged, larger than 256 MB,
    or has weights of another type or outside of the file, and OSError if it cannot be opened."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > FILE_BYTES:
            raise value_error(
                "{name} has {size}; at most {FILE_BYTES} of an ONNX file are read.",
                name=quoted(path.name),
                size=byte_size(size),
                FILE_BYTES=byte_size(FILE_BYTES),
            )
        return _Reader(path).read(memoryview(file.read(size)))


@dataclass
class _Reader:
    """The reading of one file."""

    path: Path
    fields_left: int = MOST_FIELDS

    def read(self, file: memoryview) -> OnnxWeights:
        content = OnnxWeights()
        for graph in (self._bytes(value) for number, value in self._fields(file) if number == GRAPH):
            for number, value in self._fields(graph):
                if number == NODE:
                    self._add_operator(content, self._bytes(value))
                elif number == INITIALIZER:
                    self._add_weight(content, self._bytes(value))
        if not content.weights:
            raise self._damaged(N_("it has no weights"))
        return content

    def _add_operator(self, content: OnnxWeights, node: memoryview) -> None:
        fields = list(self._fields(node))
        name = self._text(fields, NODE_NAME)
        content.inputs[name] = tuple(self._text([one], NODE_INPUT) for one in fields if one[0] == NODE_INPUT)

    def _add_weight(self, content: OnnxWeights, tensor: memoryview) -> None:
        fields = list(self._fields(tensor))
        name, numbers = self._text(fields, TENSOR_NAME), self._bytes(dict(fields).get(NUMBERS, NOTHING))
        sides = (side for number, value in fields if number == DIMENSIONS for side in self._integers(value))
        shape = list(islice(sides, MOST_DIMENSIONS + 1))
        if name in content.weights:
            raise self._damaged(N_("it has {name} twice"), name=quoted(name))
        is_weight = dict(fields).get(TYPE) == FLOAT32 and len(shape) <= MOST_DIMENSIONS and all(shape)
        if not is_weight or len(numbers) != math.prod(shape) * np.dtype(np.float32).itemsize:
            raise self._damaged(N_("{tensor} has not as many float32 numbers as its shape says"), tensor=quoted(name))
        weight = np.frombuffer(numbers, "<f4").reshape(shape)
        if not np.isfinite(weight).all():
            raise self._damaged(N_("{tensor} has numbers that are not finite"), tensor=quoted(name))
        content.weights[name] = weight

    def _fields(self, message: memoryview) -> Iterator[tuple[int, Value]]:
        """Yields the numbers of the fields of a message, and their values."""
        place = 0
        while place < len(message):
            self.fields_left -= 1
            if self.fields_left < 0:
                raise self._damaged(N_("it has more than {most} fields"), most=grouped(MOST_FIELDS))
            key, place = self._integer(message, place)
            kind = key & 7
            written, place = self._integer(message, place) if kind in (INTEGER, BYTES) else (SIZES.get(kind, -1), place)
            if kind == INTEGER:
                yield key >> 3, written
                continue
            if written < 0:
                raise self._damaged(WRONG_KIND)
            if written > len(message) - place:
                raise self._damaged(CUT_OFF)
            yield key >> 3, message[place : place + written]
            place += written

    def _integer(self, message: memoryview, place: int) -> tuple[int, int]:
        """Returns an integer and the place after it."""
        value = 0
        for count, byte in enumerate(message[place : place + INTEGER_BYTES]):
            value |= (byte & 127) << 7 * count
            if byte < 128:
                return value, place + count + 1
        raise self._damaged(CUT_OFF)

    def _integers(self, value: Value) -> Iterator[int]:
        """Yields the integers in a field, which has one, or as bytes any number."""
        if isinstance(value, int):
            yield value
            return
        place = 0
        while place < len(value):
            one, place = self._integer(value, place)
            yield one

    def _text(self, fields: list[tuple[int, Value]], number: int) -> str:
        """Returns the text in the last field with this number; empty if there is none."""
        text = self._bytes(dict(fields).get(number, NOTHING))
        if len(text) > NAME_BYTES:
            raise self._damaged(N_("a name has more than {most} bytes"), most=grouped(NAME_BYTES))
        try:
            return str(text, "utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged(N_("it has a text that is not UTF-8")) from error

    def _bytes(self, value: Value) -> memoryview:
        if isinstance(value, int):
            raise self._damaged(WRONG_KIND)
        return value

    def _damaged(self, reason: str, **values: object) -> ValueError:
        """Returns an error with a reason, which is a message."""
        return value_error(
            "{name} is not an ONNX file that can be read: {reason}. Download it again, or take another one.",
            name=quoted(self.path.name),
            reason=_(reason, **values),
        )
