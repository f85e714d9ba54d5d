"""Masks of decoding: what is kept, and what is tried at once, while text is written."""

from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from attnviz.base.language import N_, value_error
from attnviz.masks.mask import Array, Mask
from attnviz.masks.terms import take


@dataclass(frozen=True)
class Sinks(Mask):
    """Each query sees the first keys, as far as they are not after it: k < size and k ≤ q.

    Attention sinks alone (StreamingLLM, Xiao et al. 2024), for windows of any kind: `sliding_window(4) | sinks(2)`.

    Example:
        >>> Sinks(1).matrix(3, 3).long()
        tensor([[1, 0, 0],
                [1, 0, 0],
                [1, 0, 0]])
    """

    CONDITION = N_("the key is one of the first {size} and not after it")

    size: int = field(default=4, metadata={"min": 0, "max": 131072, "label": "Sinks"})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (k < self.size) & (k <= q)


@dataclass(frozen=True)
class SinksAndWindow(Mask):
    """Each query sees the first keys, and a window of keys that ends with its own.

    k ≤ q, and k < sinks or q − k < window: what is left in the cache of StreamingLLM (Xiao et al. 2024), and the
    A-shape of MInference (Jiang et al. 2024). StreamingLLM also numbers positions anew among these keys, which a mask
    does not do.

    Example:
        >>> SinksAndWindow(1, 1).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 0, 1, 0],
                [1, 0, 0, 1]])
    """

    CONDITION = N_(
        "the key is not after it and is either one of the first {sinks} or one of the last {window} up to it"
    )

    sinks: int = field(default=4, metadata={"min": 0, "max": 131072})
    window: int = field(default=4, metadata={"min": 0, "max": 131072})

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        return (k <= q) & ((k < self.sinks) | (q - k < self.window))


@dataclass(frozen=True)
class Tree(Mask):
    """Several continuations at once, as a tree: each sees the prefix, itself and what leads to it.

    Node t is at position prefix + t, and `parents` names the node before it, or −1 where it follows the
    prefix. A query sees the prefix, its ancestors and itself; positions beyond the tree see the prefix and
    themselves (Medusa, Cai et al. 2024, and other speculative decoding). The prefix is what was read before, with
    a causal mask; `tree(…) & causal` shows its rows so, and those of the nodes as they are.

    Example:
        >>> Tree(1, (-1, 0, 0)).matrix(4, 4).long()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 0],
                [1, 1, 0, 1]])
    """

    CONDITION = N_(
        "the key is one of the first {prefix}, or leads to it in the tree that follows (parents {parents}), or is "
        "at its own position"
    )

    prefix: int = field(default=4, metadata={"min": 0, "max": 131072})
    parents: tuple[int, ...] = field(
        default=(-1, 0, 0, 1, 1, 2), metadata={"min": -1, "max": 62, "many": 64, "label": "Parent of each"}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for node, parent in enumerate(self.parents):
            if not -1 <= parent < node:
                raise value_error(
                    "Tree needs the parent of node {node} to be a node before it, or −1 for the "
                    "prefix; it got {parent}.",
                    node=node,
                    parent=parent,
                )

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        node = (q - self.prefix + 1).clamp(min=0, max=len(self.parents) + 1)
        ancestors = (k == take(positions, node) for positions in self._ancestors())
        return reduce(or_, ancestors, (k < self.prefix) | (k == q))

    def _ancestors(self) -> list[list[int]]:
        """For each number of steps upward, the position that each node comes to; −1 where the tree is left, as it is
        before the first node and after the last."""
        steps, nodes = [], list(self.parents)
        while any(node >= 0 for node in nodes):
            steps.append([-1, *(self.prefix + node if node >= 0 else -1 for node in nodes), -1])
            nodes = [self.parents[node] if node >= 0 else -1 for node in nodes]
        return steps


MASKS = (Sinks, SinksAndWindow, Tree)
