"""What masks take: to compute, to read from text, and to count at 131,072 positions."""

import statistics
import time
import tracemalloc
from collections.abc import Callable

import torch
from torch.nn.attention.flex_attention import create_mask

from attnviz.masks import (
    MASKS,
    Axial,
    Band,
    BigBird,
    BlockCausal,
    Causal,
    Chunked,
    CrossToImage,
    DilatedWindow,
    Documents,
    Fixed,
    Full,
    ImageAndText,
    Logarithmic,
    Longformer,
    Mask,
    Neighborhood2D,
    Padding,
    PrefixLM,
    SharedPrefix,
    ShiftedWindow2D,
    Sinks,
    SinksAndWindow,
    SlidingWindow,
    Strided,
    Tree,
)
from attnviz.masks.cost import cost
from attnviz.masks.parser import parse
from tests.bench.measures import in_turn, machine, repeated, sizes

TEXTS = (
    "causal",
    "causal & (q - k < 4) | k < 2",
    "documents([512, 300, 212]) & sliding_window(64) | sinks(4)",
    "abs(q // 32 - k // 32) <= 3 & abs(q % 32 - k % 32) <= 3",
    " | ".join(f"k == {position}" for position in range(40)),
)
LENGTHS = tuple((i * 7919) % 4000 + 1 for i in range(40))
LONG = (
    Full(),
    Causal(),
    PrefixLM(1000),
    SlidingWindow(4096),
    Band(4096),
    DilatedWindow(4096, 2),
    DilatedWindow(4096, 64),
    Longformer(4096, (0,)),
    Longformer(512, tuple(range(64))),
    Longformer(512, tuple(range(0, 128_000, 2000))),
    Strided(362),
    Strided(362) | SlidingWindow(362),
    Fixed(362, 8),
    BigBird(64, 3),
    BigBird(64, 8),
    Logarithmic(),
    Padding(100_000),
    Documents(LENGTHS),
    Documents(LENGTHS, Strided(8)),
    SharedPrefix((3000, 200, 200, 3000, 200, 200)),
    Chunked(8192),
    BlockCausal(64),
    BlockCausal(64, 16),
    Axial(362),
    Neighborhood2D(362, 13, 13),
    ShiftedWindow2D(362, 8, 4),
    ImageAndText((100, 256) * 30),
    CrossToImage((0, 1000, 2000), 64),
    Sinks(4),
    SinksAndWindow(4, 4096),
    Tree(131_000),
    parse("causal & (q - k < 4) | k < 2"),
    parse("documents([4000, 3000]) & strided(64) | band(128) & ~(k % 3 == 0)"),
)


def masks() -> None:
    """All tables."""
    computed()
    read()
    counted()


def computed(n: int = 1024) -> None:
    """Every mask of the catalogue on positions that broadcast, against FlexAttention's create_mask."""
    _title(f"Masks, {n} × {n}", "create_mask ms", "attnviz ms", "ratio")
    at = torch.tensor(0), torch.tensor(0), torch.arange(n)[:, None], torch.arange(n)
    for mask in (kind() for kind in sizes(MASKS)):

        def theirs(mask: Mask = mask) -> object:
            return create_mask(mask.bind(n, n, 1), None, None, n, n, device="cpu")

        def ours(mask: Mask = mask) -> object:
            return mask.bind(n, n, 1)(*at).expand(n, n)

        _line(str(mask), *in_turn(theirs, ours, runs=15))


def read() -> None:
    """Texts read as masks."""
    _title("Reading a mask", "ms")
    for text in sizes(TEXTS):
        _line(text, 1000 * statistics.median(repeated(lambda text=text: _seconds(lambda: parse(text)), 24)))


def counted(n: int = 131_072) -> None:
    """What masks cost at n × n: seconds, and at another run the most memory held at once."""
    _title(f"Cost, {n:,} × {n:,}", "seconds", "peak MB", "density %")
    for mask in sizes(LONG):
        found = cost(mask, n, n)
        seconds = statistics.median(repeated(lambda mask=mask: _seconds(lambda: cost(mask, n, n)), 2))
        tracemalloc.start()
        cost(mask, n, n)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        _line(str(mask), seconds, peak, 100 * found.kept / n**2)


def _seconds(make: Callable[[], object]) -> float:
    start = time.perf_counter()
    make()
    return time.perf_counter() - start


def _title(name: str, *columns: str) -> None:
    print(f"\n{machine()}")
    _line(name, *columns)


def _line(name: str, *values: float | str) -> None:
    name = name if len(name) <= 40 else f"{name[:39]}…"
    cells = (f"{value:>15,.2f}" if isinstance(value, float) else f"{value:>15}" for value in values)
    print(f"{name:40}" + "".join(cells), flush=True)


if __name__ == "__main__":
    masks()
