"""Mistakes in a question about effects: each is a sentence that says what to give instead."""

from pathlib import Path
from typing import Any

import pytest

import attnviz
from attnviz import attribute
from attnviz.effects import Logit, LogitDifference, ablations, part_effects
from attnviz.models.smollm2 import smollm2
from tests.support.output_projections import CLEAN, tiny


@pytest.mark.parametrize(
    ("batch", "metric", "message"),
    [
        (["a text", "another"], Logit(3), r"attnviz\.Texts\(model, texts\) of several"),
        (CLEAN, [Logit(3)], "Several are measured one by one"),
        (CLEAN, LogitDifference("Mary", "John"), "is given by its number, an integer; this is '(Mary|John)'"),  # type: ignore[arg-type]
        (CLEAN, Logit(99), "no token 99"),
    ],
)
def test_a_batch_or_a_metric_that_cannot_be(batch: Any, metric: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ablations(tiny("GPT-2"), batch, metric, how="zero")


def test_a_loaded_model_in_place_of_its_module() -> None:
    loaded: Any = smollm2()
    for measure in (lambda: ablations(loaded, CLEAN, Logit(3)), lambda: attribute(loaded, CLEAN, Logit(3))):
        with pytest.raises(ValueError, match=r"give its \.model"):
            measure()
    with pytest.raises(ValueError, match=r"give its \.model"):
        part_effects(loaded, CLEAN, Logit(3), [])


def test_a_metric_of_ones_own_is_not_saved(tmp_path: Path) -> None:
    effects = ablations(tiny("GPT-2"), CLEAN, Logit(3), how="zero")
    with pytest.raises(ValueError, match="A metric of one's own cannot be saved"):
        attnviz.save(tmp_path / "effects.safetensors", effects, metric=lambda output, batch: output.logits[:, 0, 0])
