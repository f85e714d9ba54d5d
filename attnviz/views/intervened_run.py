"""The run of a model over an example under an intervention."""

from dataclasses import replace
from typing import TYPE_CHECKING

from attnviz.analysis.work import check_work, heads_work
from attnviz.base.language import _
from attnviz.models.interventions import Intervention
from attnviz.sources import Model

if TYPE_CHECKING:
    from attnviz.models.intervention_run import InterventionRun


def intervened_run(example: Model, intervention: Intervention) -> "InterventionRun":
    """Runs the model of an example under an intervention. Raises ValueError if that is not possible, or takes too much
    work."""
    from attnviz.models.intervention_run import intervened_layers, run_with_interventions  # with huggingface_hub

    before = example.layers()
    changed = [
        replace(before[i], mechanism=intervention.apply(before[i].known_mechanism, i))
        for i in intervened_layers([intervention], before)
        if intervention.changes_mechanism(i)
    ]
    advice = _("Use a shorter text.") if len(changed) < 2 else _("Change fewer layers, or use a shorter text.")
    check_work(heads_work(changed), _("To compute the changed layers"), advice)
    return run_with_interventions(example.model(), [intervention], *example.example)
