"""How long a map takes on clusters of 1 to 64 machines, from rates that `make bench` measures."""

import math
from dataclasses import dataclass

from attnviz.mechanism import BLOCK
from docs.tools.tables import table

NODES = (1, 2, 4, 8, 16, 32, 64)
TOKENS = (131_072, 1_048_576)
WIDTH = 64
NUMBER_BYTES = 4


@dataclass(frozen=True)
class Rates:
    """The work of one machine and its network in a second; `make bench` measures the first two."""

    pairs: float = 8e7  # of a query and a key of width 64, by one core
    task: float = 0.006  # seconds to send a task and get its cells
    cores: int = 16  # of a machine
    bytes: float = 1.25e9  # from one machine to another: 10 gigabits

    def seconds(self, tokens: int, nodes: int) -> float:
        """Returns how long a causal map of one head takes, once the processes of the cluster have started.

        The vectors go to each machine once, and a machine that has them sends them on. Then each core computes blocks
        of rows; the last one to end is at most a block behind. The blocks' cells are merged one after the other.
        """
        sending = (1 + math.ceil(math.log2(nodes))) * 2 * tokens * WIDTH * NUMBER_BYTES / self.bytes
        computing = tokens**2 / 2 / (self.pairs * self.cores * nodes)
        largest_block = BLOCK * tokens / self.pairs
        merging = math.ceil(tokens / BLOCK) * self.task
        return sending + max(computing, largest_block, merging)


def cluster_plan(rates: Rates = Rates()) -> str:
    """Returns the table of the documentation."""
    header = ("machines", "cores", *(f"{tokens:,} tokens" for tokens in TOKENS))
    rows = (
        (nodes, nodes * rates.cores, *(duration(rates.seconds(tokens, nodes)) for tokens in TOKENS)) for nodes in NODES
    )
    return table(header, rows)


def duration(seconds: float) -> str:
    """Formats seconds, from two minutes on as minutes."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
