"""A program of somebody who uses the library, for type checkers: pyright in strict mode, and mypy. It is not run."""

from typing import assert_type

import numpy as np
import torch
from torch import Tensor, nn

import attnviz
from attnviz import (
    Alternative,
    Atlas,
    Attention,
    Attribution,
    Downsampled,
    Inputs,
    Intervention,
    Layer,
    Mechanism,
    PerText,
    Step,
    Texts,
    biases,
    effects,
    figures,
    head_maps,
    masks,
    normalizers,
    scores,
)
from attnviz.attribution import LogitDifference
from attnviz.export import flex_attention
from attnviz.figures.chart_spec import HeatmapSpec, MosaicSpec
from attnviz.layer import Fidelity, LayerId
from attnviz.masks import Causal, Mask, SlidingWindow, parse
from attnviz.sources import Model, Toy, from_arrays
from attnviz.trace import Trace
from attnviz.translator import Translation, load

vectors = torch.zeros(1, 2, 4)
inputs = Inputs(vectors, vectors, vectors, ("a", "b"), ("a", "b"))
assert_type(inputs.query, Tensor)
assert_type(inputs.query_tokens, tuple[str, ...])
mask = Causal() & SlidingWindow(4) | ~parse("k < 2")
assert_type(mask, Mask)
assert_type(mask.bind(3, 3, 1), Mask)
assert_type(mask.describe(), str)
mechanism = Mechanism(scores.Cosine(), (biases.ALiBi(),), masks.Causal(), normalizers.Sparsemax())
attention = mechanism(inputs, heads=[0], rows=slice(0, 1))
assert_type(attention, Attention)
assert_type(attention.weights, Tensor)
assert_type(attention.output, Tensor)
assert_type(flex_attention(mechanism, 2, 2), str)

trace = attnviz.capture(nn.Linear(2, 2), torch.zeros(1, 2))
assert_type(trace, Trace)
assert_type(trace[0], Layer)
assert_type(trace[0].id, LayerId)
assert_type(trace[0].fidelity, Fidelity | None)
with attnviz.capturing(nn.Linear(2, 2)) as traces:
    assert_type(traces[0], Trace)
warm = Intervention(normalizer=normalizers.Softmax(4.0), ablated=((0, 1),))
assert_type(warm.mask, Mask | None)
output: Tensor = attnviz.run(nn.Linear(2, 2), torch.zeros(1, 2), [warm])
for step in attnviz.writing(nn.Linear(2, 2), None, [1, 2], max_new_tokens=3, temperature=0.5, forced={0: [1], 2: 5}):
    assert_type(step, Step)
    assert_type(step.trace, Trace)
    assert_type(step.alternatives, tuple[Alternative, ...])
assert_type(next(attnviz.writing(nn.Linear(2, 2), None, [1, 2], interventions=[warm])), Step)
shares = attnviz.attribute(nn.Linear(2, 2), torch.zeros(1, 2), LogitDifference(1, 0))
assert_type(shares, Attribution)
assert_type(shares.opened(0, 0, 1, source=0), Attribution)
shares.save("sum.safetensors", model="gpt2")
attnviz.save("effects.safetensors", torch.eye(2), metric=LogitDifference(1, 0))
assert_type(attnviz.load("sum.safetensors").tokens, tuple[str, ...])
assert_type(effects.ablations(nn.Linear(2, 2), torch.zeros(1, 2), LogitDifference(1, 0)), Tensor)
parts = [effects.ModelPart("output", 1, 3), effects.ModelPart("residual", 2, positions=(-1,))]
assert_type(effects.part_effects(nn.Linear(2, 2), torch.zeros(1, 2), LogitDifference(1, 0), parts), Tensor)
assert_type(effects.part_estimates(nn.Linear(2, 2), torch.zeros(1, 2), LogitDifference(1, 0), parts), Tensor)
steered = effects.part_intervention(nn.Linear(2, 2), torch.zeros(1, 2), parts, how="add", vectors=torch.zeros(2))
assert_type(steered, effects.PartIntervention)
assert_type(next(attnviz.writing(nn.Linear(2, 2), None, [1, 2], interventions=[warm, steered])), Step)
pair = torch.zeros(1, 2), torch.zeros(1, 2)
hidden = effects.hide_region(nn.Linear(2, 2), {"pixel_values": torch.zeros(1, 3, 8, 8)}, [[True]], how="masked")
assert_type(hidden, effects.HiddenRegion)
assert_type(hidden.cosine, float)
patched = effects.patch_parts(nn.Linear(2, 2), *pair, LogitDifference(1, 0), [parts, parts[0]])
assert_type(patched, effects.Patching)
units = effects.neuron_examples(nn.Linear(2, 2), [*pair], [(0, 3)], count=2)
assert_type(units, effects.NeuronExamples)
curves = effects.circuit_curves(nn.Linear(2, 2), [*pair], LogitDifference(1, 0), parts, neutral=[*pair], seed=1)
assert_type(curves, effects.CircuitCurves)
assert_type(curves.faithfulness, Tensor)
texts = Texts(None, [torch.zeros(1, 2, dtype=torch.int64)])
assert_type(PerText((1.0, 2.0)).mean, Tensor)
assert_type(PerText((shares,)).map(lambda one: one.total).spread.low, Tensor)
assert_type(attnviz.atlas("gpt2", ["a b"], "atlas"), Atlas)
question = attnviz.why(nn.Linear(2, 2), torch.zeros(1, 2), LogitDifference(1, 0), tokens=["a", "b"])
assert_type(question.panels[0].weights, np.ndarray)
question.link = "term=0.0.1"
assert_type(Model("a b").layers(), Trace)
[layer] = Toy("a b").layers()
assert_type(layer, Layer)
[other] = from_arrays({"query": np.zeros((2, 4)), "key": np.zeros((2, 4))}, tokens=["a", "b"])
assert_type(other, Layer)
assert_type(head_maps.head_map(layer.inputs, layer.mechanism, 0), Tensor)
small = attnviz.downsample(layer.inputs, layer.mechanism, cells=(1, 2), queries=slice(1, 2))
assert_type(small, Downsampled)
assert_type(small.mass, Tensor)
assert_type(load().translate("the cat sleeps ."), Translation)

assert_type(figures.mosaic(attention).spec, MosaicSpec)
assert_type(figures.heatmap(attention).spec, HeatmapSpec)
view = attnviz.show(attention.weights, ["a", "b"], head=0)
view.to_html("view.html")
attnviz.to_html([view, question], "views.html")
attnviz.view("/masks").save("masks.html")
