"""Texts of equal length are read in one batch: the numbers are those of each text alone, within 1e-5 of the metric."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnviz.effects import (
    KL,
    Logit,
    LogitDifference,
    Loss,
    ModelPart,
    ablations,
    circuit_curves,
    estimates,
    group_effects,
    knockout,
    mlp_ablations,
    part_effects,
    part_estimates,
    patch,
    patch_parts,
    patch_paths,
)
from attnviz.models.texts import GROUP_TOKENS, PerText, Texts, text_groups
from tests.support.output_projections import tiny

LENGTHS = (6, 4, 6, 6, 5, 4)
LIKE = {"atol": 1e-5, "rtol": 1e-5}
METRICS = PerText((LogitDifference(7, 9), Logit(3, 1), KL(), Loss(2), LogitDifference(1, 2), Logit(4)))
OTHER = {"input_ids": torch.tensor([[8, 2, 7, 1, 9, 3, 11]])}
PARTS = [
    ModelPart("output", 1, 2),
    ModelPart("output", 1, 2, (1, -1)),
    ModelPart("query", 1, 1),
    ModelPart("value", 0, 2, (1,)),
    ModelPart("mlp", 0, positions=(-1,)),
    ModelPart("neuron", 1, 3),
    ModelPart("residual", 1, positions=(2,)),
    [ModelPart("output", 0, 1), ModelPart("mlp", 1)],
]


def batches(seed: int) -> list[dict[str, Tensor]]:
    """Texts of three lengths; the last of them has a mask that hides its first token, so that it is in no group."""
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randint(5, 90, (1, length), generator=generator) for length in LENGTHS]
    masks = [torch.ones_like(one) for one in ids]
    masks[-1][0, 0] = 0
    return [{"input_ids": one, "attention_mask": mask} for one, mask in zip(ids, masks, strict=True)]


def probability(output: Any, batch: Any) -> Tensor:
    return output.logits[:, -1].softmax(-1).gather(-1, batch["input_ids"][:, -1:])[:, 0]


CASES: dict[str, Callable[..., Any]] = {
    "mean": lambda model, clean, other, metric: ablations(model, clean, metric, texts=[OTHER]),
    "mean of the text": lambda model, clean, other, metric: ablations(model, clean, metric),
    "zero": lambda model, clean, other, metric: ablations(model, clean, metric, how="zero", heads=[(0, 1), (1, 3)]),
    "resample": lambda model, clean, other, metric: ablations(model, clean, metric, how="resample", texts=[OTHER]),
    "own metric": lambda model, clean, other, metric: ablations(model, clean, probability, texts=[OTHER]),
    "MLPs": lambda model, clean, other, metric: mlp_ablations(model, clean, metric),
    "groups": lambda model, clean, other, metric: group_effects(model, clean, metric, [[(0, 0), (1, 1)], []]),
    "estimates": lambda model, clean, other, metric: estimates(model, clean, Logit(5), texts=[OTHER]),
    "knockout": lambda model, clean, other, metric: knockout(model, clean, metric),
    "parts": lambda model, clean, other, metric: part_effects(model, clean, metric, PARTS),
    "resampled parts": lambda model, clean, other, metric: part_effects(
        model, clean, metric, PARTS, how="resample", texts=[OTHER]
    ),
    "steered": lambda model, clean, other, metric: part_effects(
        model, clean, metric, [PARTS[6], ModelPart("mlp", 1)], how="add", vectors=torch.linspace(-1, 1, 32)
    ),
    "estimated parts": lambda model, clean, other, metric: part_estimates(model, clean, Logit(5), PARTS),
    **{
        f"patched {what}": lambda model, clean, other, metric, what=what, positions=positions: patch(
            model, clean, other, metric, what, positions=positions
        )
        for what, positions in {"output": True, "key": True, "query": False, "pattern": False, "mlp": True}.items()
    },
    "patched residual": lambda model, clean, other, metric: patch(model, clean, other, metric, "residual"),
    "patched parts": lambda model, clean, other, metric: patch_parts(model, clean, other, metric, PARTS),
    "paths": lambda model, clean, other, metric: patch_paths(model, clean, other, metric, (1, 2), "key"),
}


def numbers(found: Any) -> list[Tensor]:
    if isinstance(found, Tensor):
        return [found]
    return [found.values, torch.tensor([found.clean, found.corrupted], dtype=torch.float64)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2"])
def test_a_group_of_texts_is_measured_as_each_is_alone(name: str, case: str) -> None:
    model, measure = tiny(name), CASES[case]
    clean, corrupted = batches(0), batches(1)
    found = measure(model, Texts(None, clean), Texts(None, corrupted), METRICS)
    for one, *given in zip(found, clean, corrupted, METRICS, strict=True):
        torch.testing.assert_close(numbers(one), numbers(measure(model, *given)), equal_nan=True, **LIKE)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2"])
def test_circuits_of_a_group_are_those_of_each_text(name: str) -> None:
    model, texts = tiny(name), batches(0)
    order = [ModelPart("mlp", 0), ModelPart("output", 0, 1), ModelPart("mlp", 1, positions=(-1,))]

    def measured(texts: list[Any], metric: Any) -> list[Tensor]:
        found = circuit_curves(model, texts, metric, order, neutral=[OTHER], random_sets=1, test_share=1)
        return [found.whole, found.nothing, found.circuit, found.without, found.random]

    alone = [measured([text], metric) for text, metric in zip(texts, METRICS, strict=True)]
    torch.testing.assert_close(measured(texts, METRICS), [torch.cat(each) for each in zip(*alone, strict=True)], **LIKE)


def test_groups_have_equal_shapes_and_masks_and_few_tokens() -> None:
    texts = Texts(None, batches(0))
    assert [*text_groups(texts)] == [[0, 2, 3], [1], [4], [5]]
    assert [*text_groups(texts, Texts(None, [*batches(1)[::-1]]))] == [[0], [1], [2, 3], [4], [5]]
    long, one_token = torch.ones(1, GROUP_TOKENS // 2 + 1, dtype=torch.long), torch.tensor([[1]])
    for batch in (long, one_token, torch.tensor([1, 2, 3]), (torch.tensor([[1, 2]]),)):
        assert [*text_groups(Texts(None, [batch, batch]))] == [[0], [1]]


def test_texts_with_values_of_their_own_are_read_one_by_one() -> None:
    model, texts = tiny("Llama"), batches(0)[:1] * 2
    others = PerText(([OTHER], [batches(1)[0]]))
    found = ablations(model, Texts(None, texts), Logit(4), how="resample", texts=others)
    for one, text, other in zip(found, texts, others, strict=True):
        torch.testing.assert_close(one, ablations(model, text, Logit(4), how="resample", texts=other), **LIKE)


def test_a_group_takes_fewer_runs_of_the_model() -> None:
    """Of eight texts of 16 tokens, each takes a run without changes, one for what heads write, and one with changes:
    these are three runs of all of them."""
    model, rows = tiny("Llama"), []
    texts = Texts(None, [torch.arange(16)[None] + number for number in range(GROUP_TOKENS // 16)])
    hook = model.register_forward_pre_hook(
        lambda _model, _args, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    try:
        ablations(model, Texts(None, [{"input_ids": one} for one in texts]), Logit(4), heads=[(0, 0)])
    finally:
        hook.remove()
    assert rows == [8, 8, 8]
