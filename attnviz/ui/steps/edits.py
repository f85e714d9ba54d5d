"""Edited numbers, which are in the link with the current stage."""

from attnviz.language import _, plural
from attnviz.state.steps import StepsState, computed_steps
from attnviz.steps.edits import Edits, parse_edits
from attnviz.steps.matrix import Matrix
from attnviz.ui.field_widgets import draw_hidden
from attnviz.ui.session_values import SessionValue
from attnviz.ui.widget_values import set_field_value

PROBLEM = SessionValue("steps problem", str)  # why the last edit was refused


def linked_edits(state: StepsState) -> tuple[Edits, str]:
    """Returns the edits in the link that fit the example of a state, and a message about the others."""
    try:
        edits = parse_edits(draw_hidden(StepsState.edits))
    except ValueError as problem:
        return {}, _("The numbers written by hand are left out. {problem}", problem=problem)
    try:
        matrices = computed_steps(state.example, {}).matrices
    except ValueError:  # which the page shows
        return {}, ""
    valid = {
        name: {cell: value for cell, value in cells.items() if _has_cell(matrices.get(name), *cell)}
        for name, cells in edits.items()
    }
    valid = {name: cells for name, cells in valid.items() if cells}
    lost = sum(map(len, edits.values())) - sum(map(len, valid.values()))
    count = plural("{count} number", "{count} numbers", lost, count=lost)
    return valid, _(
        "{count} written by hand had a place that does not exist here, and can’t be shown.", count=count
    ) if lost else ""


def edit_number(state: StepsState, matrix: str, row: int, column: int, text: str) -> None:
    """Edits a number; an empty text removes the edit. Stores the edits in the link, or the reason of a refusal in
    PROBLEM."""
    new_edits = {name: dict(cells) for name, cells in state.edits.items()}
    try:
        if text:
            new_edits.setdefault(matrix, {})[row, column] = float(text)
        else:
            new_edits.get(matrix, {}).pop((row, column), None)
        computed_steps(state.example, new_edits)
    except ValueError as problem:
        PROBLEM.set(str(problem))
    else:
        set_field_value(StepsState.edits, new_edits)


def _has_cell(matrix: Matrix | None, row: int, column: int) -> bool:
    return matrix is not None and row < len(matrix.rows) and column < len(matrix.columns)
