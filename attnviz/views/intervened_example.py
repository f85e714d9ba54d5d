"""An example through a model under an intervention."""

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from attnviz.analysis.work import check_work, heads_work
from attnviz.language import _
from attnviz.models.interventions import Intervention
from attnviz.sources import Model
from attnviz.trace import Trace

if TYPE_CHECKING:
    from attnviz.models.intervention_run import InterventionRun


@dataclass(frozen=True, repr=False)
class IntervenedExample(Model):
    """An example under an intervention."""

    intervention: Intervention = field(default_factory=Intervention)

    @classmethod
    def under(cls, intervention: Intervention, example: Model) -> "IntervenedExample":
        """Returns the example under an intervention."""
        return cls(**{one.name: getattr(example, one.name) for one in fields(example)}, intervention=intervention)

    def layers(self) -> Trace:
        return super().layers() if self.intervention.is_empty else Trace(tuple(self.intervened().layers))

    def intervened(self) -> "InterventionRun":
        """Runs the model under the intervention. Raises ValueError if that is not possible, or takes too much work."""
        from attnviz.models.intervention_run import intervened_layers, run_with_interventions  # with huggingface_hub

        model, before = self.model(), super().layers()
        places = intervened_layers([self.intervention], before)
        changed = [
            replace(before[i], mechanism=self.intervention.apply(before[i].known_mechanism, i))
            for i in places
            if self.intervention.changes_mechanism(i)
        ]
        advice = _("Use a shorter text.") if len(changed) < 2 else _("Change fewer layers, or use a shorter text.")
        check_work(heads_work(changed), _("To compute the changed layers"), advice)
        return run_with_interventions(model, [self.intervention], *self.example)
