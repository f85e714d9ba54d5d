"""The map of one long head, against the bare products q kᵀ of the same pairs: each side in a process of its own, with
one thread, in seconds of processor time.

`python -m tests.bench.long_maps downsample 1048576 4096` measures one side; the last number is the width of a sliding
window, without which the mask is causal.
"""

import json
import subprocess
import sys
import time

import torch

from attnviz.analysis.downsampling import downsample
from attnviz.analysis.engines import Local
from attnviz.inputs import Inputs
from attnviz.masks import Causal, Mask, SlidingWindow
from attnviz.mechanism import Mechanism
from tests.bench.measures import is_short, row, sizes, table
from tests.bench.models import RESET, STATUS, _of_status

WIDTH = 64
RUNS = 3  # the sides in turn; the least of each, which other programs on the machine disturb least
ROWS, TILE = 512, 1024  # of a block of the bare products
CASES = ((32_768, 0), (131_072, 0), (131_072, 4_096), (1_048_576, 4_096))  # tokens, and the window; 0 is causal


def long_maps() -> None:
    """The table, with what our side takes above its inputs, and the first picture: of one query a row of cells."""
    table("Map of one head of width 64", ("tokens", "window", "products s", "map s", "ratio", "sample s", "map MB"))
    for tokens, window in sizes(CASES, [(2_048, 512)]):
        runs = [[in_process(side, tokens, window) for side in SIDES] for _ in range(1 if is_short() else RUNS)]
        (bare, _), (ours, size), (sample, _) = map(min, zip(*runs, strict=True))
        row(tokens, window or "causal", bare, ours, ours / bare, sample, size)


def in_process(side: str, tokens: int, window: int) -> tuple[float, float]:
    if is_short():
        return measured(side, tokens, window)
    program = [sys.executable, "-m", "tests.bench.long_maps", side, str(tokens), str(window)]
    seconds, size = json.loads(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout)
    return seconds, size


def measured(side: str, tokens: int, window: int) -> tuple[float, float]:
    """Seconds of processor time, and the most megabytes above the inputs."""
    torch.manual_seed(0)
    names = tuple(map(str, range(tokens)))
    inputs = Inputs(*torch.randn(3, 1, tokens, WIDTH).unbind(), names, names)
    mask = SlidingWindow(window) if window else Causal()
    SIDES[side](few(inputs, 4096), mask)  # what is done but once
    RESET.write_text("5")  # Linux forgets the largest size so far
    before, start = _of_status("VmRSS", STATUS), time.process_time()
    SIDES[side](inputs, mask)
    return time.process_time() - start, (_of_status("VmHWM", STATUS) - before) / 1e6


def few(inputs: Inputs, count: int) -> Inputs:
    vectors = (one[:, :count] for one in (inputs.query, inputs.key, inputs.value))
    return Inputs(*vectors, inputs.query_tokens[:count], inputs.key_tokens[:count])


def products(inputs: Inputs, mask: Mask) -> None:
    """The products of each block of queries and the keys that its mask allows any of them."""
    query, key = inputs.query[0], inputs.key[0]
    reach = mask.size - 1 if isinstance(mask, SlidingWindow) else len(key)
    for top in range(0, len(query), ROWS):
        stop = min(top + ROWS, len(query))
        buffer = query.new_empty(stop - top, TILE)
        for left in range(max(0, top - reach), stop, TILE):
            block = key[left : min(left + TILE, stop)]
            torch.mm(query[top:stop], block.mT, out=buffer[:, : len(block)])


def downsampled(inputs: Inputs, mask: Mask) -> None:
    downsample(inputs, Mechanism(mask=mask), engine=Local(1))


def sampled(inputs: Inputs, mask: Mask) -> None:
    downsample(inputs, Mechanism(mask=mask), engine=Local(1), sample=1)


SIDES = {"products": products, "downsample": downsampled, "sample": sampled}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), int((*sys.argv[3:], 0)[0]))))
