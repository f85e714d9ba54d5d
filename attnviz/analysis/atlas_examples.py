"""Examples from texts: pairs of a query and a key of each head, or tokens at which an MLP writes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

EXAMPLES = 20  # of each head and kind
WEIGHT, WRITTEN, RANDOM = "weight", "written", "random"  # kinds of examples
KINDS = (WEIGHT, WRITTEN, RANDOM)
NUMBERS = ("order", "weight", "places")


@dataclass(frozen=True, eq=False)
class Examples:
    """Pairs of a query and a key of each head, from different texts, in the order of a number: its weight, the norm of
    what is written from the key, or a random one. Where there are fewer, `order` is −∞."""

    order: Float[Tensor, "heads pairs"]
    weight: Float[Tensor, "heads pairs"]
    places: Int[Tensor, "heads pairs 3"]  # the text, the query and the key
    values: Float[Tensor, "heads pairs d_v"]  # that the head reads at the key; of no width where they are not kept

    def without_values(self) -> "Examples":
        """Returns the same without the values, which take more memory than all others."""
        return replace(self, values=self.values[..., :0])

    def first(self, count: int) -> "Examples":
        """Returns the first examples of each head or MLP."""
        return Examples(*(getattr(self, name)[:, :count] for name in (*NUMBERS, "values")))

    def has_sizes(self, heads: int) -> bool:
        """Returns whether it has the sizes of examples of so many heads."""
        shape = self.order.shape
        is_same = shape == self.weight.shape == self.places.shape[:2] == self.values.shape[:2]
        return is_same and len(self.order) == heads and shape[1] <= EXAMPLES and self.places.shape[2] == 3

    def is_possible(self) -> bool:
        """Returns whether examples can have these numbers."""
        order = (self.order == -torch.inf) | (self.order.isfinite() & (self.order >= 0))
        numbers = order & self.weight.isfinite() & (self.weight >= 0)
        is_sorted = self.order[:, 1:] <= self.order[:, :-1]
        return bool(numbers.all() and is_sorted.all() and self.values.isfinite().all())

    @classmethod
    def of_layers(cls, parts: Sequence["Examples"]) -> "Examples":
        """Returns those of the heads of all layers, or of all MLPs."""
        if not parts:
            return cls(
                torch.zeros(0, 0), torch.zeros(0, 0), torch.zeros(0, 0, 3, dtype=torch.int), torch.zeros(0, 0, 0)
            )
        width = max(part.values.shape[-1] for part in parts)
        values = [pad(part.values, (0, width - part.values.shape[-1])) for part in parts]
        order, weight, places = (torch.cat([getattr(part, name) for part in parts]) for name in NUMBERS)
        return cls(order, weight, places, torch.cat(values))

    @classmethod
    def merged(cls, parts: Sequence["Examples"]) -> "Examples":
        """Returns the first EXAMPLES of several; of equal ones those of the first text."""
        columns = [torch.cat([getattr(part, name) for part in parts], 1) for name in (*NUMBERS, "values")]
        by_text = columns[2][..., 0].argsort(dim=1, stable=True)
        columns = [_picked(numbers, by_text) for numbers in columns]
        first = columns[0].argsort(dim=1, descending=True, stable=True)[:, :EXAMPLES]
        return cls(*(_picked(numbers, first) for numbers in columns))


def _picked(numbers: Tensor, places: Int[Tensor, "heads picked"]) -> Tensor:
    """Returns numbers (heads, pairs, …) of some pairs of each head."""
    return numbers[torch.arange(len(numbers))[:, None], places]
