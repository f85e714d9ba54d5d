"""Where the patches of an image are among the tokens of an axis."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.base.language import value_error


@dataclass(frozen=True)
class PatchGrid:
    """The rows and columns of an image's patches, and the position of each patch among the tokens.

    Raises ValueError if there is not one position for each patch.

    Example:
        >>> grid = PatchGrid(1, 3, positions=(1, 2, 3))
        >>> grid.named(["[CLS]", "1", "2", "3"])
        ('[CLS]', '0·0', '0·1', '0·2')
    """

    rows: int
    columns: int
    positions: tuple[int, ...]  # of the patches, row by row

    def __post_init__(self) -> None:
        distinct = len(set(self.positions)) == len(self.positions) and min(self.positions, default=-1) >= 0
        if min(self.rows, self.columns) < 1 or self.rows * self.columns != len(self.positions) or not distinct:
            raise value_error(
                "A grid of {rows} × {columns} patches needs {count} different positions, from 0; it has "
                "{got}. Give the position of each patch, row by row.",
                rows=self.rows,
                columns=self.columns,
                count=self.rows * self.columns,
                got=len({position for position in self.positions if position >= 0}),
            )

    def named(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """Returns the tokens of the axis, those of patches by their row and column."""
        names = list(tokens)
        for patch, position in enumerate(self.positions):
            row, column = divmod(patch, self.columns)
            names[position] = f"{row}·{column}"
        return tuple(names)
