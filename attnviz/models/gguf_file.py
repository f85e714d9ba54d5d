"""Files in the GGUF format of llama.cpp, which are not trusted: every count, length and offset is checked against
limits and against the size of the file before anything of that size is read.

The format is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian.
"""

import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from numpy.typing import NDArray

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import N_, _, value_error

MAGIC, VERSIONS = b"GGUF", (2, 3)
METADATA_BYTES = 128 << 20  # of the names, the values and the tokens of a file
MOST_ENTRIES = 1 << 16  # of values, and of tensors
MOST_ITEMS = 1 << 21  # of all arrays, such as the tokens, together
NAME_BYTES, STRING_BYTES = 1 << 16, 1 << 22
MOST_DIMENSIONS, MOST_NUMBERS = 4, 1 << 40  # of a tensor
ALIGNMENT, MOST_ALIGNMENT = 32, 1 << 16
STRING, ARRAY = 8, 9
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
FLOATS = {
    GGMLQuantizationType.F64: np.float64,
    GGMLQuantizationType.F32: np.float32,
    GGMLQuantizationType.F16: np.float16,
}
# Types that `dequantize` cannot read: whole numbers, which are not weights, and results within a computation.
UNREADABLE = {"I8", "I16", "I32", "I64", "Q8_1", "Q8_K", "Q1_0"}
READABLE = {kind: sizes for kind, sizes in GGML_QUANT_SIZES.items() if kind.name not in UNREADABLE}

CUT_OFF = N_("it ends in the middle")


@dataclass(frozen=True)
class GgufTensor:
    """Where a tensor is in a file, and how it is stored."""

    name: str
    shape: tuple[int, ...]  # in the order of torch: rows first
    kind: GGMLQuantizationType
    offset: int  # bytes from the start of the file
    size: int  # bytes

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """How many rows it has; all dimensions but the last count as one."""
        return math.prod(self.shape[:-1])


@dataclass(frozen=True, eq=False)
class GgufFile:
    """What the head of a GGUF file says: its values by name, and where its tensors are."""

    path: Path
    metadata: dict[str, Any] = field(repr=False)
    tensors: tuple[GgufTensor, ...] = field(repr=False)


def tensor_rows(path: Path, tensor: GgufTensor, start: int, stop: int) -> NDArray[np.float32]:
    """Returns rows of a tensor in float32, dequantized; they may be infinite. All dimensions but the last count as one.
    Raises ValueError if the file has become shorter."""
    width = tensor.size // tensor.rows
    with path.open("rb") as file:
        file.seek(tensor.offset + start * width)
        data = np.fromfile(file, np.uint8, (stop - start) * width)
    if data.size < (stop - start) * width:
        raise _damaged(path, CUT_OFF)
    data = data.reshape(stop - start, width)
    numbers = data.view(FLOATS[tensor.kind]) if tensor.kind in FLOATS else dequantize(data, tensor.kind)
    return numbers.astype(np.float32, copy=False)


def read_gguf(path: Path) -> GgufFile:
    """Returns the head of a GGUF file. Raises ValueError if it is damaged, or larger than that of any model."""
    try:
        with path.open("rb") as file:
            return _Head(path, file, os.fstat(file.fileno()).st_size).read()
    except OSError as error:
        raise value_error(
            "{name} cannot be opened. Check its path, and who may read it.", name=quoted(path.name)
        ) from error


def _damaged(path: Path, reason: str, **values: object) -> ValueError:
    """Returns an error with a reason, which is a message."""
    return value_error(
        "{name} is not a GGUF file that can be read: {reason}. Download it again, or take another one.",
        name=quoted(path.name),
        reason=_(reason, **values),
    )


@dataclass
class _Head:
    """The head of a file while it is read."""

    path: Path
    file: BinaryIO
    size: int  # bytes of the file
    position: int = 0
    items_left: int = MOST_ITEMS

    def read(self) -> GgufFile:
        if self._bytes(len(MAGIC)) != MAGIC:
            raise _damaged(self.path, N_("it does not begin with GGUF"))
        version = self._number("<I")
        if version not in VERSIONS:
            raise _damaged(self.path, N_("its version is {version}, and only 2 and 3 are known"), version=version)
        tensor_count, entry_count = (self._count(MOST_ENTRIES) for _part in range(2))
        metadata = self._unique(
            (self._text(NAME_BYTES), self._value(self._number("<I"))) for _part in range(entry_count)
        )
        tensors = self._unique((tensor.name, tensor) for tensor in self._tensors(tensor_count))
        return GgufFile(self.path, metadata, tuple(self._placed(tensors, metadata)))

    def _tensors(self, count: int) -> Iterator[GgufTensor]:
        """Yields the tensors, whose offsets are still those from the end of the head."""
        for _part in range(count):
            name = self._text(NAME_BYTES)
            sides = [self._number("<Q") for _part in range(self._count(MOST_DIMENSIONS, "<I"))]
            number, offset = self._number("<I"), self._number("<Q")
            kinds = {int(kind): kind for kind in READABLE}
            if number not in kinds:
                raise _damaged(
                    self.path,
                    N_("{tensor} is stored in the type {number}, which is not known"),
                    tensor=quoted(name),
                    number=number,
                )
            block, width = READABLE[kind := kinds[number]]
            shape = tuple(reversed(sides))
            if not 0 < math.prod(shape) <= MOST_NUMBERS or (shape[-1:] or (1,))[0] % block:
                raise _damaged(
                    self.path, N_("{tensor} has a shape that no tensor of its type has"), tensor=quoted(name)
                )
            yield GgufTensor(name, shape, kind, offset, math.prod(shape) // block * width)

    def _placed(self, tensors: dict[str, GgufTensor], metadata: dict[str, Any]) -> Iterator[GgufTensor]:
        """Yields the tensors with their offsets in the file; no two of them have bytes in common."""
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment.bit_count() != 1 or not 1 <= alignment <= MOST_ALIGNMENT:
            raise _damaged(self.path, N_("its alignment is not a power of two"))
        end = start = -(-self.position // alignment) * alignment
        for tensor in sorted(tensors.values(), key=lambda tensor: tensor.offset):
            offset = start + tensor.offset
            if offset < end:
                raise _damaged(self.path, N_("{tensor} overlaps another tensor"), tensor=quoted(tensor.name))
            end = offset + tensor.size
            if end > self.size:
                raise _damaged(self.path, CUT_OFF)
            yield GgufTensor(tensor.name, tensor.shape, tensor.kind, offset, tensor.size)

    def _value(self, kind: int, *, in_array: bool = False) -> Any:
        if kind in NUMBERS:
            return self._number(NUMBERS[kind])
        if kind == STRING:
            return self._text(STRING_BYTES)
        if kind != ARRAY or in_array:
            raise _damaged(self.path, N_("it has a value of the type {kind}, which is not known"), kind=kind)
        kind, count = self._number("<I"), self._count(self.items_left)
        self.items_left -= count
        if kind not in NUMBERS:
            return [self._value(kind, in_array=True) for _part in range(count)]
        code = NUMBERS[kind]
        return list(struct.unpack(f"<{count}{code[1]}", self._bytes(count * struct.calcsize(code))))

    def _text(self, most: int) -> str:
        try:
            return self._bytes(self._count(most)).decode()
        except UnicodeDecodeError as error:
            raise _damaged(self.path, N_("it has a text that is not UTF-8")) from error

    def _count(self, most: int, code: str = "<Q") -> int:
        if (count := self._number(code)) > most:
            raise _damaged(
                self.path, N_("it says {count} where at most {most} can be"), count=grouped(count), most=grouped(most)
            )
        return count

    def _number(self, code: str) -> Any:
        return struct.unpack(code, self._bytes(struct.calcsize(code)))[0]

    def _bytes(self, count: int) -> bytes:
        self.position += count
        if self.position > METADATA_BYTES:
            raise _damaged(
                self.path, N_("its head has more than {METADATA_BYTES} bytes"), METADATA_BYTES=grouped(METADATA_BYTES)
            )
        data = self.file.read(count) if self.position <= self.size else b""
        if len(data) < count:
            raise _damaged(self.path, CUT_OFF)
        return data

    def _unique(self, pairs: Iterator[tuple[str, Any]]) -> dict[str, Any]:
        by_name: dict[str, Any] = {}
        for name, value in pairs:
            if name in by_name:
                raise _damaged(self.path, N_("it has {name} twice"), name=quoted(name))
            by_name[name] = value
        return by_name
