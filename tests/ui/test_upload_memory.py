"""The memory of the uploads of all visitors together is bounded, and given back."""

import gc

import numpy as np
import pytest

from attnviz.sources import from_arrays
from attnviz.ui.upload_memory import UploadMemory, layer_bytes

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
    with pytest.raises(ValueError, match=r"may take 10 MB. They take 5 MB now, and this one needs 6 MB\."):
        memory.hold(upload(5), 1 * MB)
    with pytest.raises(ValueError, match="this one needs 6 MB"):
        memory.check(6 * MB)
    memory.hold(upload(4), 1 * MB)


def test_memory_comes_back_when_nobody_has_the_layers():
    memory = UploadMemory(lambda: 10 * MB)
    layers = upload(4)
    memory.hold(layers, 0)
    assert memory.total == 4 * MB
    del layers
    gc.collect()
    assert memory.total == 0
