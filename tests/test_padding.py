"""Padding is no data: whatever the library computes of a padded batch is what it computes of the same batch without."""

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import attnviz
import attnviz.attribution
import attnviz.effects.sweep
from attnviz import Intervention, attribute, capture, capturing, effects, run
from attnviz.analysis.aggregation import rollout
from attnviz.analysis.head_metrics import head_metrics
from attnviz.analysis.mass_kept import mass_kept_by_head
from attnviz.attribution import Activation, LinearizedPass, Logit, LogitDifference
from attnviz.effects import KL, Cosine, Loss, Probability
from attnviz.layer import Fidelity
from attnviz.masks import SlidingWindow
from attnviz.models.texts import Texts, text_groups
from attnviz.tracing.forward_arguments import example_arguments, forward_parameters
from tests.support.architectures import GPT, GROUPED, SMALL, T5, ZOO, Architecture
from tests.support.seeded_models import drawn

IDS, OTHER, TARGET = [5, 9, 11, 7, 30, 9], [8, 3, 12, 4, 21, 6, 2], [0, 4, 33, 6, 50]
CORRUPTED = [5, 9, 21, 7, 30, 18]
PAD, WIDTH = 3, 32
Batch = dict[str, Tensor]


@cache
def model(kind: str) -> Any:
    match kind:
        case "decoder":
            return drawn(hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)))
        case "encoder":
            return drawn(hf.BertForMaskedLM(hf.BertConfig(**SMALL)))
        case "weights alone":
            return drawn(hf.GPTJForCausalLM(hf.GPTJConfig(**GPT | {"rotary_dim": 4})))
        case _:
            return drawn(hf.T5ForConditionalGeneration(hf.T5Config(**T5)))


def padded(ids: list[int], side: str, prefix: str = "") -> Batch:
    """A batch of one text with padding on a side, or none; the mask of a left one says where positions begin."""
    before, after = PAD * (side == "left"), PAD * (side != "left" and side != "none")
    batch = {
        "input_ids": [1] * before + ids + [1] * after,
        "attention_mask": [0] * before + [1] * len(ids) + [0] * after,
    }
    return {prefix + name: torch.tensor([values]) for name, values in batch.items()}


def given(kind: str, side: str, ids: list[int] = IDS) -> Batch:
    """What a model is called with."""
    batch = padded(ids, side)
    if kind == "both":
        return batch | padded(TARGET, side if side == "none" else "right", "decoder_")
    shown = batch["attention_mask"]
    batch["position_ids"] = (shown.cumsum(1) - 1).clamp(min=0)
    if side == "cells":  # the same as a mask of four axes, which is added to scores
        count = shown.shape[1]
        allowed = shown.bool()[:, None, None, :].expand(1, 1, count, count)
        allowed = allowed.tril() if kind == "decoder" else allowed
        batch["attention_mask"] = torch.zeros(1, 1, count, count).masked_fill(~allowed, torch.finfo().min)
    return batch


class Example:
    """A model, and a batch with padding on a side or without."""

    def __init__(self, kind: str, side: str) -> None:
        self.kind, self.side, self.model = kind, side, model(kind)
        self.batch, self.other = given(kind, side), given(kind, side, OTHER)
        self.corrupted = given(kind, side, CORRUPTED)
        first = PAD * (side == "left")
        self.read = [*range(first, first + len(IDS))]
        self.predicting = [*range(len(TARGET))] if kind == "both" else self.read
        self.linearized = LinearizedPass(self.model, example_arguments(self.model, self.batch))


def recorded(example: Example) -> attnviz.Trace:
    with torch.no_grad(), capturing(example.model) as traces:
        example.model(**example.batch)
    return traces[-1]


def of_trace(example: Example, trace: attnviz.Trace) -> Tensor:
    """All that is computed of the attention of a text: metrics of heads, weights and their rollout."""
    own = [layer for layer in trace if layer.kind.value != "cross" and layer.id.stack != "decoder"]
    if example.kind != "both":
        own = list(trace)
    share = rollout(own)[example.read][:, example.read]
    numbers = [torch.from_numpy(values) for values in head_metrics(trace).values.values()]
    numbers += [
        torch.from_numpy(values)
        for values in head_metrics(trace, excluded_keys="first", excluded_queries="first").values.values()
    ]
    kept = mass_kept_by_head(own, SlidingWindow(3))
    return torch.cat([*numbers, share.flatten(), kept.flatten()])


def of_sum(example: Example) -> Tensor:
    numbers = []
    first = example.predicting[1]
    for metric in (Logit(3), LogitDifference(3, 7, -2), LogitDifference(3, "mean", first)):
        found = attribute(example.model, example.batch, metric)
        numbers += [torch.tensor(found.total), found.heads.sum(-1), found.mlps.sum(-1), found.embeddings.sum()]
        if example.kind != "both":  # where positions of both texts are along one axis
            numbers.append(found.heads[..., example.read])
        numbers.append(torch.tensor([each.share for each in found.largest(8)]))
        places = {True: {*example.predicting}, False: {*example.read}}
        assert all(each.position in places[each.stack == "decoder"] for each in found.terms)
        numbers.append(torch.tensor(len(found.terms)))
    return torch.cat([each.flatten().double() for each in numbers])


def metrics(example: Example) -> list[Any]:
    of_text = [Logit(3), KL(-2), LogitDifference(3, 7, example.predicting[2]), Probability(4)]
    return [*of_text, Loss()] if example.kind != "encoder" else of_text


def ablated(function: Callable[..., Tensor], **options: Any) -> Callable[[Example], Tensor]:
    def effect(example: Example) -> Tensor:
        return torch.stack([function(example.model, example.batch, metric, **options) for metric in metrics(example)])

    return effect


def replaced(function: Callable[..., Tensor], **options: Any) -> Callable[[Example], Tensor]:
    def effect(example: Example) -> Tensor:
        texts = {"texts": [example.other]}
        asked = [(metric, {"how": "zero"}) for metric in metrics(example)]
        asked += [(metrics(example)[-1], {"how": how} | texts) for how in ("mean", "resample")]
        return torch.stack([function(example.model, example.batch, metric, **how, **options) for metric, how in asked])

    return effect


def hidden(example: Example) -> Tensor:
    found = effects.knockout(example.model, example.batch, Logit(3))
    assert found.isnan().sum() == len(found) - len(example.read)
    return found[example.read]


def compensated(example: Example) -> Tensor:
    [found] = effects.compensations(example.model, example.batch, Logit(3), [(0, 1)], how="mean", texts=[example.other])
    return torch.cat([torch.tensor([found.effect, found.of_others]), found.after.heads.flatten(), found.after.mlps])


def lens(example: Example) -> Tensor:
    logits = effects.logit_lens(example.model, example.batch)
    assert logits.isnan().any(-1).any(0).sum() == logits.shape[1] - len(example.predicting)
    return logits[:, example.predicting]


def predicted(example: Example) -> Tensor:
    found = effects.layer_predictions(example.model, example.batch, 3)
    parts = [found.tokens, found.probabilities, found.entropy[..., None], found.logit[..., None], found.rank[..., None]]
    assert (found.tokens == -1).any(-1).any(0).sum() == found.tokens.shape[1] - len(example.predicting)
    return torch.cat([part.double() for part in parts], -1)[:, example.predicting]


def patched(example: Example) -> Tensor:
    numbers = []
    aligned = effects.alignment(example.batch, example.corrupted)
    for what, positions, pairs in (
        ("output", False, None),
        ("key", True, aligned),
        ("query", True, None),
        ("pattern", False, None),
        ("mlp", False, None),
        ("residual", False, aligned),
    ):
        for metric in (
            (Logit(3, example.predicting[-2]), Loss())
            if example.kind == "decoder"
            else (Logit(3, example.predicting[-2]),)
        ):
            found = effects.patch(
                example.model,
                example.batch,
                example.corrupted,
                metric,
                what,
                positions=positions,
                aligned=pairs,
            )  # type: ignore[arg-type]
            values = found.values
            if values.ndim == 3 or what in ("mlp", "residual"):
                assert bool(
                    values[..., [i for i in range(values.shape[-1]) if i not in {*example.read, *example.predicting}]]
                    .isnan()
                    .all()
                )
                values = values.nan_to_num(0).sum(-1)
            numbers += [values.flatten(), torch.tensor([found.clean, found.corrupted])]
    return torch.cat(numbers)


def parts_of(example: Example) -> list[effects.ModelPart]:
    places = (example.predicting[-2], example.predicting[-1])
    last = len(effects.sweep.Text.from_batch(example.model, example.batch).heads) - 1
    return [
        effects.ModelPart("output", last, 1),
        effects.ModelPart("output", last, 1, places),
        effects.ModelPart("value", 0, 2),
        effects.ModelPart("key", 0, 2, (example.read[1],)),
        effects.ModelPart("mlp", 1),
        effects.ModelPart("mlp", 0, positions=(-1, example.read[0])),
        effects.ModelPart("neuron", 1, 3),
        effects.ModelPart("residual", 1),
    ]


def changed(example: Example) -> Tensor:
    numbers = [
        effects.part_effects(example.model, example.batch, Logit(3), parts_of(example), how=how, texts=[example.other])
        for how in ("mean", "zero", "resample")
    ]
    vectors = torch.linspace(-1, 1, WIDTH)
    steered = [effects.ModelPart("residual", 1), effects.ModelPart("mlp", 0, positions=(-1,))]
    return torch.cat(
        [*numbers, effects.part_effects(example.model, example.batch, KL(), steered, how="add", vectors=vectors)]
    )


def intervened(example: Example) -> Tensor:
    changes = [
        effects.part_intervention(example.model, example.batch, parts_of(example), how=how, texts=[example.other])
        for how in ("mean", "resample")
    ]
    return torch.cat([run(example.model, example.batch, one).logits[:, example.predicting] for one in changes])


def estimated(example: Example) -> Tensor:
    parts = [part for part in parts_of(example) if part.kind not in ("key", "value")]
    return effects.part_estimates(example.model, example.batch, Logit(3), parts, texts=[example.other])


def patched_parts(example: Example) -> Tensor:
    return effects.patch_parts(
        example.model, example.batch, example.corrupted, Logit(3), [*parts_of(example), parts_of(example)]
    ).values


def in_circuits(example: Example) -> Tensor:
    order = [
        effects.ModelPart("mlp", 0),
        effects.ModelPart("output", 0, 1),
        effects.ModelPart("mlp", 1, positions=(-1,)),
    ]
    options: dict[str, Any] = {"neutral": [example.other], "random_sets": 1, "test_share": 1.0}
    found = effects.circuit_curves(example.model, [example.batch], Logit(3), order, **options)
    measured = effects.circuit_curves(
        example.model, [example.corrupted, example.batch], Logit(3), neutral=[example.other]
    )
    return torch.cat([found.circuit, found.without, found.random[:, 0], measured.circuit], -1)


def of_neurons(example: Example) -> Tensor:
    found = effects.neuron_examples(example.model, [example.batch, example.other], [(0, 1), (1, 5)], count=1)
    places = [
        [*example.read].index(int(position)) if text == 0 else -1
        for text, position in zip(found.texts, found.positions, strict=True)
    ]
    return torch.cat([found.activations.flatten().double(), torch.tensor(places).double()])


def by_paths(example: Example) -> Tensor:
    return effects.patch_paths(example.model, example.batch, example.corrupted, Logit(3), (1, 2), "key").values


def written(example: Example) -> Tensor:
    numbers = []
    for writer in (example.model, model("weights alone")):
        *_, step = attnviz.writing(writer, None, padded(IDS, example.side), 3)
        numbers += [torch.tensor([(each.token_id, each.probability) for each in step.alternatives]).flatten()]
        numbers += map(torch.from_numpy, head_metrics(step.trace).values.values())
    return torch.cat(numbers)


def asked(example: Example) -> Tensor:
    viewer = attnviz.why(example.model, example.batch)
    match = re.search(r"“#(\d+)” rather than “#(\d+)” (?:after|at) “(\d+)”", repr(viewer))
    assert match is not None
    assert match[3] == str(example.predicting[-1])
    return torch.tensor([viewer.quantities["total"], int(match[1]), int(match[2])])


def normed(example: Example) -> Tensor:
    place = example.read[-1]
    return effects.value_norms(example.linearized, {0: place})[0][:, example.read]


CASES: dict[str, Callable[[Example], Tensor]] = {
    "ablations": replaced(effects.ablations),
    "alignment": lambda example: torch.tensor(
        [(example.read.index(a), example.read.index(b)) for a, b in effects.alignment(example.batch, example.corrupted)]
    ),
    "attribute": of_sum,
    "capture": lambda example: of_trace(example, capture(example.model, example.batch)),
    "capturing": lambda example: of_trace(example, recorded(example)),
    "circuit_curves": in_circuits,
    "compensations": compensated,
    "estimates": ablated(effects.estimates),
    "group_effects": replaced(effects.group_effects, groups=[[(0, 1), (1, 2)], [(1, 0)]]),
    "knockout": hidden,
    "layer_predictions": predicted,
    "logit_lens": lens,
    "mlp_ablations": ablated(effects.mlp_ablations),
    "neuron_examples": of_neurons,
    "part_effects": changed,
    "part_estimates": estimated,
    "part_intervention": intervened,
    "patch": patched,
    "patch_parts": patched_parts,
    "patch_paths": by_paths,
    "run": lambda example: run(example.model, example.batch, Intervention(ablated=((0, 1),))).logits[
        :, example.predicting
    ],
    "value_norms": normed,
    "why": asked,
    "writing": written,
}
# Functions that take no text, or only weights: head_circuits takes a batch of one token.
OF_NO_TEXT = {
    *("attribution_of", "circuit", "downsample", "head_circuits", "in_float32", "most_tokens", "show", "to_html"),
    *("hide_region", "load", "neutral_texts", "save", "view", "viewer"),
    "atlas",  # which reads texts as strings, each beside others of its length
}


def test_every_function_that_reads_a_text_has_a_case() -> None:
    public = {
        name
        for package in (attnviz, attnviz.effects, attnviz.attribution)
        for name in package.__all__
        if inspect.isfunction(getattr(package, name))
    }
    assert public - OF_NO_TEXT == {*CASES}


# What each model takes; padding for "writing" is on the left of a decoder.
SIDES = {"decoder": ("right", "left", "cells"), "encoder": ("right", "left", "cells"), "both": ("right", "left")}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in CASES for kind in SIDES if name != "writing" or kind == "decoder"]
)
def test_padding_changes_nothing(name: str, kind: str) -> None:
    plain = CASES[name](Example(kind, "none")).double()
    for side in ("left",) if name == "writing" else SIDES[kind]:
        found = CASES[name](Example(kind, side)).double()
        torch.testing.assert_close(
            found,
            plain,
            atol=1e-4,
            rtol=1e-4,
            equal_nan=True,
            msg=lambda said, side=side: f"{side}: {said}",
        )


# Of two texts with the same padding, which are read in one batch.
OF_GROUPS: tuple[Callable[[Any, Any, Example], Any], ...] = (
    lambda reader, batch, example: effects.ablations(reader, batch, Logit(3)),
    lambda reader, batch, example: effects.ablations(reader, batch, KL(), how="resample", texts=[example.other]),
    lambda reader, batch, example: effects.estimates(reader, batch, Logit(3), texts=[example.other]),
    lambda reader, batch, example: effects.mlp_ablations(reader, batch, Logit(3)),
    lambda reader, batch, example: effects.knockout(reader, batch, Logit(3)),
    lambda reader, batch, example: effects.part_effects(
        reader, batch, Logit(3), [effects.ModelPart("mlp", 0, positions=(-1,)), effects.ModelPart("value", 0, 2)]
    ),
)


@pytest.mark.parametrize("kind", SIDES)
def test_padding_changes_nothing_of_texts_in_one_batch(kind: str) -> None:
    plain = Example(kind, "none")
    for side in SIDES[kind]:
        example = Example(kind, side)
        group = Texts(None, [example.batch, example.corrupted])
        assert len([*text_groups(group)]) == (2 if side == "cells" else 1)  # which is a number for each cell
        for measure in OF_GROUPS:
            for found, alone in zip(
                measure(example.model, group, example), (plain.batch, plain.corrupted), strict=True
            ):
                expected = measure(plain.model, alone, plain)
                torch.testing.assert_close(found[~found.isnan()], expected[~expected.isnan()], atol=1e-4, rtol=1e-4)
        corrupted = Texts(None, [example.corrupted, example.batch])
        pairs = (plain.batch, plain.corrupted), (plain.corrupted, plain.batch)
        for one, pair in zip(effects.patch(example.model, group, corrupted, Logit(3), "value"), pairs, strict=True):
            own = effects.patch(plain.model, *pair, Logit(3), "value")
            torch.testing.assert_close(one.values, own.values, atol=1e-4, rtol=1e-4)


# Models that compute otherwise beside padding: they count it among the keys that they choose, or in their chunks.
OTHERWISE = {"Llama 4", "Doge", "DeepSeek-V3.2"}
OF_TEXTS = [one for one in ZOO if {*one.given()} & {"attention_mask"} and "pixel_values" not in one.given()]


@pytest.mark.parametrize("architecture", OF_TEXTS, ids=lambda one: one.name)
def test_padding_of_any_architecture(architecture: Architecture) -> None:
    reader, given = architecture.model(), {name: value[1:] for name, value in architecture.given().items()}
    read = given["attention_mask"][0].bool()
    if "position_ids" in forward_parameters(reader):
        given["position_ids"] = (given["attention_mask"].cumsum(1) - 1).clamp(min=0)
    of_text = ("input_ids", "attention_mask", "position_ids")
    plain = {name: value[:, read] if name in of_text else value for name, value in given.items()}
    with torch.no_grad():
        own, padded_states = (reader(**batch).last_hidden_state[0] for batch in (plain, given))
    padded_states = padded_states[read] if "decoder_input_ids" not in given else padded_states
    is_same = torch.allclose(own, padded_states, atol=1e-4, rtol=1e-4)
    assert is_same != (architecture.name in OTHERWISE)
    if is_same:
        direction = torch.linspace(-1, 1, own.shape[1])

        def numbers(batch: Batch) -> Tensor:
            trace = capture(reader, batch)
            of_heads = [torch.from_numpy(values) for values in head_metrics(trace).values.values()]
            state = attribute(reader, batch | {"output_hidden_states": True}, Activation(1, -1, direction))
            hidden = effects.knockout(reader, batch, Cosine())
            how: effects.ablation.AblationKind = "zero" if architecture.fidelity is Fidelity.WEIGHTS_ONLY else "mean"
            ablated = effects.ablations(reader, batch, Cosine(), how=how)
            return torch.cat([*of_heads, torch.tensor([state.total]), hidden[~hidden.isnan()], ablated.flatten()])

        torch.testing.assert_close(numbers(given), numbers(plain), atol=1e-4, rtol=1e-4, equal_nan=True)
