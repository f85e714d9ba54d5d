"""How one matrix is made of others: the operations that attention is written out in."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.biases import Bias
from attnviz.lessons.steps.matrix import How, Matrix, Part, number, term


@dataclass(frozen=True)
class Given(How):
    """Numbers that nothing here computes."""

    numbers: Float[Tensor, "rows columns"] = field(repr=False)
    why: str

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return self.numbers

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        return self.why


@dataclass(frozen=True)
class Product(How):
    """A matrix product A B, or A Bᵀ: a row of A times a column (or a row) of B, added up."""

    transposed: bool = False

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        a, b = sources
        return a @ (b.mT if self.transposed else b)

    def parts(self, row: int, column: int, *sources: Matrix) -> tuple[Part, ...]:
        a, b = sources
        across, along = range(a.values.shape[1]), range(column, column + 1)
        other = Part(b.name, along, across) if self.transposed else Part(b.name, across, along)
        return (Part(a.name, range(row, row + 1), across), other)

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        a, b = (source.values for source in sources)
        factors = zip(a[row].tolist(), (b[column] if self.transposed else b[:, column]).tolist(), strict=True)
        return " + ".join(f"{term(x, first=i == 0)}·{term(y)}" for i, (x, y) in enumerate(factors))

    def columns(self, *sources: Matrix) -> tuple[str, ...]:
        return sources[1].rows if self.transposed else sources[1].columns


@dataclass(frozen=True)
class Scaled(How):
    """Each number divided by √d_k."""

    d_k: int

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return sources[0] / math.sqrt(self.d_k)

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        return f"{number(float(sources[0].values[row, column]))} / √{self.d_k}"


@dataclass(frozen=True)
class Biased(How):
    """Each score changed by biases, which were bound to these queries, keys and heads."""

    biases: tuple[Bias, ...]
    head: int

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        scores = sources[0][None]  # with an axis of heads, as biases are asked everywhere else
        queries, keys = scores.shape[-2:]
        b, h = torch.tensor(0), torch.tensor([self.head])[:, None, None]
        for bias in self.biases:
            scores = bias(scores, b, h, torch.arange(queries)[:, None], torch.arange(keys))
        return scores[0]

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        score = sources[0].values
        change = float((self(score) - score)[row, column])
        names = ", ".join(getattr(bias, "NAME", "") or type(bias).__name__ for bias in self.biases)
        return f"{number(float(score[row, column]))} {'−' if change < 0 else '+'} {number(abs(change))} ({names})"


@dataclass(frozen=True)
class Masked(How):
    """−∞ where a query may not see a key."""

    allowed: Bool[Tensor, "rows columns"] = field(repr=False)

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return torch.where(self.allowed, sources[0], -torch.inf)

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        added = "0" if self.allowed[row, column] else "(−∞)"
        return f"{number(float(sources[0].values[row, column]))} + {added}"


@dataclass(frozen=True)
class Exp(How):
    """exp of each score, less the greatest of its row: no weight changes by that, and no number overflows."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        greatest = sources[0].amax(-1, keepdim=True)
        return torch.exp(sources[0] - greatest.masked_fill(greatest.isneginf(), 0))

    def parts(self, row: int, column: int, *sources: Matrix) -> tuple[Part, ...]:
        greatest = int(sources[0].values[row].argmax())
        return super().parts(row, column, *sources) + super().parts(row, greatest, *sources)

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        scores = sources[0].values[row]
        greatest = "" if scores.max().isneginf() else f" − {term(float(scores.max()))}"
        return f"exp({number(float(scores[column]))}{greatest})"


@dataclass(frozen=True)
class RowSum(How):
    """The sum of each row."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return sources[0].sum(-1, keepdim=True)

    def parts(self, row: int, column: int, *sources: Matrix) -> tuple[Part, ...]:
        return (Part(sources[0].name, range(row, row + 1), range(sources[0].values.shape[1])),)

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        return " + ".join(term(one, first=i == 0) for i, one in enumerate(sources[0].values[row].tolist()))

    def columns(self, *sources: Matrix) -> tuple[str, ...]:
        return ("sum",)


@dataclass(frozen=True)
class Divided(How):
    """Each number divided by the sum of its row; 0 where there is nothing to divide, in a row that sees no key."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        above, below = sources
        return torch.where(above == 0, above, above / below)

    def parts(self, row: int, column: int, *sources: Matrix) -> tuple[Part, ...]:
        above, below = sources
        return super().parts(row, column, above) + super().parts(row, 0, below)

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        above, below = (source.values[row] for source in sources)
        return f"{number(float(above[column]))} / {term(float(below[0]))}"


@dataclass(frozen=True)
class Concatenated(How):
    """Matrices side by side."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return torch.cat(sources, dim=-1)

    def parts(self, row: int, column: int, *sources: Matrix) -> tuple[Part, ...]:
        head, own = divmod(column, sources[0].values.shape[1])
        return super().parts(row, own, sources[head])

    def words(self, row: int, column: int, *sources: Matrix) -> str:
        head, own = divmod(column, sources[0].values.shape[1])
        return f"column {own + 1} of head {head}"

    def columns(self, *sources: Matrix) -> tuple[str, ...]:
        return tuple(f"{head}·{name}" for head, one in enumerate(sources) for name in one.columns)
