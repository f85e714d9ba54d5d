"""Linked matrices with their numbers and operands, stage by stage; the browser code begins in streamlit.js."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from attnviz.pages.steps.stages import matrices_content
from attnviz.pages.steps.state import StepsState, computed_steps
from attnviz.ui.server import scripts
from attnviz.ui.session_values import SessionValue, event_callback
from attnviz.ui.widget_values import choose_option, set_field_value

KEY = "matrices"
PROBLEM = SessionValue("steps problem", str)  # why the last edit was refused


def draw_matrices(state: StepsState) -> None:
    """Draws the matrices of one head, whose numbers can be edited; why an edit was refused is shown instead of a
    formula. The root element has data-ready="true" once it is shown, data-stage and data-playing."""
    first = state.steps.stages[0]
    scripts.mount("ui/matrices")(
        key=KEY,
        data=matrices_content(state, PROBLEM.pop()),
        on_stage_change=event_callback(
            KEY, "stage", lambda name: set_field_value(StepsState.stage, "" if name == first else str(name))
        ),
        on_query_change=event_callback(KEY, "query", lambda row: choose_option(StepsState.query, int(row), state)),
        on_edit_change=event_callback(KEY, "edit", partial(_edit, state)),
        on_undo_change=partial(set_field_value, StepsState.edits, {}),
    )


def _edit(state: StepsState, edit: Mapping[str, Any]) -> None:
    """Edits a number; an empty text removes the edit. Writes the edits into the link, or the reason of a refusal into
    PROBLEM."""
    matrix, place, text = str(edit["matrix"]), (int(edit["row"]), int(edit["column"])), str(edit["text"])
    edits = {name: dict(cells) for name, cells in state.fitting_edits.items()}
    try:
        if text:
            edits.setdefault(matrix, {})[place] = float(text)
        else:
            edits.get(matrix, {}).pop(place, None)
        computed_steps(state.example, edits)
    except ValueError as problem:
        PROBLEM.set(str(problem))
    else:
        set_field_value(StepsState.edits, edits)
