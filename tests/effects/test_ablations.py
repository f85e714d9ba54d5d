"""Ablated heads and MLPs: against models without their weights, and hooks written by hand."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnviz.effects import (
    KL,
    NEUTRAL_TEXTS,
    Cosine,
    Logit,
    LogitDifference,
    Loss,
    Probability,
    ablations,
    estimates,
    mlp_ablations,
    neutral_texts,
)
from attnviz.effects.ablation import AblationKind
from attnviz.effects.metrics import EffectMetric
from attnviz.models.minilm import minilm
from tests.support.output_projections import (
    CLEAN,
    CORRUPTED,
    HEADS,
    TINY,
    calls,
    changed_output,
    mlps,
    outputs,
    projections,
    set_head,
    tiny,
    without_head,
)

SHORT = torch.tensor([[13, 44, 6, 21]])


def last(logits: Tensor) -> Tensor:
    return logits[0, -1].double()


# What metrics are, of logits (1, positions, vocabulary) after a change and before it.
METRICS: dict[str, tuple[EffectMetric, Callable[[Tensor, Tensor], Tensor]]] = {
    "logit": (Logit(5), lambda after, before: (last(after) - last(before))[5]),
    "difference": (LogitDifference(5, 7), lambda after, before: (last(after) - last(before))[[5, 7]].diff()[0].neg()),
    "above the mean": (
        LogitDifference(5, "mean", 2),
        lambda after, before: (after - before)[0, 2, 5].double() - (after - before)[0, 2].double().mean(),
    ),
    "probability": (Probability(5), lambda after, before: last(after).softmax(-1)[5] - last(before).softmax(-1)[5]),
    "KL": (
        KL(),
        lambda after, before: (
            nn.functional.kl_div(
                last(after).log_softmax(-1), last(before).log_softmax(-1), reduction="sum", log_target=True
            )
            / log(2)
        ),
    ),
}


def by_hand(
    name: str, change: Callable[[Tensor, Tensor], Tensor], value: Callable[[int, int], Tensor | float]
) -> Tensor:
    """Returns how a metric changes where each head in turn writes a value, by hooks."""
    model, batch = tiny(name), TINY[name].batch()
    before, found = model(**batch).logits, []
    for layer, projection in enumerate(projections(name)):
        for head in range(HEADS):
            with set_head(projection, head, value(layer, head)):
                found.append(change(model(**batch).logits, before))
    return torch.stack(found).unflatten(0, (-1, HEADS))


def same(found: Tensor, expected: Tensor) -> None:
    largest = float(expected.abs().max())
    torch.testing.assert_close(found, expected.double(), atol=1e-4 * largest, rtol=1e-4)
    assert largest > 0


@pytest.mark.parametrize(
    ("name", "metric"), [*((name, "difference") for name in TINY), *(("Llama", metric) for metric in METRICS)]
)
@torch.no_grad()
def test_an_ablated_head_is_one_without_an_output_projection(name: str, metric: str) -> None:
    measured, change = METRICS[metric]
    batch = TINY[name].batch()
    before, layers = tiny(name)(**batch).logits, range(len(projections(name)))
    without = [[change(without_head(name, i, h)(**batch).logits, before) for h in range(HEADS)] for i in layers]
    same(ablations(tiny(name), batch, measured, how="zero"), torch.tensor(without))


@pytest.mark.parametrize("name", [name for name in TINY if name != "BLOOM"])
@torch.no_grad()
def test_mean_ablation_writes_the_mean_of_all_positions_of_all_texts(name: str) -> None:
    texts = [TINY[name].batch(ids) for ids in (CORRUPTED, SHORT)]
    kept = [outputs(name, text) for text in texts]
    means = [torch.cat([written[0] for written in of_layer]).mean(0) for of_layer in zip(*kept, strict=True)]
    measured, change = METRICS["difference"]
    found = ablations(tiny(name), TINY[name].batch(), measured, how="mean", texts=texts)
    same(found, by_hand(name, change, lambda layer, head: means[layer][head]))


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "T5"])
@torch.no_grad()
def test_without_texts_the_mean_is_that_of_this_text(name: str) -> None:
    measured, batch = METRICS["difference"][0], TINY[name].batch()
    same(ablations(tiny(name), batch, measured), ablations(tiny(name), batch, measured, how="mean", texts=[batch]))


def test_a_text_of_one_token_has_no_mean_of_its_own() -> None:
    model, batch = tiny("GPT-2"), {"input_ids": torch.tensor([[5]])}
    for measure in (ablations, estimates, mlp_ablations):
        with pytest.raises(ValueError, match="Give a list of them"):
            measure(model, batch, Logit(5))
        assert float(measure(model, batch, Logit(5), texts=[{"input_ids": SHORT}]).abs().max()) > 0


def test_a_decoder_that_has_written_one_token_has_no_mean_of_its_own() -> None:
    batch = TINY["T5"].batch() | {"decoder_input_ids": torch.tensor([[0]])}
    with pytest.raises(ValueError, match="Give a list of them"):
        ablations(tiny("T5"), batch, Logit(5))


def test_zero_alone_is_written_instead_of_what_is_not_known() -> None:
    for how in ("mean", "resample"):
        with pytest.raises(ValueError, match="Choose zero ablation"):
            ablations(tiny("BLOOM"), TINY["BLOOM"].batch(), Logit(5), how=how, texts=[{"input_ids": CORRUPTED}])


def test_neutral_texts_are_read_by_a_tokenizer() -> None:
    loaded = minilm()
    texts = neutral_texts(loaded.tokenizer)
    assert len(texts) == len({*NEUTRAL_TEXTS}) == 16
    assert all(loaded.tokenizer.decode(text["input_ids"][0]).startswith("[CLS]") for text in texts)
    batch, metric = loaded.encode("The animal was too tired.").batch, Cosine()
    [effect] = ablations(loaded.model, batch, metric, texts=texts, heads=[(2, 3)])[2, 3:4]
    assert -1 < float(effect) < 0


@pytest.mark.parametrize("name", [name for name in TINY if name != "BLOOM"])
@torch.no_grad()
def test_resample_ablation_is_the_mean_over_texts(name: str) -> None:
    texts = [TINY[name].batch(ids) for ids in (CORRUPTED, CLEAN.flip(1))]
    measured, change = METRICS["KL"]
    kept = [outputs(name, text) for text in texts]
    expected = [by_hand(name, change, lambda layer, head, of=of: of[layer][0, :, head]) for of in kept]  # type: ignore[misc]
    found = ablations(tiny(name), TINY[name].batch(), measured, how="resample", texts=texts)
    torch.testing.assert_close(found, torch.stack(expected).mean(0), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", TINY)
@torch.no_grad()
def test_an_ablated_mlp_writes_nothing(name: str) -> None:
    measured, change = METRICS["difference"]
    model, batch, expected = tiny(name), TINY[name].batch(), []
    before = model(**batch).logits
    for mlp in mlps(name):
        with changed_output(mlp, Tensor.zero_):
            expected.append(change(model(**batch).logits, before))
    same(mlp_ablations(model, batch, measured, how="zero"), torch.stack(expected))


@pytest.mark.parametrize("how", ["mean", "resample"])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT", "T5", "BLOOM"])
@torch.no_grad()
def test_an_ablated_mlp_writes_what_it_writes_in_other_texts(name: str, how: AblationKind) -> None:
    measured, change = METRICS["difference"]
    model, batch = tiny(name), TINY[name].batch()
    texts = [TINY[name].batch(ids) for ids in (CORRUPTED, CLEAN.flip(1))]
    before, of_texts = model(**batch).logits, [calls(name, text, mlps(name)) for text in texts]
    expected = []
    for number, mlp in enumerate(mlps(name)):
        written = [of_text[number][1][0] for of_text in of_texts]
        values = [torch.cat(written).mean(0)] if how == "mean" else written
        effects = []
        for value in values:
            with changed_output(mlp, lambda output, value=value: output[0].copy_(value.expand_as(output[0]))):
                effects.append(change(model(**batch).logits, before))
        expected.append(torch.stack(effects).mean())
    same(mlp_ablations(model, batch, measured, how=how, texts=texts), torch.stack(expected))


@pytest.mark.parametrize(("first", "last_token"), [(1, None), (2, 4), (6, 6)])
@torch.no_grad()
def test_the_loss_is_of_the_chosen_tokens(first: int, last_token: int | None) -> None:
    def change(after: Tensor, before: Tensor) -> Tensor:
        part = slice(first, None if last_token is None else last_token + 1)
        losses = [
            nn.functional.cross_entropy(logits[0, :-1], CLEAN[0, 1:], reduction="none")[part.start - 1 :]
            for logits in (after, before)
        ]
        count = len(CLEAN[0, part])
        return (losses[0] - losses[1])[:count].double().mean() / log(2)

    found = ablations(tiny("Llama"), TINY["Llama"].batch(), Loss(first, last_token), how="zero")
    same(found, by_hand("Llama", change, lambda layer, head: 0.0))


@torch.no_grad()
def test_the_cosine_is_of_the_mean_of_the_last_states() -> None:
    loaded = minilm()
    batch = loaded.encode("The animal was too tired to cross the street.").batch
    before, expected = loaded.model(**batch).last_hidden_state.mean(1), []
    for layer in loaded.model.encoder.layer:
        for head in range(12):
            projection = layer.attention.output.dense
            keep = projection.weight.detach().clone()
            projection.weight[:, 32 * head : 32 * (head + 1)] = 0
            after = loaded.model(**batch).last_hidden_state.mean(1)
            projection.weight.copy_(keep)
            expected.append(torch.cosine_similarity(after, before) - 1)
    found = ablations(loaded.model, batch, Cosine(), how="zero")
    torch.testing.assert_close(found.flatten(), torch.cat(expected).double(), atol=1e-5, rtol=0)
    assert float(found.min()) < -0.005


@torch.no_grad()
def test_only_chosen_heads_are_ablated() -> None:
    metric, batch = METRICS["difference"][0], TINY["Llama"].batch()
    found = ablations(tiny("Llama"), batch, metric, heads=[(1, 2), (0, 3)])
    every = ablations(tiny("Llama"), batch, metric)
    assert found.isnan().sum() == 2 * HEADS - 2
    assert [float(found[1, 2]), float(found[0, 3])] == pytest.approx([float(every[1, 2]), float(every[0, 3])], rel=1e-4)


@pytest.mark.parametrize(
    ("name", "how"),
    [*((name, "resample") for name in TINY if name != "BLOOM"), ("GPT-2", "zero"), ("T5", "zero"), ("T5", "mean")],
)
def test_an_estimate_is_a_derivative_of_the_metric(name: str, how: Any) -> None:
    """The metric as a function of how far a head's outputs have moved towards others."""
    metric = METRICS["probability"][0]
    model, batch, other = tiny(name), TINY[name].batch(), TINY[name].batch(CORRUPTED)
    own, others = outputs(name, batch), outputs(name, other)
    means = [written.mean((0, 1)) for written in others]
    expected = []
    for layer, projection in enumerate(projections(name)):
        target = {"zero": torch.zeros_like(own[layer]), "mean": means[layer].expand_as(own[layer])}
        target["resample"] = others[layer]
        for head in range(HEADS):
            moved = torch.zeros(1, requires_grad=True)
            step = (target[how] - own[layer])[0, :, head]
            with set_head(projection, head, own[layer][0, :, head] + moved * step):
                logits = model(**batch).logits
            [slope] = torch.autograd.grad(last(logits).softmax(-1)[5], moved)
            expected.append(float(slope))
    found = estimates(model, batch, metric, how=how, texts=None if how == "zero" else [other])
    same(found.flatten(), torch.tensor(expected))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_estimate_is_exact_where_the_metric_is_affine(mode: Callable[[], AbstractContextManager[None]]) -> None:
    class Summed(nn.Module):
        """A layer of attention whose sums are logits."""

        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, HEADS, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.attention(x, x, x, need_weights=False)[0]

    torch.manual_seed(0)
    model, x = Summed().eval(), torch.randn(1, 6, 16)
    with mode():
        found, exact = (measure(model, x, LogitDifference(5, 7), how="zero") for measure in (estimates, ablations))
    same(found, exact)
