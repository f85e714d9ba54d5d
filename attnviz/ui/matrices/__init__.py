"""Linked matrices with their numbers and operands, stage by stage.

Formulas, links and colors are made here; the browser code begins in streamlit.js.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnviz.formatting import fixed, visible
from attnviz.server import scripts
from attnviz.steps.matrix import Matrix
from attnviz.ui.session_values import event_callback


@dataclass(frozen=True)
class Stage:
    """One stage of the computation."""

    name: str
    title: str
    caption: str
    cell: tuple[str, int, int]  # matrix, row and column of the number whose formula is shown first


def matrices(
    contents: Sequence[dict[str, Any]],
    stages: Sequence[Stage],
    key: str,
    *,
    stage: str,
    row: int,
    head_name: str,
    concat: str,
    problem: str,
    on_stage: Callable[[str], None],
    on_query: Callable[[int], None],
    on_edit: Callable[[str, int, int, str], None],
    on_undo: Callable[[], None],
) -> None:
    """Draws matrices, as returned by `as_json`, under `key`, with controls for the stages; `stage` is the current one.

    `row` is the selected query. `head_name` and `concat` are shown before and after the formula, and `problem` instead
    of it. An edit is (matrix, row, column, text); an empty text removes the edit. The root element has
    data-ready="true" once it is shown, data-stage and data-playing.
    """

    def edit(one: Mapping[str, Any]) -> None:
        on_edit(str(one["matrix"]), int(one["row"]), int(one["column"]), str(one["text"]))

    scripts.mount("ui/matrices")(
        key=key,
        data={
            "matrices": list(contents),
            "stages": [asdict(one) for one in stages],
            "stage": stage,
            "row": row,
            "named": head_name,
            "concat": concat,
            "problem": problem,
            "edits": any(any(map(any, one["edited"])) for one in contents),
        },
        on_stage_change=event_callback(key, "stage", lambda stage: on_stage(str(stage))),
        on_query_change=event_callback(key, "query", lambda query: on_query(int(query))),
        on_edit_change=event_callback(key, "edit", edit),
        on_undo_change=on_undo,
    )


def as_json(matrix: Matrix, tokens: bool, keys: bool) -> dict[str, Any]:
    """Returns a matrix as JSON: texts, colors, formulas, and the operands of each number. `tokens` and `keys` tell
    whether the names of rows and columns are words."""
    values = matrix.values.tolist()
    greatest = max((abs(one) for row in values for one in row if abs(one) != math.inf), default=0) or 1
    places = [[(i, j) for j in range(len(row))] for i, row in enumerate(values)]
    return {
        "name": matrix.name,
        "symbol": matrix.symbol,
        "about": matrix.about,
        "stage": matrix.stage,
        "given": not matrix.sources,
        "queries": matrix.of_queries,
        "tokens": tokens,
        "keys": keys,
        "rows": [visible(name) for name in matrix.rows],
        "columns": [visible(name) for name in matrix.columns],
        "texts": [[fixed(one) for one in row] for row in values],
        "exact": [["" if abs(one) == math.inf else f"{one:.6g}" for one in row] for row in values],
        "tints": [[None if abs(one) == math.inf else round(one / greatest, 3) for one in row] for row in values],
        "edited": matrix.edited.tolist(),
        "formulas": [[matrix.formula(i, j) for i, j in row] for row in places],
        "operands": [
            [
                [
                    (cells.matrix, cells.rows.start, cells.rows.stop, cells.columns.start, cells.columns.stop)
                    for cells in matrix.operands(i, j)
                ]
                for i, j in row
            ]
            for row in places
        ],
    }
