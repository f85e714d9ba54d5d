"""The work of a run under an intervention is that of the layers that it changes."""

import pytest

from attnviz.analysis import work
from attnviz.base.text import EXAMPLE
from attnviz.models.interventions import Intervention
from attnviz.normalizers import Softmax
from attnviz.pages.masks.model_output import intervened_run
from attnviz.sources import Model


def test_too_many_layers_are_refused_and_ablated_heads_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def intervened(**change: object) -> None:
        intervened_run(Model(EXAMPLE), Intervention(**change))

    monkeypatch.setattr(work, "MOST_WORK", 12 * 16 * 16)
    intervened(ablated=tuple((3, head) for head in range(12)))
    intervened(normalizer=Softmax(4.0), layers=(2,))
    with pytest.raises(ValueError, match=r"Change fewer layers, or use a shorter text\."):
        intervened(normalizer=Softmax(4.0))
    monkeypatch.setattr(work, "MOST_WORK", 12 * 16 * 16 - 1)
    with pytest.raises(ValueError, match=r"at most 3,071 are done for one figure\. Use a shorter text\."):
        intervened(normalizer=Softmax(4.0), layers=(2,))
