"""What Steps shows."""

import numpy as np

from attnviz.language import _, value_error
from attnviz.lessons.checks import row_quantities
from attnviz.page.page_view import PageView, Panel
from attnviz.state.steps import STEP_BY_STEP, StepsState


def steps(state: StepsState) -> PageView:
    """Returns the weights of the head shown. Raises ValueError for another tab than the first, or if the example cannot
    be written out."""
    if state.part != STEP_BY_STEP:
        raise value_error("Only the first tab of Steps can be shown without the page.")
    computed, head, row = state.steps, state.head_shown, state.query
    inputs, weights = computed.inputs, computed.matrices[f"weights{head}"].values.numpy()
    allowed = computed.mechanism(inputs, heads=[head]).allowed[0].numpy()
    shown = np.where(allowed, weights, np.nan)
    title = _("Weights of head {head}", head=head)
    panel = Panel(title, shown, inputs.query_tokens, inputs.key_tokens, row)
    return PageView((panel,), row_quantities(inputs.key_tokens, weights[row]))
