"""The memory of the uploads of all visitors together is bounded, and given back."""

import gc
from pathlib import Path

import numpy as np
import pytest

from attnviz.sources import Upload, from_arrays
from attnviz.sources.upload import File
from attnviz.trace.memory import layer_bytes
from attnviz.ui.server.upload_memory import UploadMemory

MB = 1 << 20


def upload(megabytes):
    return from_arrays(np.zeros((megabytes, 512, 512), "f4"))


def test_tensors_that_share_memory_count_once():
    assert layer_bytes(upload(3)) == 3 * MB
    assert layer_bytes(from_arrays({"q": np.zeros((4, 8)), "k": np.zeros((4, 8))})) == 2 * 4 * 8 * 4


def test_what_is_beyond_the_limit_is_refused_with_the_numbers():
    memory = UploadMemory(lambda: 10 * MB)
    first = upload(4)
    memory.hold(first, 1 * MB)
    with pytest.raises(ValueError, match=r"may use 10 MB. They use 5 MB now, and this one needs 6 MB\."):
        memory.hold(upload(5), 1 * MB)
    with pytest.raises(ValueError, match="this one needs 6 MB"), memory.reserve(6 * MB):
        pass
    memory.hold(upload(4), 1 * MB)


def test_memory_comes_back_when_nobody_has_the_layers():
    memory = UploadMemory(lambda: 10 * MB)
    layers = upload(4)
    memory.hold(layers, 0)
    assert memory.total == 4 * MB
    del layers
    gc.collect()
    assert memory.total == 0


def test_what_reading_takes_is_counted_while_it_lasts():
    memory = UploadMemory(lambda: 10 * MB)
    with memory.reserve(8 * MB), pytest.raises(ValueError, match=r"They use 8 MB now, and this one needs 4 MB\."):
        memory.hold(upload(4), 0)
    layers = upload(4)
    memory.hold(layers, 0)
    assert memory.total == layer_bytes(layers) == 4 * MB


def test_a_process_that_reads_parquet_counts_with_the_uploads():
    data = (Path(__file__).parents[3] / "assets" / "samples" / "query-key-columns.parquet").read_bytes()
    assert Upload(File("x.parquet", data)).reader_bytes > 128 * MB
    assert Upload(File("x.npz", data)).reader_bytes == 0
    assert Upload().reader_bytes == 0


def test_bytes_stay_bytes():
    assert layer_bytes(from_arrays(np.zeros((3, 512, 512), "u1"))) == 3 * MB // 4
