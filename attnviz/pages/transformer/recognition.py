"""What a part of a model computes, recognized by the numbers that it reads and returns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, permutations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from attnviz.pages.transformer.module_calls import ModuleCall

FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], ...]] = {
    "ReLU": (torch.relu,),
    "GELU": (functional.gelu, partial(functional.gelu, approximate="tanh"), lambda x: x * torch.sigmoid(1.702 * x)),
    "SiLU": (functional.silu,),
}


@dataclass(frozen=True)
class Recognition:
    """Compares numbers within a tolerance, a share of the largest: the orders of a sum differ."""

    tolerance: float

    def same(self, ours: Tensor, theirs: Tensor) -> bool:
        """Returns whether tensors are equal but for rounding."""
        if ours.shape != theirs.shape:
            return False
        return not ours.numel() or float((ours - theirs).abs().max()) <= self.tolerance * float(theirs.abs().max())

    def norm(self, values: Float[Tensor, "*rows width"], call: ModuleCall) -> tuple[Tensor, bool] | None:
        """Returns the gain of a norm of values, and whether it subtracts their mean, as an RMS norm does not."""
        eps = getattr(call.module, "eps", getattr(call.module, "variance_epsilon", 1e-6))
        centered, weight = values - values.mean(-1, keepdim=True), call.module.weight.detach()
        for gain in (weight, 1 + weight):  # Gemma has the second
            for numbers in (centered, values):
                normed = numbers * torch.rsqrt(numbers.square().mean(-1, keepdim=True) + eps) * gain
                if self.same(normed if call.bias is None else normed + call.bias, call.output):
                    return gain, numbers is centered
        return None

    def rotated_columns(self, before: Tensor, after: Tensor) -> int | None:
        """Returns how many columns are rotated in pairs, each with the one half as many further on; 0 where they are
        equal up to a factor, and None where they are something else."""
        if before.shape != after.shape:
            return None
        if self.same(before * factor(before, after), after):
            return 0
        for count in range(before.shape[-1], 0, -2):
            if not self.same(before[..., count:], after[..., count:]):
                return None
            (a, b), (c, d) = (one[..., :count].chunk(2, -1) for one in (before, after))
            if self.same(a**2 + b**2, c**2 + d**2):
                return count
        return None

    def projections(
        self, maps: Sequence[ModuleCall], norms: Sequence[ModuleCall], vectors: Sequence[Float[Tensor, "_h _n _d"]]
    ) -> list[tuple[ModuleCall, ModuleCall | None]] | None:
        """Returns the parts of maps that make queries and keys, up to a rotation, and values, (heads, rows, columns).
        Queries and keys may have norms, which are returned beside; outputs of maps are (rows, heads, columns)."""
        for parts in _parts_of_heads(maps, vectors):
            query, key, value = (one.output.transpose(0, 1) for one in parts)
            read = _reading(norms, query), _reading(norms, key)
            normed = [norm.output if norm else one for one, norm in zip((query, key), read, strict=True)]
            if self.same(value, vectors[2]) and all(
                self.rotated_columns(one, own) is not None for one, own in zip(normed, vectors[:2], strict=True)
            ):
                return [*zip(parts, (*read, None), strict=True)]
        return None

    def hidden_units(
        self, maps: Sequence[ModuleCall], hidden: Float[Tensor, "rows units"]
    ) -> tuple[str, Tensor, tuple[ModuleCall, ...]] | None:
        """Returns the name of the function that makes the hidden units of an MLP, what it returns, and its maps: the
        one that it reads, and the one whose outputs its own are multiplied with, if there are two."""
        orders = [*permutations(maps)] if len(maps) in (1, 2) else []
        for name, variants in FUNCTIONS.items():
            for function in variants:
                for order in orders:
                    values = function(order[0].output)
                    if self.same(values if len(order) == 1 else values * order[1].output, hidden):
                        return name, values, order
        return None


def factor(before: Tensor, after: Tensor) -> float:
    """Returns the factor by which one tensor comes nearest to another."""
    return float((before * after).sum() / before.square().sum().clamp(min=1e-12))


def _parts_of_heads(maps: Sequence[ModuleCall], vectors: Sequence[Tensor]) -> Iterator[Sequence[ModuleCall]]:
    """Yields parts of maps whose outputs may be queries, keys and values: of three maps, or of one."""
    widths, heads = [one.shape[0] * one.shape[-1] for one in vectors], [len(one) for one in vectors]
    if len(maps) == 3:
        for order in permutations(maps):
            if [one.output.shape[-1] for one in order] == widths:
                yield [one.part(_split(count)) for one, count in zip(order, heads, strict=True)]
    if len(maps) == 1 and maps[0].output.shape[-1] == sum(widths):
        ends = [*accumulate(widths)]  # all queries, then all keys, then all values
        yield [maps[0].part(_split(*part)) for part in zip(heads, (0, *ends), ends, strict=False)]
        if len({*heads}) == 1:  # the queries, keys and values of one head after the other
            yield [maps[0].part(_split_by_head(heads[0], i)) for i in range(3)]


def _split(heads: int, start: int = 0, end: int | None = None) -> Callable[[Tensor], Tensor]:
    return lambda one: one[..., start:end].unflatten(-1, (heads, -1))


def _split_by_head(heads: int, part: int) -> Callable[[Tensor], Tensor]:
    return lambda one: one.unflatten(-1, (heads, 3, -1))[..., part, :]


def _reading(norms: Sequence[ModuleCall], values: Float[Tensor, "heads rows columns"]) -> ModuleCall | None:
    """Returns the norm that has read values, with their axes; its own may be (rows, heads, columns)."""
    for norm in norms:
        for axes in ((0, 1), (1, 0)):
            if torch.equal(norm.source.movedim(axes, (0, 1)), values):
                return replace(norm, output=norm.output.movedim(axes, (0, 1)))
    return None
