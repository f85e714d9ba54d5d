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
from attnviz.masks.cost import Cost, cost
from attnviz.masks.parser import parse
from tests.bench.measures import in_turn, repeated, row, sizes, table

TEXTS = (
    "causal",
    "causal & (q - k < 4) | k < 2",
    "documents([512, 300, 212]) & sliding_window(64) | sinks(4)",
    "abs(q // 32 - k // 32) <= 3 & abs(q % 32 - k % 32) <= 3",
    " | ".join(f"k == {position}" for position in range(40)),
)
LENGTHS = tuple((i * 7919) % 4000 + 1 for i in range(40))
# Their rows split into more intervals than are counted.
REFUSED = (
    Longformer(512, tuple(range(0, 128_000, 2000))),
    *map(
        parse,
        (
            "documents([4000, 3000]) & strided(64) | band(128) & ~(k % 3 == 0)",
            "axial(3) & axial(4097)",
            "logarithmic | (q*k) % 7 == 1",
        ),
    ),
)
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
    *REFUSED,
)
MOST_CHARACTERS = 40  # of a mask or text in a table


def masks() -> None:
    """All tables."""
    computed()
    read()
    counted()


def computed(n: int = 1024) -> None:
    """Every mask of the catalogue on positions that broadcast, against FlexAttention's create_mask."""
    table(f"Masks, {n} × {n}", ("mask", "create_mask ms", "attnviz ms", "ratio"))
    at = torch.tensor(0), torch.tensor(0), torch.arange(n)[:, None], torch.arange(n)
    for mask in (kind() for kind in sizes(MASKS)):

        def theirs(mask: Mask = mask) -> object:
            return create_mask(mask.bind(n, n, 1), None, None, n, n, device="cpu")

        def ours(mask: Mask = mask) -> object:
            return mask.bind(n, n, 1)(*at).expand(n, n)

        row(_named(mask), *in_turn(theirs, ours, runs=15))


def read() -> None:
    """Texts read as masks."""
    table("Reading a mask", ("text", "ms"))
    for text in sizes(TEXTS):
        row(_named(text), 1000 * statistics.median(repeated(lambda text=text: _seconds(lambda: parse(text)), 24)))


def counted(n: int = 131_072) -> None:
    """What masks cost at n × n, or how soon that is refused: seconds, and at another run the most memory held."""
    table(f"Cost, {n:,} × {n:,}", ("mask", "CPU seconds", "peak MB", "density %"))
    for mask in sizes(LONG, (LONG[0], REFUSED[0])):
        found = _cost(mask, n)
        seconds = statistics.median(repeated(lambda mask=mask: _seconds(lambda: _cost(mask, n)), 2))
        tracemalloc.start()
        _cost(mask, n)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        row(_named(mask), seconds, peak, 100 * found.kept / n**2 if found else "refused")


def _cost(mask: Mask, n: int) -> Cost | None:
    """The cost of a mask; None if it is refused."""
    try:
        return cost(mask, n, n)
    except ValueError:
        return None


def _seconds(make: Callable[[], object]) -> float:
    """Seconds of processor time."""
    start = time.process_time()
    make()
    return time.process_time() - start


def _named(mask: object) -> str:
    name = str(mask)
    return name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 1]}…"


if __name__ == "__main__":
    masks()
