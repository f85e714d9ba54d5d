"""The weights in an ONNX file that is trusted, and the operators that use them; no more of the format is read.

The format is that of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, in protobuf. The numbers of a weight are
not copied.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The numbers of the fields that are read, by the message that they are in.
GRAPH = 7
NODE, INITIALIZER = 1, 5
NODE_INPUT, NODE_NAME = 1, 3
DIMENSION, TENSOR_NAME, NUMBERS = 1, 8, 9
INTEGER = 0  # a value of 7 bits a byte; others are bytes, of these sizes or with an integer before them
SIZES = {1: 8, 5: 4}


@dataclass(frozen=True, eq=False)
class OnnxWeights:
    """The weights in an ONNX file by name, and the names of what each operator reads, by the name of the operator."""

    weights: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)


def read_onnx(path: Path) -> OnnxWeights:
    """Returns the weights in an ONNX file, whose digest is known: nothing in it is checked. They are float32."""
    content = OnnxWeights()
    [graph] = [value for number, value in _fields(memoryview(path.read_bytes())) if number == GRAPH]
    for kind, message in _fields(graph):
        if kind == NODE:
            node = [*_fields(message)]
            inputs = tuple(str(value, "utf-8") for number, value in node if number == NODE_INPUT)
            content.inputs[str(dict(node).get(NODE_NAME, b""), "utf-8")] = inputs
        elif kind == INITIALIZER:
            tensor = [*_fields(message)]
            shape = [value for number, value in tensor if number == DIMENSION]
            values = dict(tensor)
            content.weights[str(values[TENSOR_NAME], "utf-8")] = np.frombuffer(values[NUMBERS], "<f4").reshape(shape)
    return content


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yields the numbers of the fields of a message, and their values."""
    place = 0
    while place < len(message):
        key, place = _integer(message, place)
        if (size := SIZES.get(key & 7)) is None:
            size, place = _integer(message, place)
        if key & 7 == INTEGER:
            yield key >> 3, size
            continue
        yield key >> 3, message[place : place + size]
        place += size


def _integer(message: memoryview, place: int) -> tuple[int, int]:
    """Returns an integer and the place after it."""
    value = shift = 0
    while message[place] > 127:
        value |= (message[place] & 127) << shift
        place, shift = place + 1, shift + 7
    return value | message[place] << shift, place + 1
