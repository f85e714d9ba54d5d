"""Index tensors follow the tensors that they index: everything computes on another device than the CPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn
from torch.nn import functional

import attnviz
from attnviz import Inputs, Mechanism, figures
from attnviz.analysis import aggregation, difference, downsampling, head_maps, head_metrics, receptive_field
from attnviz.attribution import LogitDifference, Score, attribute
from attnviz.biases import BIASES, Distances, rotated
from attnviz.effects import ablations, estimates, knockout, logit_lens, patch
from attnviz.layer import Fidelity, Kind, Layer, LayerId
from attnviz.masks import Causal, Padding
from attnviz.masks.catalogue import MASKS
from attnviz.masks.empty_rows import masked_softmax
from attnviz.models.generation import writing
from attnviz.normalizers import NORMALIZERS, Sink
from attnviz.scores import SCORES
from attnviz.trace.opaque_parts import CellTable, ModelBias, ModelMask
from attnviz.tracing import capture, capturing
from tests.support.architectures import SLIDING
from tests.support.other_device import DEVICE, OtherTensor, other_device

HEADS, N, WIDTH = 2, 12, 8
INPUTS = Inputs(
    *torch.randn(3, HEADS, N, WIDTH, generator=torch.Generator().manual_seed(0)), *[tuple("abcdefghijkl")] * 2
)
CELLS = CellTable(torch.rand(1, HEADS, N, N) < 0.7, N, N)
PARTS = [
    *({"mask": kind()} for kind in MASKS),
    *({"mask": mask} for mask in (Padding((True,) * 9 + (False,) * 3), Causal("bottom right"), ModelMask(CELLS))),
    *({"biases": (kind(),)} for kind in BIASES),
    *(
        {"biases": (bias,)}
        for bias in (
            Distances(torch.randn(HEADS, 2 * N - 1, generator=torch.Generator().manual_seed(4)), N),
            ModelBias(CELLS),
        )
    ),
    *({"normalizer": kind()} for kind in NORMALIZERS),
    {"normalizer": Sink(torch.tensor([0.5, 1.0]))},
    *({"score": kind()} for kind in SCORES),
]


def part_name(part):
    """The name of its type: what it holds is written in another way in each process."""
    return type(part[0] if isinstance(part, tuple) else part).__name__


def moved(inputs):
    """The same inputs on the other device; to be called inside it."""
    return replace(inputs, **{name: getattr(inputs, name).to(DEVICE) for name in ("query", "key", "value")})


def same(found, expected):
    assert isinstance(found, OtherTensor)
    torch.testing.assert_close(found.inner, expected, equal_nan=True)


def test_the_other_device_refuses_what_a_gpu_refuses():
    with other_device() as device:
        one, index = torch.arange(3.0).to(device), torch.arange(3, device=device)
        assert (one + 1).device == one[torch.tensor([0])].device == device
        same(one[index] * torch.tensor(2), torch.tensor([0.0, 2.0, 4.0]))
        for mistake in (lambda: one + torch.arange(3), lambda: torch.arange(3)[index], lambda: torch.ones(2, 3) @ one):
            with pytest.raises(RuntimeError, match="on the same device"):
                mistake()
        with pytest.raises(TypeError, match=r"Tensor\.cpu"):
            one.numpy()
        assert one.cpu().numpy().tolist() == one.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: part_name(next(iter(parts.values()))))
def test_every_stage_of_a_mechanism(parts):
    mechanism = Mechanism(**parts)
    expected = mechanism(INPUTS), mechanism(INPUTS, heads=[1], rows=[2, 5])
    with other_device():
        inputs = moved(INPUTS)
        found = mechanism(inputs), mechanism(inputs, heads=[1], rows=[2, 5])
        for one, other in zip(found, expected, strict=True):
            for stage in ("raw", "scores", "allowed", "weights", "output", "maps"):
                same(getattr(one, stage), getattr(other, stage))


def layer(inputs):
    return Layer(LayerId("encoder", 0), Kind.SELF, inputs, Mechanism(mask=Causal()))


def analyses(inputs):
    one, mechanism = replace(inputs, special_keys=(0, 11), special_queries=(0, 11)), Mechanism(mask=Causal())
    hidden = head_maps.Special.RESCALED
    weights = head_maps.head_map(one, mechanism, 0)
    other = head_maps.head_map(one, Mechanism(), 0)
    small = downsampling.downsample(one, mechanism, 1, cells=(4, 5), special=hidden)
    yield weights
    yield head_maps.head_map(one, mechanism, head_maps.Aggregate.MEAN, hidden)
    yield head_maps.maps_of_heads(one, mechanism)
    yield from (small.mass, small.maximum, small.query, small.key, small.allowed, small.lse)
    yield downsampling.thumbnails([replace(layer(one), mechanism=mechanism)], 6)
    yield aggregation.rollout([replace(layer(one), mechanism=mechanism)] * 2)
    yield aggregation.value_weighted_map(one, mechanism, 1)
    table = head_metrics.head_metrics([replace(layer(one), mechanism=mechanism)], excluded_keys="special")
    yield from map(torch.from_numpy, table.values.values())
    yield difference.difference(weights, other)
    yield difference.outcomes(weights, other)
    yield torch.tensor(difference.mass_shift(weights[5], other[5]).total)
    yield torch.tensor(head_maps.strongest_keys(weights[5]))
    yield torch.tensor(head_maps.empty_rows(weights))
    yield receptive_field.field_sizes(receptive_field.layers_needed(weights > 0, 3), 3).each
    yield rotated(one.query, "half split")
    yield masked_softmax(weights.nan_to_num(), weights.isfinite(), "zeros")


def test_every_analysis():
    expected = list(analyses(INPUTS))
    with other_device():
        for found, other in zip(analyses(moved(INPUTS)), expected, strict=True):
            torch.testing.assert_close(found.cpu() if isinstance(found, OtherTensor) else found, other, equal_nan=True)


def test_figures_take_tensors_of_any_device():
    attention = Mechanism(mask=Causal())(INPUTS)
    with other_device():
        inputs = moved(INPUTS)
        other = Mechanism(mask=Causal())(inputs)
        for figure, part in (
            (figures.mosaic, lambda one: one),
            (figures.heatmap, lambda one: one.weights[0]),
            (figures.head_grid, lambda one: one.weights[0]),
        ):
            drawn = [getattr(one, "figure", one).to_json() for one in (figure(part(other)), figure(part(attention)))]
            assert drawn[0] == drawn[1]
        small = [downsampling.downsample(one, Mechanism(), cells=(4, 4)) for one in (inputs, INPUTS)]
        drawn = [figures.downsampled_map(one, INPUTS.query_tokens, INPUTS.key_tokens).figure.to_json() for one in small]
        assert drawn[0] == drawn[1]
        assert np.asarray(other.maps.cpu()).shape == (HEADS, N, N)


def test_a_notebook_shows_heads_of_any_device(monkeypatch):
    with other_device():
        inputs = moved(INPUTS)
        attnviz.show(inputs, Mechanism(mask=Causal())).to_html()
        attnviz.show(inputs, Mechanism(mask=Causal())(inputs)).to_html()
        monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 20)
        attnviz.show(inputs).to_html()


# Captures of models on another device: what is captured is on the CPU


class Own(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.project, self.mask = nn.Linear(WIDTH, 3 * WIDTH), mask

    def forward(self, x):
        parts = self.project(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mask = self.mask if self.mask is None else self.mask.to(x.device)
        return functional.scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=mask is None)


def models():
    yield Own(None)
    yield Own(torch.rand(N, N) < 0.8)
    yield Own(torch.randn(N, N))
    yield nn.TransformerEncoderLayer(WIDTH, HEADS, 16, batch_first=True)


@pytest.mark.parametrize("model", [*models()], ids=["causal", "mask", "numbers", "encoder"])
def test_models_on_another_device(model):
    x = torch.randn(2, N, WIDTH, generator=torch.Generator().manual_seed(2))
    model.eval()
    [expected] = capture(model, x, example=1)
    with other_device() as device, torch.no_grad():
        for module in model.modules():
            for name, weight in list(module._parameters.items()):
                if weight is not None:
                    del module._parameters[name]
                    setattr(module, name, weight.detach().to(device))
        [found] = capture(model, x.to(device), example=1)
        with capturing(model, example=1) as traces:
            model(x.to(device))
    for one in (found, traces[0][0]):
        assert (one.fidelity, one.kind) == (expected.fidelity, expected.kind)
        for name in ("query", "key", "value"):
            assert not isinstance(getattr(one.inputs, name), OtherTensor)
            torch.testing.assert_close(getattr(one.inputs, name), getattr(expected.inputs, name))
        attention = one.mechanism(one.inputs)
        torch.testing.assert_close(attention.weights, expected.mechanism(expected.inputs).weights)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_writes_on_another_device(temperature):
    torch.manual_seed(0)
    model = hf.MistralForCausalLM(hf.MistralConfig(**SLIDING)).eval()
    options = {"max_new_tokens": 6, "temperature": temperature, "forced": {0: 9}}
    expected = [*writing(model, None, [5, 6, 7, 8], **options)]
    with other_device() as device:
        steps = [*writing(model.to(device), None, [5, 6, 7, 8], **options)]
        assert isinstance(model.lm_head.weight, OtherTensor)
    assert [step.token_id for step in steps] == [step.token_id for step in expected]
    for found, one in zip(steps[-1].trace, expected[-1].trace, strict=True):
        assert not isinstance(found.inputs.key, OtherTensor)
        assert found.fidelity is Fidelity.VERIFIED
        torch.testing.assert_close(found.maps(), one.maps(), equal_nan=True)


@pytest.mark.parametrize("metric", [LogitDifference(5, 9), Score(1, 1, 7, 5, over=6), Score(1, 1, 7, 5, "mean")])
def test_a_sum_of_a_model_on_another_device(metric):
    torch.manual_seed(0)
    model = hf.MistralForCausalLM(hf.MistralConfig(**SLIDING, initializer_range=0.3)).eval()
    ids = torch.arange(5, 14)[None]
    expected = attribute(model, {"input_ids": ids}, metric)
    with other_device() as device:
        found = attribute(model.to(device), {"input_ids": ids.to(device)}, metric)
        sources, opened = found.sources(0, 1, 7), found.opened(0, 1, 7, 5)
        units = found.neurons(0, 7)
    assert (found.total, found.constant) == pytest.approx((expected.total, expected.constant), abs=1e-4)
    for one, other in ((sources, expected.sources(0, 1, 7)), (units, expected.neurons(0, 7))):
        assert not isinstance(one, OtherTensor)
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    assert opened.total == pytest.approx(expected.opened(0, 1, 7, 5).total, abs=1e-4)
    torch.testing.assert_close(found.heads, expected.heads, atol=1e-4, rtol=1e-4)


def test_effects_of_another_device_are_those_of_the_cpu() -> None:
    model = hf.MistralForCausalLM(hf.MistralConfig(**SLIDING, initializer_range=0.3)).eval()
    ids = torch.tensor([[3, 1, 4, 1, 5, 9]])
    corrupted = torch.tensor([[3, 1, 2, 1, 5, 9]])
    metric = LogitDifference(5, 7)

    def effects(move):
        read, other = {"input_ids": move(ids)}, {"input_ids": move(corrupted)}
        return [
            ablations(model, read, metric, how="mean", texts=[other]),
            estimates(model, read, metric),
            knockout(model, read, metric),
            patch(model, read, other, metric, "value").values,
            logit_lens(model, read),
        ]

    expected = effects(lambda tensor: tensor)
    with other_device() as device:
        model.to(device)
        found = effects(lambda tensor: tensor.to(device))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=1e-4, rtol=1e-4)
