"""Parts of a run that are replaced or added to, and estimates of that: against hooks written by hand."""

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor

from attnviz import Intervention, PerText, Texts, capture, run, writing
from attnviz.effects import (
    LogitDifference,
    ModelPart,
    ablations,
    estimates,
    mlp_ablations,
    part_effects,
    part_estimates,
    part_intervention,
    patch,
    patch_parts,
)
from attnviz.masks import SlidingWindow
from tests.support.output_projections import (
    CLEAN,
    CORRUPTED,
    HEADS,
    TINY,
    by_head,
    calls,
    changed_input,
    changed_output,
    mlps,
    named,
    outputs,
    projections,
    readers,
    tiny,
)

METRIC = LogitDifference(5, 7)
SHORT = torch.tensor([[13, 44, 6, 21]])
DECODERS = ["GPT-2", "Llama", "Pythia", "Gemma 2"]
BLOCKS = {"GPT-2": r"h\.\d", "Llama": r"layers\.\d", "Pythia": r"layers\.\d", "Gemma 2": r"layers\.\d"}
UNITS = {"GPT-2": r"mlp\.c_proj", "Llama": "down_proj", "Pythia": "dense_4h_to_h", "Gemma 2": "down_proj"}
Hooks = list[tuple[Any, Any]]  # contexts that are entered
SIZE = {"mlp": 32, "residual": 32, "embedding": 32, "neuron": 1, "output": 8}


@torch.no_grad()
def measured(name: str, *changes: Any, ids: Tensor = CLEAN) -> float:
    with ExitStack() as hooks:
        for change in changes:
            hooks.enter_context(change)
        logits = tiny(name)(ids).logits[0, -1].double()
    return float(logits[5] - logits[7])


def own(name: str, part: ModelPart, ids: Tensor) -> Tensor:
    """What a part is in a text, (positions, width)."""
    batch = {"input_ids": ids}
    match part.kind:
        case "output":
            return outputs(name, batch)[part.layer][0, :, part.index]
        case "mlp":
            return calls(name, batch, mlps(name))[part.layer][1][0]
        case "neuron":
            return calls(name, batch, named(tiny(name), UNITS[name]))[part.layer][0][0][:, part.index, None]
    return calls(name, batch, named(tiny(name), BLOCKS[name]))[part.layer][0][0]


def set_part(name: str, part: ModelPart, value: Tensor | float, at: Any = slice(None)) -> Any:
    """A context in which a part is something else at some positions."""

    def change(states: Tensor) -> None:
        slots = by_head(states)[..., part.index, :] if part.kind == "output" else states
        slots = states[..., part.index, None] if part.kind == "neuron" else slots
        slots[:, at] = value

    match part.kind:
        case "output":
            return changed_input(projections(name)[part.layer], change)
        case "mlp":
            return changed_output(mlps(name)[part.layer], change)
        case "neuron":
            return changed_input(named(tiny(name), UNITS[name])[part.layer], change)
    return changed_input(named(tiny(name), BLOCKS[name])[part.layer], change)


def add_to_part(name: str, part: ModelPart, vector: Tensor) -> Any:
    """A context in which a vector is added to what an MLP writes, or to the residual stream, at all positions."""
    if part.kind == "mlp":
        return changed_output(mlps(name)[part.layer], lambda states: states.add_(vector))
    return changed_input(named(tiny(name), BLOCKS[name])[part.layer], lambda states: states.add_(vector))


PARTS = [
    ModelPart("embedding"),
    ModelPart("output", 1, 2),
    ModelPart("mlp", 0),
    ModelPart("neuron", 1, 11),
    ModelPart("residual", 1),
]
TEXTS = [CORRUPTED, SHORT]


@pytest.mark.parametrize("name", DECODERS)
def test_parts_have_zeros_or_means_over_texts_instead(name: str) -> None:
    before = measured(name)
    means = [torch.cat([own(name, part, ids) for ids in TEXTS]).mean(0) for part in PARTS]
    for how, values in (("zero", [0.0] * len(PARTS)), ("mean", means)):
        texts: Any = None if how == "zero" else [{"input_ids": ids} for ids in TEXTS]
        expected = [measured(name, set_part(name, *each)) - before for each in zip(PARTS, values, strict=True)]
        found = part_effects(tiny(name), CLEAN, METRIC, PARTS, how=how, texts=texts)  # type: ignore[arg-type]
        torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-4, rtol=1e-4)
        assert float(found.abs().min()) > 1e-5


@pytest.mark.parametrize("name", DECODERS)
def test_parts_at_positions_have_what_they_are_in_another_text(name: str) -> None:
    places, before = [2, 5], measured(name)
    parts = [ModelPart(part.kind, part.layer, part.index, (2, -2)) for part in PARTS]
    expected = [
        measured(name, set_part(name, part, own(name, part, CORRUPTED)[places], places)) - before for part in parts
    ]
    found = part_effects(tiny(name), CLEAN, METRIC, parts, how="resample", texts=[{"input_ids": CORRUPTED}])
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-4, rtol=1e-4)
    patched = patch_parts(tiny(name), CORRUPTED, CLEAN, METRIC, parts)
    torch.testing.assert_close(patched.values, found + before, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", DECODERS)
def test_a_vector_is_added_at_positions(name: str) -> None:
    generator, before = torch.Generator().manual_seed(0), measured(name)
    vectors = [torch.randn(SIZE[part.kind], generator=generator) for part in PARTS]
    for places in (None, (1, 4)):
        at = slice(None) if places is None else [*places]
        parts = [ModelPart(part.kind, part.layer, part.index, places) for part in PARTS]
        expected = [
            measured(name, set_part(name, part, own(name, part, CLEAN)[at] + vector, at)) - before
            for part, vector in zip(parts, vectors, strict=True)
        ]
        found = part_effects(tiny(name), CLEAN, METRIC, parts, how="add", vectors=vectors)
        torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["Llama", "Gemma 2"])
def test_a_vector_is_added_to_what_a_head_reads(name: str) -> None:
    """The value, which has no rotary position; heads that share it read their own."""
    vector, before, module = torch.linspace(-1, 1, 8), measured(name), readers(name, "value")[1]
    written = outputs(name, {"input_ids": CLEAN})[1]
    kv_heads = calls(name, {"input_ids": CLEAN}, [module])[0][1].shape[-1] // 8
    place = 3 * kv_heads // HEADS

    def hold(states: Tensor) -> None:
        by_head(states)[:, :, :3] = written[:, :, :3]

    def steer(states: Tensor) -> None:
        states[:, 2, 8 * place : 8 * place + 8] += vector

    expected = measured(name, changed_output(module, steer), changed_input(projections(name)[1], hold)) - before
    [found] = part_effects(tiny(name), CLEAN, METRIC, [ModelPart("value", 1, 3, (2,))], how="add", vectors=vector)
    assert float(found) == pytest.approx(expected, abs=1e-4)
    assert abs(expected) > 1e-4


@torch.no_grad()
def test_parts_of_a_collection_are_replaced_at_once() -> None:
    name, groups = (
        "GPT-2",
        [[PARTS[1], PARTS[2]], [], [PARTS[3], ModelPart("output", 1, 2, (0,)), ModelPart("mlp", 0, 0, (4,))]],
    )
    found = part_effects(tiny(name), CLEAN, METRIC, groups, how="zero")
    changes = [[(part, part.positions or slice(None)) for part in group] for group in groups]
    expected = [
        measured(name, *(set_part(name, part, 0.0, at if isinstance(at, slice) else [*at]) for part, at in each))
        for each in changes
    ]
    torch.testing.assert_close(found + measured(name), torch.tensor(expected).double(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["Llama", "T5", "BERT"])
def test_effects_of_all_heads_and_mlps_are_those_of_ablations(name: str) -> None:
    model, batch, texts = tiny(name), TINY[name].batch(), [TINY[name].batch(CORRUPTED)]
    heads = [ModelPart("output", layer, head) for layer in range(len(projections(name))) for head in range(HEADS)]
    of_mlps = [ModelPart("mlp", number) for number in range(len(mlps(name)))]
    for how in ("mean", "resample", "zero"):
        found = part_effects(model, batch, METRIC, [*heads, *of_mlps], how=how, texts=texts)  # type: ignore[arg-type]
        single = ablations(model, batch, METRIC, how=how, texts=texts).flatten()  # type: ignore[arg-type]
        single = torch.cat([single, mlp_ablations(model, batch, METRIC, how=how, texts=texts)])  # type: ignore[arg-type]
        torch.testing.assert_close(found, single, atol=1e-5, rtol=1e-4)
    guessed = part_estimates(model, batch, METRIC, heads, texts=texts)
    torch.testing.assert_close(guessed, estimates(model, batch, METRIC, texts=texts).flatten())


@pytest.mark.parametrize("name", DECODERS)
def test_an_estimate_is_the_slope_of_the_metric(name: str) -> None:
    """The metric as a function of how far parts have moved from their own numbers to those of another text."""
    parts = [*PARTS, *(ModelPart(part.kind, part.layer, part.index, (5, -1)) for part in PARTS)]
    expected = []
    for part in parts:
        at = [*range(7)] if part.positions is None else [5, 6]
        here, there = own(name, part, CLEAN)[at], own(name, part, CORRUPTED)[at]
        moved = torch.zeros(1, requires_grad=True)
        with set_part(name, part, here + moved * (there - here), at):
            logits = tiny(name)(CLEAN).logits[0, -1].double()
        [slope] = torch.autograd.grad(logits[5] - logits[7], moved)
        expected.append(float(slope))
    found = part_estimates(tiny(name), CLEAN, METRIC, parts, how="resample", texts=[{"input_ids": CORRUPTED}])
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-4, rtol=1e-4)
    assert float(found.abs().min()) > 1e-6


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2"])
@pytest.mark.parametrize("what", ["query", "key", "value"])
def test_an_estimate_of_what_heads_read_is_the_slope_of_the_metric(name: str, what: Any) -> None:
    """As far as the projection moves to that of another text: a rotation of both is linear, and heads that share a key
    or a value move it together."""
    layer, start = 1, ("query", "key", "value").index(what) * 32
    reader = named(tiny(name), r"attn\.c_attn")[layer] if name == "GPT-2" else readers(name, what)[layer]
    here, there = (calls(name, {"input_ids": ids}, [reader])[0][1] for ids in (CLEAN, CORRUPTED))
    slots = 4 if name == "GPT-2" else here.shape[-1] // 8
    for slot in range(slots):
        columns = slice(8 * slot, 8 * slot + 8) if name != "GPT-2" else slice(start + 8 * slot, start + 8 * slot + 8)
        moved = torch.zeros(1, requires_grad=True)
        direction = torch.zeros_like(here)
        direction[..., columns] = (there - here)[..., columns]
        with changed_output(reader, lambda states, direction=direction, moved=moved: states.add_(moved * direction)):
            logits = tiny(name)(CLEAN).logits[0, -1].double()
        [slope] = torch.autograd.grad(logits[5] - logits[7], moved)
        heads = range(slot * HEADS // slots, (slot + 1) * HEADS // slots)
        parts = [ModelPart(what, layer, head) for head in heads]
        found = part_estimates(tiny(name), CLEAN, METRIC, parts, how="resample", texts=[CORRUPTED])
        torch.testing.assert_close(float(found.sum()), float(slope), atol=1e-5, rtol=1e-3)
        assert float(found.abs().min()) > 1e-7


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_an_estimate_of_a_pattern_is_that_of_what_it_writes(name: str) -> None:
    """What a head writes is linear in its pattern."""
    patterns, values = [], []
    for ids in (CLEAN, CORRUPTED):
        layer = capture(tiny(name), ids)[1]
        patterns.append(layer.maps()[2].nan_to_num(0.0))  # NaN where it is masked
        values.append(layer.inputs.vectors.value)
    value = values[0][2 // (4 // len(values[0]))]
    part = ModelPart("output", 1, 2)
    added = (patterns[1] - patterns[0]) @ value
    output = own(name, part, CLEAN)
    moved = torch.zeros(1, requires_grad=True)
    with set_part(name, part, output + moved * added):
        logits = tiny(name)(CLEAN).logits[0, -1].double()
    [slope] = torch.autograd.grad(logits[5] - logits[7], moved)
    pattern = [ModelPart("pattern", 1, 2)]
    found = part_estimates(tiny(name), CLEAN, METRIC, pattern, how="resample", texts=[CORRUPTED])
    torch.testing.assert_close(float(found), float(slope), atol=1e-5, rtol=1e-3)


def test_estimates_of_an_added_vector_are_its_product_with_the_gradient() -> None:
    model, part, vector = tiny("GPT-2"), ModelPart("residual", 1, positions=(3,)), torch.linspace(-1, 1, 32)
    step = part_effects(model, CLEAN, METRIC, [part], how="add", vectors=1e-3 * vector)
    slope = part_estimates(model, CLEAN, METRIC, [part], how="add", vectors=vector)
    torch.testing.assert_close(step / 1e-3, slope, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("what", ["output", "query", "key", "value", "pattern", "mlp", "residual"])
def test_patched_parts_are_those_of_patch(what: Any) -> None:
    found = patch(tiny("Llama"), CLEAN, CORRUPTED, METRIC, what, positions=True)
    of_module = what in ("mlp", "residual")
    places = found.values.isfinite().nonzero().tolist()
    parts = [ModelPart(what, place[0], 0 if of_module else place[1], (place[-1],)) for place in places]
    patched = patch_parts(tiny("Llama"), CLEAN, CORRUPTED, METRIC, parts)
    torch.testing.assert_close(patched.values, found.values.flatten(), atol=1e-5, rtol=0)
    assert [*patched.columns()["layer"]] == [place[0] for place in places]


def test_query_and_pattern_of_one_head_are_changed_at_once() -> None:
    """The pattern is computed of the query, so that the pattern of the clean run is what counts."""
    query, pattern = ModelPart("query", 1, 2), ModelPart("pattern", 1, 2)
    one, both = patch_parts(tiny("Llama"), CLEAN, CORRUPTED, METRIC, [pattern, [query, pattern]]).values
    value, every = patch_parts(
        tiny("Llama"), CLEAN, CORRUPTED, METRIC, [ModelPart("output", 1, 2), [ModelPart("value", 1, 2), pattern]]
    ).values
    assert float(both) == pytest.approx(float(one), abs=1e-6)
    assert float(every) == pytest.approx(float(value), abs=1e-4)
    assert abs(float(value - one)) > 1e-3


def test_parts_of_many_texts_and_of_a_model_in_half_precision() -> None:
    texts = Texts(None, [CLEAN, CORRUPTED])
    found = part_effects(tiny("GPT-2"), texts, METRIC, PARTS, how="mean", texts=[SHORT])
    assert found.values.shape == (2, len(PARTS))  # type: ignore[attr-defined]
    torch.testing.assert_close(
        found.values[1],  # type: ignore[attr-defined]
        part_effects(tiny("GPT-2"), CORRUPTED, METRIC, PARTS, how="mean", texts=[SHORT]),
    )
    half = TINY["Llama"].make().half().eval()
    for what in ("mlp", "residual"):
        assert patch(half, CLEAN, CORRUPTED, METRIC, what).values.isfinite().all()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("how", ["zero", "mean", "add", "resample"])
def test_text_is_written_with_changed_parts(name: str, how: Any) -> None:
    """Each step is the forward pass over all tokens so far that hooks written by hand change."""
    parts, vector = [PARTS[1], PARTS[2], PARTS[4]], torch.full((32,), 0.5)
    texts: Any = {"mean": [{"input_ids": ids} for ids in TEXTS], "resample": [{"input_ids": CORRUPTED}]}.get(how)
    if how == "add":
        parts = parts[1:]
    vectors = vector if how == "add" else None
    at_places = [ModelPart("mlp", 1, positions=(2, -1))] if how in ("zero", "resample") else []
    changed = part_intervention(tiny(name), CLEAN, [*parts, *at_places], how=how, texts=texts, vectors=vectors)
    means = {part: torch.cat([own(name, part, ids) for ids in TEXTS]).mean(0) for part in parts}
    others = {part: own(name, part, CORRUPTED) for part in (*parts, *at_places)}

    def by_hand(part: ModelPart, length: int) -> Any:
        at = [2, 6] if part.positions else [*range(length)]
        match how:
            case "zero":
                return set_part(name, part, 0.0, at)
            case "mean":
                return set_part(name, part, means[part])
            case "resample":
                at = [place for place in at if place < 7]  # what is resampled ends with the prompt
                return set_part(name, part, others[part][at], at)
        return add_to_part(name, part, vector)

    steps = [*writing(tiny(name), None, CLEAN, 4, alternatives=20, interventions=[changed])]
    for position, step in enumerate(steps):
        ids = torch.cat([CLEAN, torch.tensor([[one.token_id for one in steps[:position]]], dtype=torch.long)], 1)
        with ExitStack() as hooks, torch.no_grad():
            for part in (*parts, *at_places):
                hooks.enter_context(by_hand(part, ids.shape[1]))
            logits = tiny(name)(ids).logits[0, -1]
        expected = logits.softmax(-1)[[one.token_id for one in step.alternatives]]
        found = torch.tensor([one.probability for one in step.alternatives])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-3)
        assert not step.trace.missing
        if not position:
            whole = run(tiny(name), {"input_ids": CLEAN.repeat(2, 1)}, changed).logits[:, -1]
            torch.testing.assert_close(whole, logits.expand(2, -1), atol=1e-4, rtol=1e-3)
    assert tiny(name)(CLEAN).logits[0, -1].softmax(-1).max() != steps[0].alternatives[0].probability


def test_texts_of_each_text_are_those_that_it_is_resampled_from() -> None:
    model, several = tiny("GPT-2"), Texts(None, [CLEAN, CORRUPTED])
    others = [[CORRUPTED], [CLEAN, CORRUPTED]]
    for measure in (part_effects, part_estimates):
        found = measure(model, several, METRIC, PARTS, how="resample", texts=PerText(tuple(others)))
        for text, texts, own in zip(several, others, found, strict=True):
            torch.testing.assert_close(own, measure(model, text, METRIC, PARTS, how="resample", texts=texts))


@pytest.mark.parametrize("name", ["T5", "BART"])
def test_mlps_of_an_encoder_and_of_its_decoder_are_changed_while_it_writes(name: str) -> None:
    model: Any = tiny(name)
    start: Any = torch.tensor([[model.config.decoder_start_token_id]])
    parts = [ModelPart("mlp", 0), ModelPart("mlp", len(mlps(name)) - 1)]
    batch = {"input_ids": CLEAN, "decoder_input_ids": start}
    changed = part_intervention(model, batch, parts, how="zero")
    steps = [*writing(model, None, CLEAN, 3, alternatives=20, interventions=changed)]
    plain = next(writing(model, None, CLEAN, 3, alternatives=20))
    for position, step in enumerate(steps):
        ids = torch.cat([start, torch.tensor([[one.token_id for one in steps[:position]]], dtype=torch.long)], 1)
        with ExitStack() as hooks, torch.no_grad():
            for mlp in (0, -1):
                hooks.enter_context(changed_output(mlps(name)[mlp], Tensor.zero_))
            logits = model(input_ids=CLEAN, decoder_input_ids=ids).logits[0, -1]
        finite = {one.token_id: one.probability for one in step.alternatives if one.probability > 1e-6}
        ratio = torch.tensor([*finite.values()]).log() - logits[[*finite]]
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), atol=1e-3, rtol=0)
    assert abs(steps[0].probability - plain.probability) > 1e-3


def test_what_is_not_changed_in_written_text_is_refused() -> None:
    model = tiny("Llama")
    query = part_intervention(model, CLEAN, [ModelPart("query", 0, 1)], how="zero")
    with pytest.raises(ValueError, match="What a head reads is not changed while a text is written"):
        next(writing(model, None, CLEAN, 2, interventions=query))
    changed = run(model, CLEAN, query).logits[0, -1].double()
    found = part_effects(model, CLEAN, METRIC, [ModelPart("query", 0, 1)], how="zero")
    torch.testing.assert_close(changed[5] - changed[7] - measured("Llama"), found[0], atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="and not both"):
        run(model, CLEAN, [query, Intervention(mask=SlidingWindow(2))])
    with pytest.raises(ValueError, match="resampled from one text"):
        part_intervention(model, CLEAN, [ModelPart("mlp", 0)], how="resample", texts=[CORRUPTED, CORRUPTED])


def test_what_is_no_part_is_refused() -> None:
    model = tiny("GPT-2")
    for part, message in (
        (ModelPart("output", 1, 4), "no head 4"),
        (ModelPart("mlp", 2), "no MLP 2"),
        (ModelPart("neuron", 0, 999), "no neuron 999"),
        (ModelPart("residual", 7), "no layer 7"),
        (ModelPart("mlp", 0, positions=(9,)), "no position 9"),
    ):
        with pytest.raises(ValueError, match=message):
            part_effects(model, CLEAN, METRIC, [part], how="zero")
    with pytest.raises(ValueError, match="A part is one of “output”"):
        ModelPart("weights")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no mean"):
        part_effects(model, CLEAN, METRIC, [ModelPart("pattern", 0, 1)])
    with pytest.raises(ValueError, match="of the same number of tokens"):
        part_effects(model, CLEAN, METRIC, [ModelPart("pattern", 0, 1)], how="resample", texts=[SHORT])
    with pytest.raises(ValueError, match="Give vectors"):
        part_effects(model, CLEAN, METRIC, PARTS, how="add")
    with pytest.raises(ValueError, match="A vector of 8 numbers is expected here, and this one has 3"):
        part_effects(model, CLEAN, METRIC, [ModelPart("output", 0, 0)], how="add", vectors=torch.ones(3))
    with pytest.raises(ValueError, match="several maps of hidden units"):
        part_effects(tiny("Mixtral"), CLEAN, METRIC, [ModelPart("neuron", 0, 1)], how="zero")
