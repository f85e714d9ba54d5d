"""A trace in a folder: what is written is what is read, and nothing is read before it is used."""

import json
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
import torch

import attnviz
from attnviz import Inputs, Layer, Mechanism, Trace, biases, masks, normalizers, scores
from attnviz.inputs import PatchGrid
from attnviz.layer import Fidelity, FixedWeights, Kind, LayerId, WeightsOnly
from attnviz.trace import TraceWriter
from attnviz.trace.mapped_inputs import MappedInputs
from attnviz.trace.mechanism_parts import NotSaved
from attnviz.trace.opaque_parts import CellTable, ModelBias, ModelMask

TOKENS = tuple("abcde")


def vectors(width: int = 8) -> Inputs:
    query, key, value = (torch.randn(heads, 5, width) for heads in (4, 2, 2))
    grid = PatchGrid(2, 2, (1, 2, 3, 4))
    return Inputs(
        query,
        key,
        value,
        TOKENS,
        TOKENS,
        (0,),
        (0, 4),
        (5, 6, 7, 8, 9),
        (),
        key_grids=(grid, PatchGrid(1, 1, (0,), (0.5, -0.25, 1.0, 2 / 3), 3, 7)),
    )


def layer(mechanism: Mechanism = Mechanism(), inputs: Inputs | None = None) -> Layer:  # noqa: B008
    return Layer(LayerId("decoder", 1), Kind.SELF, inputs or vectors(), mechanism, Fidelity.VERIFIED, "", "Compared.")


@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism(),
        Mechanism(scores.ScaledDot(0.3), mask=masks.parse("causal & q - k < 3 | k < 1")),
        Mechanism(scores.General(torch.randn(8, 8)), mask=masks.Causal("bottom right")),
        Mechanism(scores.Additive(torch.randn(6, 8), torch.randn(6, 8), torch.randn(6)), mask=masks.BigBird(2, seed=3)),
        Mechanism(biases=(biases.ALiBi(), biases.SoftCap(30.0), biases.SSMax())),
        Mechanism(biases=(biases.Distances(torch.randn(4, 9), 5), biases.T5Buckets(table=torch.randn(32, 4)))),
        Mechanism(normalizer=normalizers.Sink(torch.randn(4))),
        Mechanism(scores.Dot(), normalizer=normalizers.Identity()),
        Mechanism(normalizer=normalizers.Softmax(2.5), mask=masks.Padding((True, False, True, True, True))),
        Mechanism(normalizer=normalizers.Differential(0.25)),
    ],
    ids=count(),  # one that prints random numbers would be another in each process
)
def test_each_mechanism_is_read_as_it_was(mechanism: Mechanism, tmp_path: Path) -> None:
    before = layer(mechanism)
    Trace((before,), ("What is missing.",), "a model").save(tmp_path)
    trace = Trace.load(tmp_path)
    [after] = trace
    assert (trace.missing, trace.model) == (("What is missing.",), "a model")
    assert after.mechanism == mechanism
    for name in ("id", "kind", "fidelity", "locked_reason", "comparison"):
        assert getattr(after, name) == getattr(before, name)
    for name in (
        "query_tokens",
        "key_tokens",
        "special_queries",
        "special_keys",
        "query_ids",
        "key_ids",
        "query_grids",
        "key_grids",
    ):
        assert getattr(after.inputs, name) == getattr(before.inputs, name)
    for name in ("query", "key", "value"):
        assert torch.equal(getattr(after.inputs, name), getattr(before.inputs, name))


@pytest.mark.parametrize("kept", ["none", "null", "one"])
def test_a_trace_that_was_written_before_there_were_several_grids(tmp_path: Path, kept: str) -> None:
    Trace((layer(),)).save(tmp_path)
    manifest = json.loads((tmp_path / "trace.json").read_text())
    grid = {"rows": 2, "columns": 2, "positions": [1, 2, 3, 4]}
    for axis in manifest["axes"]:
        before = {"null": None, "one": grid if axis["grid"] else None}
        axis.pop("grid") if kept == "none" else axis.update(grid=before[kept])
    (tmp_path / "trace.json").write_text(json.dumps(manifest))
    read = Trace.load(tmp_path)[0].inputs
    assert (read.query_grids, read.key_grids) == ((), (PatchGrid(2, 2, (1, 2, 3, 4)),) if kept == "one" else ())


def test_what_a_model_computes_by_itself_is_written_as_a_table(tmp_path: Path) -> None:
    allowed, added = torch.rand(1, 4, 5, 5) > 0.4, torch.randn(1, 1, 5, 5)
    table = ModelMask(CellTable(allowed, 5, 5))
    rule = ModelMask(lambda b, h, q, k: (q + k + h) % 3 > 0)
    bias = ModelBias(CellTable(added, 5, 5))
    inputs = vectors()
    mechanisms = [Mechanism(mask=one, biases=(bias,)) for one in (table, rule, rule & masks.Causal())]
    Trace(tuple(layer(mechanism, inputs) for mechanism in mechanisms)).save(tmp_path)
    for before, after in zip(mechanisms, Trace.load(tmp_path), strict=True):
        assert torch.equal(before(inputs).weights, after.mechanism(after.inputs).weights)


def test_a_function_for_too_many_tokens_is_refused(tmp_path: Path) -> None:
    tokens = tuple(map(str, range(9_000)))
    inputs = Inputs(*torch.zeros(3, 1, 9_000, 1), tokens, tokens)
    rule = Mechanism(mask=ModelMask(lambda b, h, q, k: (q + k) % 3 > 0))
    with pytest.raises(NotSaved, match=r"its mask has no text, and what it allows would take .* fewer tokens"):
        TraceWriter(tmp_path).add(layer(rule, inputs))


def test_a_captured_trace_computes_the_same_weights(tmp_path: Path) -> None:
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, batch_first=True), 2)
    trace = attnviz.capture(encoder, torch.randn(1, 6, 8), is_causal=True, mask=torch.ones(6, 6).triu(1).bool())
    trace.save(tmp_path / "new" / "folder")
    for before, after in zip(trace, Trace.load(tmp_path / "new" / "folder"), strict=True):
        assert repr(after) == repr(before)
        assert torch.equal(before.mechanism(before.inputs).weights, after.mechanism(after.inputs).weights)


def test_finished_weights_and_shared_tensors_are_written(tmp_path: Path) -> None:
    from attnviz.sources import from_arrays

    weights, shared = from_arrays({"weights": torch.rand(2, 5, 5)}), from_arrays(torch.randn(5, 8))
    Trace((*weights, *shared)).save(tmp_path)
    first, second = Trace.load(tmp_path)
    assert first.locked
    assert first.fidelity is Fidelity.WEIGHTS_ONLY
    assert torch.equal(first.weights, weights[0].weights)
    assert torch.equal(second.inputs.key, shared[0].inputs.key)


@pytest.mark.parametrize("masked", [False, True])
def test_weights_are_written_and_opened_as_weights(masked: bool, tmp_path: Path) -> None:
    weights = torch.rand(2, 5, 5).masked_fill(torch.ones(5, 5).triu(1).bool() & masked, torch.nan)
    before = Layer(
        LayerId(), Kind.CAUSAL, WeightsOnly(weights, TOKENS, TOKENS, key_ids=(1, 2, 3, 4, 5)), FixedWeights()
    )
    Trace((before,)).save(tmp_path)
    [after] = Trace.load(tmp_path)
    assert torch.equal(after.weights.view(torch.int32), weights.view(torch.int32))
    assert (after.mechanism, after.locked_reason) == (FixedWeights(), before.locked_reason)
    assert after.inputs.key_ids == before.inputs.key_ids
    [described] = json.loads((tmp_path / "trace.json").read_text())["layers"]
    assert (described["mechanism"], [*described["tensors"]]) == (None, ["weights"])


def test_float32_is_written_in_16_bits_where_that_changes_nothing(tmp_path: Path) -> None:
    whole = vectors()
    half, coarse = whole.query.half().float(), whole.key.bfloat16().float()
    Trace((layer(inputs=Inputs(half, coarse, whole.value, TOKENS, TOKENS)),)).save(tmp_path)
    [after] = Trace.load(tmp_path)
    assert [tensor.dtype for tensor in (after.inputs.query, after.inputs.key, after.inputs.value)] == [
        torch.float16,
        torch.bfloat16,
        torch.float32,
    ]
    assert torch.equal(after.inputs.query_of(0), half[0])
    assert torch.equal(after.inputs.key_of(0), coarse[0])


def test_opening_131_072_tokens_takes_no_memory_for_vectors(tmp_path: Path) -> None:
    tokens = tuple(map(str, range(131_072)))
    inputs = Inputs(*torch.randn(3, 2, 131_072, 64), tokens, tokens)
    Trace((layer(Mechanism(mask=masks.Causal()), inputs),)).save(tmp_path)
    program = f"""
import resource, torch, attnviz
attnviz.Trace, attnviz.Inputs
import safetensors.torch
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
[layer] = attnviz.Trace.load({str(tmp_path)!r})
layer.inputs.heads, layer.inputs.queries, layer.inputs.keys, layer.inputs.dtype, repr(layer)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 100 << 20  # of 201 MB of vectors; the tokens take some 50


def test_numbers_are_checked_when_they_are_first_used(tmp_path: Path) -> None:
    Trace((layer(),)).save(tmp_path)
    file = tmp_path / "layer-0000.safetensors"
    content = bytearray(file.read_bytes())
    size = 8 + int.from_bytes(content[:8], "little")
    start = json.loads(content[8:size])["key"]["data_offsets"][0]
    place = size + start + 4 * (1 * 5 * 8 + 3 * 8 + 2)  # head 1, token 3
    content[place : place + 4] = torch.tensor(torch.nan).numpy().tobytes()
    file.write_bytes(content)
    [after] = Trace.load(tmp_path)
    assert torch.isfinite(after.inputs.query).all()
    for _ in range(2):
        with pytest.raises(ValueError, match=r"layer-0000\.safetensors holds a key that is not .* token 3 in head 1\."):
            after.mechanism(after.inputs)


def test_an_unfinished_trace_opens_and_says_so(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path, "a model")
    assert Trace.load(tmp_path).missing[0].startswith("This trace is not whole")
    kept = [writer.add(layer()), writer.add(layer())]
    assert all(isinstance(one.inputs, MappedInputs) for one in kept)
    (tmp_path / "layer-0002.safetensors").write_bytes(b"a half-written file")
    trace = Trace.load(tmp_path)
    assert [one.name for one in trace] == ["decoder 1", "decoder 1 · 1"]
    assert len(trace.missing) == 1


def test_finishing_keeps_the_layers_that_are_named(tmp_path: Path) -> None:
    from dataclasses import replace

    writer = TraceWriter(tmp_path)
    kept = [writer.add(layer()) for _ in range(3)]
    writer.finish([replace(kept[2], id=LayerId("encoder", 7))], ("A layer is missing.",))
    trace = Trace.load(tmp_path)
    assert [one.name for one in trace] == ["encoder 7"]
    assert trace.missing == ("A layer is missing.",)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layer-0002.safetensors", "trace.json"]
    assert torch.equal(trace[0].inputs.query, kept[2].inputs.query)
