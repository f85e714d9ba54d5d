"""Circuits alone and models without them: against hooks written by hand, which replace each part by its mean."""

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import attnviz
from attnviz import PerText, Texts
from attnviz.effects import (
    KL,
    CircuitCurves,
    Logit,
    LogitDifference,
    ModelPart,
    ablations,
    circuit_curves,
    mlp_ablations,
    part_effects,
    part_estimates,
)
from tests.support.output_projections import (
    HEADS,
    TINY,
    by_head,
    calls,
    changed_input,
    changed_output,
    mlps,
    outputs,
    projections,
    tiny,
)

METRIC = LogitDifference(5, 7)
NEUTRAL = [torch.tensor([[13, 44, 6, 21]]), torch.tensor([[5, 9, 21, 7, 30, 18, 12]])]
NAMES = ["GPT-2", "Llama", "Pythia", "BERT"]
LAYERS = 2
HEAD_PARTS = [ModelPart("output", layer, head) for layer in range(LAYERS) for head in range(HEADS)]
EVERY = [*HEAD_PARTS, ModelPart("mlp", 0), ModelPart("mlp", 1)]
ORDER = [ModelPart("mlp", 0), *HEAD_PARTS[6:2:-3], ModelPart("mlp", 1), ModelPart("output", 1, 0)]


def texts(count: int, length: int = 6) -> list[Tensor]:
    generator = torch.Generator().manual_seed(count)
    return [torch.randint(3, 60, (1, length), generator=generator) for _number in range(count)]


def means(name: str) -> dict[ModelPart, Tensor]:
    """What parts write in neutral texts, at all positions of all of them."""
    written: dict[ModelPart, list[Tensor]] = {part: [] for part in EVERY}
    for ids in NEUTRAL:
        of_heads, of_mlps = outputs(name, {"input_ids": ids}), calls(name, {"input_ids": ids}, mlps(name))
        for part in EVERY:
            of_part = of_heads[part.layer][0, :, part.index] if part.kind == "output" else of_mlps[part.layer][1][0]
            written[part].append(of_part)
    return {part: torch.cat(each).mean(0) for part, each in written.items()}


@torch.no_grad()
def metric_without(name: str, replaced: Collection[ModelPart], ids: Tensor, values: dict[ModelPart, Any]) -> float:
    """The difference of logits where parts write other values, at all positions or at some."""
    with ExitStack() as hooks:
        for part in replaced:
            value, at = values[ModelPart(part.kind, part.layer, part.index)], slice(None)
            at = at if part.positions is None else [*part.positions]  # type: ignore[assignment]
            if part.kind == "output":

                def change_head(states: Tensor, part: ModelPart = part, value: Any = value, at: Any = at) -> None:
                    by_head(states)[..., part.index, :][:, at] = value

                hooks.enter_context(changed_input(projections(name)[part.layer], change_head))
            else:

                def change_mlp(states: Tensor, value: Any = value, at: Any = at) -> None:
                    states[:, at] = value

                hooks.enter_context(changed_output(mlps(name)[part.layer], change_mlp))
        logits = tiny(name)(ids).logits[0, -1].double()
    return float(logits[5] - logits[7])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", ["mean", "zero"])
def test_curves_are_those_of_hooks_by_hand(name: str, how: Any) -> None:
    own = texts(4)
    curves = circuit_curves(tiny(name), own, METRIC, ORDER, neutral=NEUTRAL, how=how, sizes=range(6), random_sets=0)
    values = means(name) if how == "mean" else dict.fromkeys(EVERY, 0.0)
    for row, ids in enumerate(own[2:]):
        ends = [metric_without(name, parts, ids, values) for parts in ((), EVERY)]
        circuit = [metric_without(name, {*EVERY} - {*ORDER[:size]}, ids, values) for size in range(6)]
        without = [metric_without(name, ORDER[:size], ids, values) for size in range(6)]
        assert [float(curves.whole[row]), float(curves.nothing[row])] == pytest.approx(ends, abs=1e-4)
        assert curves.circuit[row].tolist() == pytest.approx(circuit, abs=1e-4)
        assert curves.without[row].tolist() == pytest.approx(without, abs=1e-4)
        shares = (torch.tensor(circuit) - ends[1]) / (ends[0] - ends[1])
        torch.testing.assert_close(curves.shares(curves.circuit)[row], shares.double(), atol=1e-3, rtol=1e-3)
    ends = [values.mean() for values in (curves.nothing, curves.whole)]
    expected = (curves.circuit.mean(0) - ends[0]) / (ends[1] - ends[0])
    torch.testing.assert_close(curves.faithfulness, expected)
    assert curves.random.shape == (2, 0, 6)


@pytest.mark.parametrize("metric", [METRIC, Logit(9), KL()])
@pytest.mark.parametrize("name", [*NAMES, "T5"])
def test_no_part_gives_nothing_and_all_parts_give_the_whole_exactly(name: str, metric: Any) -> None:
    own = [TINY[name].batch(ids) for ids in texts(9)]
    neutral = [TINY[name].batch(ids) for ids in NEUTRAL]
    curves = circuit_curves(tiny(name), own, metric, neutral=neutral, random_sets=2)
    assert curves.sizes[0] == 0
    assert curves.sizes[-1] == len(curves.order) == len({*curves.order})
    for of_circuit, of_rest in (
        (curves.faithfulness, curves.completeness),
        *zip(curves.random_faithfulness, curves.random_completeness, strict=True),
    ):
        assert (float(of_circuit[0]), float(of_circuit[-1])) == (0, 1)
        assert (float(of_rest[0]), float(of_rest[-1])) == (1, 0)
    assert bool((curves.shares(curves.circuit)[:, -1] == 1).all())
    assert not curves.is_above_whole[[0, -1]].any()


@pytest.mark.parametrize("measure", [part_estimates, part_effects])
def test_the_order_is_that_of_the_first_texts_alone(measure: Any) -> None:
    model, own = tiny("Llama"), texts(5)
    metrics = PerText((METRIC, Logit(9), METRIC, Logit(4), METRIC))
    curves = circuit_curves(model, own, metrics, measure, neutral=NEUTRAL, random_sets=0, test_share=0.6)
    other = circuit_curves(
        model, [*own[:2], *texts(3)], metrics, measure, neutral=NEUTRAL, random_sets=0, test_share=0.6
    )
    assert curves.order == other.order
    assert len(curves.whole) == 3
    means = measure(model, Texts(None, own[:2]), PerText(metrics.each[:2]), EVERY, texts=NEUTRAL).mean.abs()
    assert sorted(means.tolist(), reverse=True) == [float(means[EVERY.index(part)]) for part in curves.order]


def test_a_set_of_one_part_is_its_ablation() -> None:
    model, [ids, other] = tiny("GPT-2"), texts(2)
    without = [
        circuit_curves(model, [other, ids], METRIC, [part], neutral=NEUTRAL, sizes=[1], random_sets=0) for part in EVERY
    ]
    found = torch.stack([float(each.whole) - each.without[0, 0] for each in without])
    heads = ablations(model, ids, METRIC, texts=NEUTRAL).flatten()
    expected = -torch.cat([heads, mlp_ablations(model, ids, METRIC, texts=NEUTRAL)])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_parts_are_kept_at_positions_alone(name: str) -> None:
    of_head = [ModelPart("output", 0, 1, places) for places in ((-1,), (2, 3))]
    order = [of_head[0], ModelPart("mlp", 0), of_head[1], ModelPart("mlp", 1, 0, (1, -1))]
    [ids], values = texts(1), means(name)
    curves = circuit_curves(
        tiny(name), [ids], METRIC, order, neutral=NEUTRAL, sizes=range(5), random_sets=3, test_share=1.0
    )
    others = {*EVERY} - {ModelPart("output", 0, 1), ModelPart("mlp", 0), ModelPart("mlp", 1)}
    expected = [
        {*EVERY},
        {*others, ModelPart("output", 0, 1, (0, 1, 2, 3, 4)), ModelPart("mlp", 0), ModelPart("mlp", 1)},
        {*others, ModelPart("output", 0, 1, (0, 1, 2, 3, 4)), ModelPart("mlp", 1)},
        {*others, ModelPart("output", 0, 1, (0, 1, 4)), ModelPart("mlp", 1)},
        {*others, ModelPart("output", 0, 1, (0, 1, 4)), ModelPart("mlp", 1, 0, (0, 2, 3, 4))},
    ]
    circuit = [metric_without(name, replaced, ids, values) for replaced in expected]
    without = [metric_without(name, order[:size], ids, values) for size in range(5)]
    assert curves.circuit[0].tolist() == pytest.approx(circuit, abs=1e-4)
    assert curves.without[0].tolist() == pytest.approx(without, abs=1e-4)


def test_random_sets_have_as_many_heads_and_as_many_mlps() -> None:
    model, own = tiny("Llama"), texts(2)
    options: dict[str, Any] = {"neutral": NEUTRAL, "sizes": [0, 1, 4, 5], "test_share": 1.0}
    curves = circuit_curves(model, own, METRIC, ORDER, random_sets=20, seed=3, **options)
    again, other = (circuit_curves(model, own, METRIC, ORDER, random_sets=20, seed=n, **options) for n in (3, 4))
    assert torch.equal(curves.random, again.random)
    assert not torch.equal(curves.random, other.random)
    single = {round(float(value), 4) for value in curves.random[0, :, 1]}
    mlps_alone = circuit_curves(model, own, METRIC, [ModelPart("mlp", 1)], random_sets=0, **options | {"sizes": [1]})
    assert single == {round(float(value), 4) for value in (curves.circuit[0, 1], mlps_alone.circuit[0, 0])}


def test_heads_alone_are_replaced_where_mlps_are_kept() -> None:
    name, [ids] = "GPT-2", texts(1)
    curves = circuit_curves(
        tiny(name), [ids], METRIC, HEAD_PARTS[:2], neutral=NEUTRAL, mlps=False, test_share=1.0, random_sets=1
    )
    expected = [metric_without(name, HEAD_PARTS[size:], ids, means(name)) for size in (0, 1, 2)]
    assert curves.circuit[0].tolist() == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ValueError, match="MLP 0 is none that is replaced here"):
        circuit_curves(tiny(name), [ids], METRIC, ORDER, neutral=NEUTRAL, mlps=False, test_share=1.0)


def test_more_than_the_whole_model_is_an_alarm() -> None:
    whole, nothing = torch.tensor([4.0, 2.0]).double(), torch.tensor([1.0, 0.0]).double()
    circuit = torch.tensor([[1.0, 6.0, 4.0], [0.0, 1.0, 2.0]]).double()
    curves = CircuitCurves(
        tuple(ORDER[:2]), (0, 1, 2), whole, nothing, circuit, circuit.flip(1), circuit[:, None], circuit[:, None]
    )
    assert curves.faithfulness.tolist() == pytest.approx([0, 1.2, 1])
    assert curves.is_above_whole.tolist() == [False, True, False]
    torch.testing.assert_close(curves.shares(circuit)[:, 1], torch.tensor([5 / 3, 0.5]).double())
    same = CircuitCurves(
        tuple(ORDER[:2]), (0, 1, 2), whole, whole, circuit, circuit, circuit[:, None], circuit[:, None]
    )
    assert bool(same.faithfulness.isnan().all())
    assert not same.is_above_whole.any()


def test_curves_are_saved_and_are_a_table(tmp_path: Path) -> None:
    curves = circuit_curves(tiny("GPT-2"), texts(4), METRIC, neutral=NEUTRAL, random_sets=3)
    curves.save(tmp_path / "curves.safetensors", model="gpt2", metric=METRIC)
    saved = attnviz.load(tmp_path / "curves.safetensors").result
    assert isinstance(saved, CircuitCurves)
    assert (saved.order, saved.sizes) == (curves.order, curves.sizes)
    torch.testing.assert_close(saved.random_faithfulness, curves.random_faithfulness)
    frame = saved.to_frame()
    assert frame["part"].tolist()[:2] == ["", str(curves.order[0])]
    assert frame["faithfulness"].tolist() == pytest.approx(curves.faithfulness.tolist())
    assert bool((frame["random completeness least"] <= frame["random completeness"] + 1e-9).all())
    parts = (ModelPart("query", 3, 1, (2, -1)), ModelPart("mlp", 1))
    attnviz.save(tmp_path / "parts.safetensors", parts)
    assert attnviz.load(tmp_path / "parts.safetensors").result == parts


def test_what_is_no_circuit_is_refused() -> None:
    model, own = tiny("GPT-2"), texts(2)
    for arguments, message in (
        ({}, "Give some, as neutral="),
        ({"neutral": NEUTRAL, "test_share": 1.0}, "An order is found on some texts"),
        ({"neutral": NEUTRAL, "test_share": 0.0}, "these are 2 and 0 texts"),
        ({"neutral": NEUTRAL, "order": [ModelPart("query", 0, 1)]}, "query of head 0.1 is none that is replaced"),
        ({"neutral": NEUTRAL, "order": [ModelPart("output", 0, 9)]}, "head 0.9 is none that is replaced"),
        ({"neutral": NEUTRAL, "order": ORDER, "sizes": [6]}, "from 0 to 5"),
    ):
        with pytest.raises(ValueError, match=message):
            circuit_curves(model, own, METRIC, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="and 3 metrics"):
        circuit_curves(model, own, PerText((METRIC,) * 3), neutral=NEUTRAL)
