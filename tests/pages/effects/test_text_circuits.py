"""How few heads are enough: the curves of the library, of the texts that the order was not found on."""

from dataclasses import replace

import pytest
import torch

from attnviz import PerText, Texts
from attnviz.effects import circuit_curves
from attnviz.page.blocks import Anchor, Figure, Note, Paragraph, Summary, Table, every_block
from attnviz.pages.effects.state import DIVERGENCE, MANY_TEXTS, EffectsState
from attnviz.pages.effects.text_circuits import RANDOM_SETS, _of_curves, text_circuits
from tests.support.tiny_models import TEXT

LINES = f"{TEXT} | brown | dog\nover the dog\n{TEXT} the lazy dog | fox\nthe quick dog"


def tiny(saved, **values) -> EffectsState:
    options = {"other_texts": f"{TEXT} A dog.\n{TEXT} It jumps.", "many": LINES, "circuit": True} | values
    model = str(saved / "gpt2")
    return EffectsState(model=model, text=TEXT, inspect=MANY_TEXTS, token="fox", other="lazy", **options)


def test_the_page_has_the_curves_of_the_library(saved) -> None:
    state = tiny(saved)
    batches, metrics = zip(*state.measured_runs, strict=True)
    curves = circuit_curves(
        *(state.run.linearized.model, Texts(None, batches), PerText(metrics)),
        neutral=state.other_runs,
        random_sets=RANDOM_SETS,
        mlps=False,
    )
    blocks = [*every_block(text_circuits(state))]
    [figure] = (block for block in blocks if isinstance(block, Figure))
    expected = [
        *(curves.faithfulness, curves.completeness),
        *(curves.random_faithfulness.mean(0), curves.random_completeness.mean(0)),
    ]
    torch.testing.assert_close(torch.from_numpy(figure.panels[0].weights), torch.stack(expected))
    [table] = (block for block in blocks if isinstance(block, Table))
    assert [row[0] for row in table.rows] == [*map(str, curves.sizes)]
    assert (table.rows[0][1:3], table.rows[-1][1:3]) == (("0%", "100%"), ("100%", "0%"))
    numbers = next(block for block in blocks if isinstance(block, Summary)).quantities()
    assert numbers[f"faithfulness of {curves.sizes[1]}"] == pytest.approx(float(curves.faithfulness[1]))
    named = next(block for block in blocks if isinstance(block, Paragraph)).content
    heads = [EffectsState.read(part.link).head for part in named if isinstance(part, Anchor)]
    assert heads == [(part.layer, part.index) for part in curves.order]
    notes = " ".join(block.content for block in blocks if isinstance(block, Note))
    assert "first half of the texts, 2; measured are the other 2" in notes


@pytest.mark.parametrize(("alone", "is_alarm"), [(0.9, False), (1.2, True)])
def test_more_than_the_whole_model_is_an_alarm(saved, alone: float, is_alarm: bool) -> None:
    state = tiny(saved)
    batches, metrics = zip(*state.measured_runs, strict=True)
    curves = circuit_curves(
        state.run.linearized.model, Texts(None, batches), PerText(metrics), neutral=state.other_runs, mlps=False
    )
    way = curves.whole - curves.nothing
    made = replace(curves, circuit=(curves.nothing + alone * way)[:, None].expand_as(curves.circuit))
    blocks = [*_of_curves(state, made)]
    said = " ".join(block.content for block in blocks if isinstance(block, Note))
    assert ("larger than that of the whole model" in said) is is_alarm
    [sentence] = (block.content for block in blocks if isinstance(block, Summary))
    assert sentence.startswith(f"With 0 of 8 heads alone, {alone:.0%} of the measure is there; without them, 100% is")


@pytest.mark.parametrize(("at_random", "is_found"), [(0.85, True), (0.9, False), (1.09, False)])
def test_random_heads_that_do_as_well_are_no_finding(saved, at_random: float, is_found: bool) -> None:
    state = tiny(saved)
    batches, metrics = zip(*state.measured_runs, strict=True)
    curves = circuit_curves(
        state.run.linearized.model, Texts(None, batches), PerText(metrics), neutral=state.other_runs, mlps=False
    )
    way = curves.whole - curves.nothing
    made = replace(
        curves,
        circuit=(curves.nothing + 0.9 * way)[:, None].expand_as(curves.circuit),
        random=(curves.nothing + at_random * way)[:, None, None].expand_as(curves.random),
    )
    [sentence] = (block.content for block in _of_curves(state, made) if isinstance(block, Summary))
    found = "With 0 of 8 heads alone, 90% of the measure is there"
    none = f"but with as many random heads {at_random:.0%}."
    assert (found in sentence, none in sentence) == (is_found, not is_found)


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"measure": DIVERGENCE}, "estimates of effects"), ({"ablation": "zero"}, "write"), ({"many": "a fox"}, "two")],
)
def test_what_cannot_be_measured_is_said(saved, values: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        [*text_circuits(tiny(saved, **values))]
