"""The share of a mixture of experts by its experts."""

from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attnviz.tracing.residual_writer import ResidualWriter


def expert_shares(
    writer: ResidualWriter, gradient: Tensor, position: int, paths: Mapping[nn.Module, str]
) -> dict[int | str, float]:
    """Returns the shares of the parts of an MLP at a position, by the gradient of its output, which add up to its own:
    of experts that a router has chosen by their numbers, and of others by the paths of their modules inside the MLP.

    Returns nothing if the MLP is made of one part.
    """
    at_position = torch.zeros_like(gradient.flatten(0, -2))
    at_position[position] = gradient.flatten(0, -2)[position]
    return _shares(writer, at_position.reshape(gradient.shape), position, paths, paths[writer.module])


def _shares(
    writer: ResidualWriter, gradient: Tensor, position: int, paths: Mapping[nn.Module, str], path: str
) -> dict[int | str, float]:
    if writer.routed is not None:
        return _routed_shares(writer, gradient[position], position)
    if writer.output is None or not _has_experts(writer):
        return {}
    leaves = [part.value for part in writer.parts]
    gradients = torch.autograd.grad(writer.output, leaves, gradient, retain_graph=True)
    shares: Counter[int | str] = Counter()
    for part, gradient in zip(writer.parts, gradients, strict=True):
        name = paths[part.module].removeprefix(f"{path}.")
        shares.update(_shares(part, gradient, position, paths, path) or {name: float(part.shares(gradient).sum())})
    return dict(shares)


@torch.no_grad()
def _routed_shares(experts: ResidualWriter, gradient: Tensor, position: int) -> dict[int | str, float]:
    """The output of experts is linear in the weights that the router gives them."""
    assert experts.routed
    states, chosen, weights = (tensor[position : position + 1] for tensor in experts.routed)

    def share(expert: int) -> float:
        return float((gradient * experts.module(states, chosen, weights * (chosen == expert))[0]).double().sum())

    return {expert: share(expert) for expert in chosen[0].unique().tolist()}


def _has_experts(writer: ResidualWriter) -> bool:
    return writer.routed is not None or len(writer.parts) > 1 or any(map(_has_experts, writer.parts))
