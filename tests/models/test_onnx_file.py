"""ONNX files, written here by hand: what is read of them."""

import numpy as np
import pytest

from attnviz.models.onnx_file import read_onnx

GRAPH, NODE, INITIALIZER = 7, 1, 5
INPUT, OUTPUT, NAME, KIND = 1, 2, 3, 4  # of a node
SIDES, TYPE, TENSOR_NAME, RAW = 1, 2, 8, 9  # of a tensor
FLOAT32 = 1
NUMBERS = np.arange(6, dtype="<f4").reshape(2, 3) - 2
RAW_NUMBERS = NUMBERS.tobytes()


def integer(value):
    """The bytes of an integer, 7 bits in each."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + integer(value >> 7)


def entry(number, value):
    """The bytes of a field of a message: an integer, or a text or another message."""
    if isinstance(value, int):
        return integer(number << 3) + integer(value)
    value = value.encode() if isinstance(value, str) else value
    return integer(number << 3 | 2) + integer(len(value)) + value


def message(*fields):
    return b"".join(entry(number, value) for number, value in fields)


def tensor(name="weight", sides=(2, 3), raw=RAW_NUMBERS):
    return INITIALIZER, message(*((SIDES, side) for side in sides), (TYPE, FLOAT32), (TENSOR_NAME, name), (RAW, raw))


def file_of(*parts):
    return message((1, 7), (GRAPH, message((2, "main"), *parts)))


NODES = [
    (NODE, message((INPUT, "x"), (INPUT, "weight"), (OUTPUT, "y"), (NAME, "/layer.0/MatMul"), (KIND, "MatMul"))),
    (NODE, message((OUTPUT, "z"), (KIND, "Constant"))),
]
WHOLE = file_of(*NODES, tensor(), tensor("bias", (3,), raw=bytes(12)))


@pytest.fixture
def written(tmp_path):
    """Writes a file with this content, and returns its path."""

    def write(content):
        file = tmp_path / "model.onnx"
        file.write_bytes(content)
        return file

    return write


def test_weights_and_what_operators_read_have_their_names(written):
    read = read_onnx(written(WHOLE))
    assert read.inputs == {"/layer.0/MatMul": ("x", "weight"), "": ()}
    assert list(read.weights) == ["weight", "bias"]
    np.testing.assert_array_equal(read.weights["weight"], NUMBERS)


def test_fields_of_other_kinds_are_left_alone(written):
    unknown = b"\x81\x40" + bytes(8) + b"\x85\x40" + bytes(4)  # of 8 and of 4 bytes, which other versions may have
    assert [*read_onnx(written(WHOLE + unknown)).weights] == ["weight", "bias"]


def test_numbers_are_not_copied(written):
    content = file_of(tensor(sides=(4_000_000,), raw=bytes(16_000_000)))
    weight = read_onnx(written(content)).weights["weight"]
    assert not weight.flags.owndata
    assert not weight.flags.writeable
