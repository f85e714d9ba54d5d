"""The operations of attention, each of which computes a matrix from others."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attnviz.biases import Bias
from attnviz.pages.steps.matrix import CellRange, Matrix, Operation, cell_number, column_names, term


@dataclass(frozen=True)
class Input(Operation):
    """Numbers that are not computed here."""

    numbers: Float[Tensor, "rows columns"] = field(repr=False)
    origin: str

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return self.numbers

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        return self.origin

    def columns(self, *sources: Matrix) -> tuple[str, ...]:
        return column_names(self.numbers.shape[1])


@dataclass(frozen=True)
class Product(Operation):
    """The matrix product A B, or A Bᵀ if `transposed`; of B only as many rows as A has columns, from `first`."""

    transposed: bool = False
    first: int = 0

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        a, b = sources
        return a @ (b.mT if self.transposed else b[self.first : self.first + a.shape[1]])

    def operands(self, row: int, column: int, *sources: Matrix) -> tuple[CellRange, ...]:
        a, b = sources
        across, along = range(a.values.shape[1]), range(column, column + 1)
        down = range(self.first, self.first + a.values.shape[1])
        other = CellRange(b.name, along, across) if self.transposed else CellRange(b.name, down, along)
        return (CellRange(a.name, range(row, row + 1), across), other)

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        a, b = (source.values for source in sources)
        other = b[column] if self.transposed else b[self.first : self.first + a.shape[1], column]
        factors = zip(a[row].tolist(), other.tolist(), strict=True)
        return " + ".join(f"{term(x, first=i == 0)}·{term(y)}" for i, (x, y) in enumerate(factors))

    def columns(self, *sources: Matrix) -> tuple[str, ...]:
        return sources[1].rows if self.transposed else sources[1].columns


@dataclass(frozen=True)
class Scaled(Operation):
    """Each number divided by √d_k."""

    d_k: int

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return sources[0] / math.sqrt(self.d_k)

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        return f"{cell_number(float(sources[0].values[row, column]))} / √{self.d_k}"


@dataclass(frozen=True)
class Biased(Operation):
    """Scores with biases, which are bound to the numbers of queries, keys and heads."""

    biases: tuple[Bias, ...]
    head: int

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        scores = sources[0][None]  # biases expect an axis of heads
        queries, keys = scores.shape[-2:]
        b, h = torch.tensor(0), torch.tensor([self.head])[:, None, None]
        for bias in self.biases:
            scores = bias(scores, b, h, torch.arange(queries)[:, None], torch.arange(keys))
        return scores[0]

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        score = sources[0].values
        increase = float((self(score) - score)[row, column])
        names = ", ".join(getattr(bias, "NAME", "") or type(bias).__name__ for bias in self.biases)
        before, sign = cell_number(float(score[row, column])), "−" if increase < 0 else "+"
        return f"{before} {sign} {cell_number(abs(increase))} ({names})"


@dataclass(frozen=True)
class Masked(Operation):
    """−∞ where a query may not attend to a key."""

    allowed: Bool[Tensor, "rows columns"] = field(repr=False)

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return torch.where(self.allowed, sources[0], -torch.inf)

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        added = "0" if self.allowed[row, column] else "(−∞)"
        return f"{cell_number(float(sources[0].values[row, column]))} + {added}"


@dataclass(frozen=True)
class Exp(Operation):
    """exp of each score minus the largest of its row, which avoids overflow and does not change the weights."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        greatest = sources[0].amax(-1, keepdim=True)
        return torch.exp(sources[0] - greatest.masked_fill(greatest.isneginf(), 0))

    def operands(self, row: int, column: int, *sources: Matrix) -> tuple[CellRange, ...]:
        greatest = int(sources[0].values[row].argmax())
        return super().operands(row, column, *sources) + super().operands(row, greatest, *sources)

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        scores = sources[0].values[row]
        greatest = "" if scores.max().isneginf() else f" − {term(float(scores.max()))}"
        return f"exp({cell_number(float(scores[column]))}{greatest})"


@dataclass(frozen=True)
class RowTotals(Operation):
    """The sum of each row."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return sources[0].sum(-1, keepdim=True)

    def operands(self, row: int, column: int, *sources: Matrix) -> tuple[CellRange, ...]:
        return (CellRange(sources[0].name, range(row, row + 1), range(sources[0].values.shape[1])),)

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        return " + ".join(term(one, first=i == 0) for i, one in enumerate(sources[0].values[row].tolist()))

    def columns(self, *sources: Matrix) -> tuple[str, ...]:
        return ("sum",)


@dataclass(frozen=True)
class Divided(Operation):
    """Each number divided by the sum of its row; 0 in empty rows."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        above, below = sources
        return torch.where(above == 0, above, above / below)

    def operands(self, row: int, column: int, *sources: Matrix) -> tuple[CellRange, ...]:
        above, below = sources
        return super().operands(row, column, above) + super().operands(row, 0, below)

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        above, below = (source.values[row] for source in sources)
        return f"{cell_number(float(above[column]))} / {term(float(below[0]))}"


@dataclass(frozen=True)
class Sum(Operation):
    """The sum of matrices."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return torch.stack(sources).sum(0)

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        return " + ".join(term(float(one.values[row, column]), first=i == 0) for i, one in enumerate(sources))


@dataclass(frozen=True)
class Concatenated(Operation):
    """Matrices side by side."""

    def __call__(self, *sources: Tensor) -> Float[Tensor, "rows columns"]:
        return torch.cat(sources, dim=-1)

    def operands(self, row: int, column: int, *sources: Matrix) -> tuple[CellRange, ...]:
        head, own = divmod(column, sources[0].values.shape[1])
        return super().operands(row, own, sources[head])

    def formula(self, row: int, column: int, *sources: Matrix) -> str:
        head, own = divmod(column, sources[0].values.shape[1])
        return f"column {own + 1} of head {head}"

    def columns(self, *sources: Matrix) -> tuple[str, ...]:
        return tuple(f"{head}·{name}" for head, one in enumerate(sources) for name in one.columns)
