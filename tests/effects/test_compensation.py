"""What others do when a head is ablated: against the sums of models without the head, and weights put in by hand."""

import pytest
import torch
from torch import Tensor

from attnviz.attribution import LinearizedPass, attribute
from attnviz.effects import Logit, LogitDifference, ablations
from attnviz.effects.compensation import compensations
from attnviz.effects.value_norms import value_norms
from attnviz.tracing.forward_arguments import forward_arguments
from tests.support.output_projections import (
    CORRUPTED,
    TINY,
    by_head,
    changed_input,
    outputs,
    projections,
    tiny,
    without_head,
)

METRIC = LogitDifference(5, 7)


@pytest.mark.parametrize("name", TINY)
def test_shares_without_a_head_are_those_of_a_model_without_it(name: str) -> None:
    batch, places = TINY[name].batch(), [(0, 1), (1, 3)]
    effects = ablations(tiny(name), batch, METRIC, how="zero")
    for made in compensations(tiny(name), batch, METRIC, places, how="zero"):
        own, other = (attribute(model, batch, METRIC) for model in (tiny(name), without_head(name, *made.head)))
        for found, expected in ((made.before, own), (made.after, other)):
            torch.testing.assert_close(found.mlps, expected.mlps.sum(-1), atol=1e-4, rtol=1e-4)
            assert found.total == pytest.approx(expected.total, abs=1e-4)
        expected = other.heads.sum(-1)
        expected[made.head] = 0
        torch.testing.assert_close(made.after.heads, expected, atol=1e-4, rtol=1e-4)
        assert made.effect == pytest.approx(float(effects[made.head]), abs=1e-4)
        assert made.of_head == pytest.approx(-float(own.heads.sum(-1)[made.head]), abs=1e-4)
        assert made.of_head + made.of_others + made.of_norms == pytest.approx(made.effect, abs=1e-5)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Gemma 2", "BERT"])
@torch.no_grad()
def test_what_is_written_without_a_head_is_apart_from_the_scales_of_norms(name: str) -> None:
    batch = TINY[name].batch()
    [made] = compensations(tiny(name), batch, METRIC, [(0, 1)], how="zero")
    earlier = torch.tensor([True, False, True, True])  # the other heads of its layer write what they did
    torch.testing.assert_close(made.fixed_norms.heads[0, earlier], made.before.heads[0, earlier])
    assert (made.fixed_norms.heads[1] - made.before.heads[1]).abs().max() > 1e-4
    assert (made.after.heads[0, earlier] - made.fixed_norms.heads[0, earlier]).abs().max() > 1e-6


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia"])
@torch.no_grad()
def test_the_direct_effect_is_of_what_the_head_wrote_before_the_last_norm(name: str) -> None:
    model, batch, (layer, head) = tiny(name), TINY[name].batch(), (0, 1)
    written = outputs(name, batch)[layer][0, -1, head]
    projection = projections(name)[layer]
    weight = projection.get_parameter("weight").detach()
    missed = by_head(weight if isinstance(projection, torch.nn.Linear) else weight.T)[:, head] @ written
    norm = next(m for path, m in model.named_modules() if path.endswith(("ln_f", "model.norm", "final_layer_norm")))

    def last(logits: Tensor) -> float:
        return float(logits[0, -1, 5] - logits[0, -1, 7])

    own = last(model(**batch).logits)
    with changed_input(norm, lambda states: states[0, -1].sub_(missed)):
        expected = last(model(**batch).logits) - own
    [made] = compensations(model, batch, METRIC, [(layer, head)], how="zero")
    assert made.direct == pytest.approx(expected, abs=1e-4)
    assert abs(made.direct - made.effect) > 1e-3


def test_heads_of_earlier_layers_do_not_change() -> None:
    [made] = compensations(tiny("Llama"), TINY["Llama"].batch(), Logit(5), [(1, 2)])
    # Their shares do, by the scale of the last norm, which is the same for all that is written at a position.
    factors = made.after.heads[0] / made.before.heads[0]
    torch.testing.assert_close(factors, factors[:1].expand(4), atol=1e-3, rtol=1e-3)
    assert abs(float(factors[0]) - 1) < 0.2


@pytest.mark.parametrize("how", ["mean", "resample"])
def test_other_texts_give_the_effects_of_ablations(how) -> None:
    name, texts = "GPT-2", [TINY["GPT-2"].batch(ids) for ids in (CORRUPTED, CORRUPTED.flip(1))]
    batch = TINY[name].batch()
    [made] = compensations(tiny(name), batch, METRIC, [(0, 2)], how=how, texts=texts)
    effect = ablations(tiny(name), batch, METRIC, how=how, texts=texts, heads=[(0, 2)])[0, 2]
    assert made.effect == pytest.approx(float(effect), abs=1e-4)
    assert abs(float(effect)) > 1e-3


def test_progress_gets_the_results_so_far() -> None:
    steps = []
    compensations(
        tiny("GPT-2"),
        TINY["GPT-2"].batch(),
        METRIC,
        [(0, 0), (1, 1)],
        on_progress=lambda share, found: steps.append((share, [made.head for made in found])),
    )
    assert steps == [(0.5, [(0, 0)]), (1.0, [(0, 0), (1, 1)])]


def test_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="There is no head 9: there are 4"):
        compensations(tiny("GPT-2"), TINY["GPT-2"].batch(), METRIC, [(0, 9)])


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Pythia", "Mixtral", "T5"])
def test_norms_of_values_are_those_of_weights_times_projected_values(name: str) -> None:
    batch = TINY[name].batch()
    model = tiny(name)
    linearized = LinearizedPass(model, forward_arguments(model, (batch,), {}))
    queries = {0: 4, 1: 2}
    found = value_norms(linearized, queries)
    for layer, query in queries.items():
        projection = projections(name)[layer]
        weight = projection.get_parameter("weight").detach()
        heads = by_head(weight if isinstance(projection, torch.nn.Linear) else weight.T)  # (width, heads, d)
        call = linearized.ran[1].heads[layer].call
        assert call is not None
        value = call.value[0].detach().repeat_interleave(4 // call.value.shape[1], 0)
        weights = attention(model, batch, layer)[0, :, query]
        expected = torch.einsum("hk,hkd,whd->hkw", weights, value, heads).norm(dim=-1)
        torch.testing.assert_close(found[layer], expected, atol=1e-5, rtol=1e-4)
        assert float(expected.max()) > 1e-3


@torch.no_grad()
def attention(model, batch: dict[str, Tensor], layer: int) -> Tensor:
    """The weights of a layer by transformers' own eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        output = model(**batch, output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    kept = getattr(output, "encoder_attentions", None) or output.attentions
    return kept[layer]
