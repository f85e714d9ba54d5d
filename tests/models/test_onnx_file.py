"""ONNX files, written here by hand: what is read of them, and broken ones, which are refused with a sentence."""

import math
import random
import resource
import struct
import time

import numpy as np
import pytest

from attnviz.models.onnx_file import FILE_BYTES, read_onnx

GRAPH, NODE, INITIALIZER = 7, 1, 5
INPUT, OUTPUT, NAME, KIND = 1, 2, 3, 4  # of a node
SIDES, TYPE, FLOATS, TENSOR_NAME, RAW, EXTERNAL = 1, 2, 4, 8, 9, 13  # of a tensor
FLOAT32, INT64 = 1, 7
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


def tensor(name="weight", sides=(2, 3), kind=FLOAT32, raw=RAW_NUMBERS, more=()):
    fields = [*((SIDES, side) for side in sides), (TYPE, kind), (TENSOR_NAME, name), (RAW, raw), *more]
    return INITIALIZER, message(*fields)


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


def test_the_sides_of_a_weight_may_be_written_as_one_field(written):
    packed = INITIALIZER, message((SIDES, integer(2) + integer(3)), (TYPE, 1), (TENSOR_NAME, "a"), (RAW, bytes(24)))
    unknown = b"\x81\x40" + bytes(8) + b"\x85\x40" + bytes(4)  # of 8 and of 4 bytes, which other versions may have
    assert read_onnx(written(file_of(packed) + unknown)).weights["a"].shape == (2, 3)


LONG = "x" * 1_025
BAD_NUMBERS = "“weight” has not as many float32 numbers as its shape says"
BROKEN = {
    "it has no weights": [b"", file_of(*NODES), message((1, 7), (8, WHOLE)), message((GRAPH, b""))],
    "it ends in the middle": [
        *(WHOLE[: len(WHOLE) * part // 20] for part in range(2, 20)),
        WHOLE[:-1],
        integer(GRAPH << 3 | 2) + integer(1 << 62),
        b"\xff" * 30,
        file_of((INITIALIZER, integer(RAW << 3 | 2) + integer(99) + b"1234")),
        file_of((NODE, integer(INPUT << 3 | 2) + integer((1 << 64) - 1))),
        file_of(tensor(more=[(SIDES, b"\x80")])),
    ],
    "a value is of another kind than the format has": [
        message((GRAPH, 7)),
        file_of((NODE, 3)),
        file_of((INITIALIZER, 3)),
        file_of((NODE, message((INPUT, 4)))),
        file_of((INITIALIZER, message((TENSOR_NAME, 4)))),
        file_of(tensor(raw=4)),
        *(bytes([GRAPH << 3 | kind]) + WHOLE for kind in (3, 4, 6, 7)),
    ],
    BAD_NUMBERS: [
        file_of(tensor(raw=b"")),
        file_of(tensor(raw=bytes(20), more=[(FLOATS, bytes(24))])),
        file_of(tensor(raw=b"", more=[(EXTERNAL, message((1, "location"), (2, "/etc/passwd")))])),
        *(file_of(tensor(kind=kind)) for kind in (0, INT64, 16, 1 << 40)),
        *(file_of(tensor(sides=sides)) for sides in ((), (6, 0), (7,), (2, 2, 2), (1 << 62,) * 2, (1,) * 7 + (2, 3))),
        file_of(tensor(sides=(0, 1 << 68), raw=b"")),
        file_of(tensor(sides=(), raw=bytes(4), more=[(SIDES, b"\1" * 1_000_000)])),
    ],
    "“weight” has numbers that are not finite": [
        file_of(tensor(raw=RAW_NUMBERS[:-4] + struct.pack("<f", number))) for number in (math.nan, math.inf)
    ],
    "it has “weight” twice": [file_of(tensor(), tensor())],
    "a name has more than 1,024 bytes": [file_of(tensor(LONG)), file_of((NODE, message((NAME, LONG))), tensor())],
    "it has a text that is not UTF-8": [file_of(tensor(b"\xff")), file_of((NODE, message((INPUT, b"\xff"))))],
    "it has more than 32,768 fields": [message((1, 7)) * 40_000, file_of((NODE, message((OUTPUT, "")) * 40_000))],
}  # fmt: skip


@pytest.mark.parametrize("reason", BROKEN)
def test_broken_files_are_refused_with_the_reason(reason, written):
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for content in BROKEN[reason]:
        with pytest.raises(ValueError, match=reason) as error:
            read_onnx(written(content))
        assert str(error.value).startswith("“model.onnx” is not an ONNX file that can be read: ")
        assert str(error.value).endswith(". Download it again, or take another one.")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
    assert time.process_time() - start < 5


def test_more_than_fifty_files_are_broken():
    assert sum(map(len, BROKEN.values())) > 50


def test_changed_bytes_are_read_or_refused_with_a_sentence(written):
    draw, refused = random.Random(0), []
    for _ in range(1_000):
        content = bytearray(WHOLE)
        for _ in range(draw.randint(1, 4)):
            content[draw.randrange(len(content))] = draw.randrange(256)
        try:
            read_onnx(written(content))
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 500
    assert all(sentence.startswith("“model.onnx” is not an ONNX file that can be read: ") for sentence in refused)


def test_a_file_that_is_too_large_is_not_read(written):
    file = written(WHOLE)
    with file.open("r+b") as opened:
        opened.truncate(FILE_BYTES + 1)
    with pytest.raises(ValueError, match=r"“model\.onnx” has 256 MB; at most 256 MB of an ONNX file are read"):
        read_onnx(file)


def test_numbers_are_not_copied(written):
    content = file_of(tensor(sides=(4_000_000,), raw=bytes(16_000_000)))
    weight = read_onnx(written(content)).weights["weight"]
    assert not weight.flags.owndata
    assert not weight.flags.writeable
