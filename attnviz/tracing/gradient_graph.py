"""What a number is made of, by the graph of its gradients."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

NOT_AFFINE = "attnviz.not_affine"  # in the metadata of a node: the modules that computed nonlinearities


def mark_nonlinear(number: Tensor, modules: frozenset[nn.Module]) -> None:
    """Notes in the graph of a number that these modules have computed nonlinearities of it."""
    node: Any = number.grad_fn
    node.metadata[NOT_AFFINE] = modules


def graph_nodes(numbers: Iterable[Tensor]) -> set[Any]:
    """Returns the nodes of the graph of gradients that numbers are made of."""
    waiting: list[Any] = [number.grad_fn for number in numbers if number.grad_fn is not None]
    nodes = {*waiting}
    while waiting:
        before = {node for node, _ in waiting.pop().next_functions if node is not None} - nodes
        nodes |= before
        waiting += before
    return nodes


def nonlinear_modules(number: Tensor) -> frozenset[nn.Module]:
    """Returns the modules whose nonlinearities are between the leaves of a run and a number."""
    return frozenset().union(*(node.metadata.get(NOT_AFFINE, ()) for node in graph_nodes([number])))
