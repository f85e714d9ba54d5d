"""Edited numbers, which are in the link with the current stage."""

from collections.abc import Callable

import streamlit as st

from attnviz.language import _, plural
from attnviz.lessons.steps import Edits, Matrix, Steps, StepsExample, compute_steps, format_edits, parse_edits
from attnviz.ui import cache
from attnviz.ui.link_state import link_value, set_link_value

EDITS, STAGE = "edits", "stage"  # link parameters
PROBLEM = "steps problem"  # why the last edit was refused; in the session


def cached_steps(example: StepsExample, edits: Edits) -> Steps:
    """Returns the computed example. Raises ValueError if it cannot be written out with these edits."""
    return cache.once(lambda: compute_steps(example, edits), "steps", example, format_edits(edits))


def linked_edits(make: Callable[[], StepsExample]) -> tuple[Edits, str]:
    """Returns the edits in the link that fit the example, and a message about the others."""
    try:
        edits = parse_edits(link_value(EDITS))
    except ValueError as problem:
        return {}, _("The numbers written by hand are left out. {problem}").format(problem=problem)
    try:
        matrices = cached_steps(make(), {}).matrices
    except ValueError:  # which the page shows
        return {}, ""
    valid = {
        name: {cell: value for cell, value in cells.items() if _has_cell(matrices.get(name), *cell)}
        for name, cells in edits.items()
    }
    valid = {name: cells for name, cells in valid.items() if cells}
    lost = sum(map(len, edits.values())) - sum(map(len, valid.values()))
    count = plural("{count} number", "{count} numbers", lost).format(count=lost)
    return valid, _("{count} written by hand had a place that is not here, and can’t be shown.").format(
        count=count
    ) if lost else ""


def example_error(make: Callable[[], StepsExample], edits: Edits) -> str:
    """Returns why the example cannot be shown; empty if it can."""
    try:
        cached_steps(make(), edits)
    except ValueError as problem:
        return str(problem)
    return ""


def edit_number(example: StepsExample, edits: Edits, matrix: str, row: int, column: int, text: str) -> None:
    """Edits a number; an empty text removes the edit. Stores the edits in the link, or the reason of a refusal in
    PROBLEM."""
    new_edits = {name: dict(cells) for name, cells in edits.items()}
    try:
        if text:
            new_edits.setdefault(matrix, {})[row, column] = float(text)
        else:
            new_edits.get(matrix, {}).pop((row, column), None)
        cached_steps(example, new_edits)
    except ValueError as problem:
        st.session_state[PROBLEM] = str(problem)
    else:
        set_link_value(EDITS, format_edits(new_edits))


def _has_cell(matrix: Matrix | None, row: int, column: int) -> bool:
    return matrix is not None and row < len(matrix.rows) and column < len(matrix.columns)
