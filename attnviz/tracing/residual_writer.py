"""What one module writes to the residual stream."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.tracing.call import Call


@dataclass(eq=False)
class ResidualWriter:
    """What one module writes to the residual stream, as a leaf of the graph: (…, tokens, width), of heads (1, tokens,
    heads, width). Windows, which are sequences of their own, follow each other."""

    module: nn.Module
    value: Tensor
    stack: str  # of layers, such as "decoder"; empty where the model has one
    is_heads: bool = False
    name: str = ""  # of the layer, of heads
    call: Call | None = None  # of attention, where queries, keys and values are known
    width_axis: int = -1
    returned_by: nn.Module | None = None  # the module that returns this, of an MLP; None if none does
    nonlinear: frozenset[nn.Module] = frozenset()  # modules that computed the nonlinearities of an MLP
    output: Tensor | None = None  # of the MLP, as a function of the leaf that it is made of:
    hidden: Tensor | None = None  # the units that its last linear map reads,
    parts: tuple["ResidualWriter", ...] = ()  # or what modules inside wrote
    routed: tuple[Tensor, Tensor, Tensor] | None = None  # tokens, chosen experts and their weights, of experts

    @property
    def positions(self) -> int:
        """The number of positions at which it writes."""
        return self.value.shape[1] if self.is_heads else self.value.numel() // self.value.shape[self.width_axis]

    def shares(self, gradient: Tensor) -> Tensor:
        """Returns the product with a gradient: (tokens,), of heads (tokens, heads)."""
        products = (gradient * self.value.detach()).double().sum(self.width_axis)
        return products[0] if self.is_heads else products.flatten()

    def unit_shares(self, gradient: Tensor) -> Tensor:
        """Returns the shares of an MLP's hidden units, (tokens, units), by the gradient of its output. They add up to
        its share without that of biases.

        Raises ValueError if there are several such maps, as in a mixture of experts.
        """
        leaf = self.hidden if not self.parts else self.parts[0].value
        if leaf is None or self.output is None or len(self.parts) > 1 or self.routed is not None:
            raise value_error("This MLP has several maps of hidden units, as a mixture of experts does.")
        [gradient] = torch.autograd.grad(self.output, leaf, gradient, retain_graph=True)
        if self.parts:
            return self.parts[0].unit_shares(gradient)
        return (gradient * leaf.detach()).double().flatten(0, -2)
