"""Layers of which only the weights are known: these are shown bit for bit, and nothing is invented beside them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attnviz import Inputs, Layer, Mechanism
from attnviz.analysis.aggregation import rollout, value_weighted_map
from attnviz.analysis.downsampling import downsample, thumbnails
from attnviz.analysis.head_maps import Aggregate, Special, head_map, maps_of_heads
from attnviz.analysis.head_metrics import head_metrics
from attnviz.analysis.mass_kept import mass_kept_by_head
from attnviz.analysis.needle import passage_mass
from attnviz.analysis.work import check_map, heads_work
from attnviz.layer import Fidelity, FixedWeights, Kind, LayerId, WeightsOnly
from attnviz.masks import Causal
from attnviz.normalizers import Identity
from attnviz.scores import Dot
from attnviz.sources import from_arrays

ONLY_WEIGHTS = r"^Of these heads only the weights are known, not the queries, keys and values that this needs"
CELLS = arrays.arrays("f4", (2, 3, 4), elements=st.floats(0, 1, width=32) | st.just(np.float32("nan")))


def words(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def layer_of(weights: torch.Tensor, **special: tuple[int, ...]) -> Layer:
    held = WeightsOnly(weights, *map(words, weights.shape[1:]), **special)
    return Layer(LayerId(), Kind.SELF, held, FixedWeights(), Fidelity.WEIGHTS_ONLY)


def rows_of(seed: int, shape: tuple[int, ...] = (2, 6, 6)) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).softmax(-1)


def computed(weights: torch.Tensor) -> Layer:
    """A layer whose mechanism computes these weights."""
    inputs = Inputs(weights, *[torch.eye(weights.shape[2])[None]] * 2, *map(words, weights.shape[1:]))
    return Layer(LayerId(), Kind.SELF, inputs, Mechanism(Dot(), normalizer=Identity()))


@given(CELLS)
def test_weights_are_shown_bit_for_bit(array: np.ndarray) -> None:
    layer = layer_of(torch.from_numpy(array))
    for shown in (layer.weights, layer.maps(), maps_of_heads(layer.inputs, FixedWeights())):
        assert shown.numpy().tobytes() == array.tobytes()
    assert layer.maps([1], [2, 0]).numpy().tobytes() == array[[1]][:, [2, 0]].tobytes()
    assert head_map(layer.inputs, FixedWeights(), 1, rows=slice(1, 3)).numpy().tobytes() == array[1, 1:3].tobytes()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.bool])
def test_weights_of_other_types_are_held_as_they_are(kind: torch.dtype) -> None:
    given = torch.eye(3).expand(2, 3, 3).to(kind)
    layer = layer_of(given)
    assert layer.inputs.weights.data_ptr() == given.data_ptr()
    assert torch.equal(layer.weights, torch.eye(3).expand(2, 3, 3))


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (torch.tensor([[[1.0, -torch.inf]]]), r"^These weights hold infinity, so they are scores. Apply softmax"),
        (torch.zeros(1, 0, 2), r"none of them empty; their shape is 1 × 0 × 2.$"),
        (torch.zeros(2, 2), r"must have 3 axes .* their shape is 2 × 2.$"),
    ],
)
def test_what_are_no_weights_is_refused(weights: torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WeightsOnly(weights, ("a",), ("a", "b"))


def test_tokens_ids_and_patches_fit_the_weights() -> None:
    weights = torch.eye(2)[None]
    with pytest.raises(ValueError, match=r"^key_tokens must name 2 tokens; it names 1\.$"):
        WeightsOnly(weights, ("a", "b"), ("a",))
    with pytest.raises(ValueError, match=r"^query_ids must hold 2 ids or none; it holds 1\.$"):
        WeightsOnly(weights, ("a", "b"), ("a", "b"), query_ids=(1,))


def test_there_are_no_vectors_to_see_and_no_mechanism_to_change() -> None:
    layer = layer_of(rows_of(0))
    for name in ("query", "key", "value", "query_of", "key_of", "value_of", "kv_head"):
        assert not hasattr(layer.inputs, name)
    assert layer.locked
    assert layer.locked_reason.endswith("cannot be changed.")
    assert layer.updated(Mechanism(), Mechanism(mask=Causal())) is layer
    with pytest.raises(ValueError, match=r"^This layer has only weights"):
        layer.known_mechanism  # noqa: B018
    other = replace(layer, mechanism=Mechanism(mask=Causal()))
    for refused in (
        lambda: layer.inputs.vectors,
        lambda: Mechanism()(layer.inputs),
        lambda: head_map(layer.inputs, Mechanism(mask=Causal()), 0),
        lambda: downsample(layer.inputs, Mechanism(), cells=(2, 2)),
        lambda: value_weighted_map(layer.inputs, FixedWeights(), 0),
        lambda: mass_kept_by_head([layer], Causal()),
        other.maps,
    ):
        with pytest.raises(ValueError, match=ONLY_WEIGHTS):
            refused()


def test_vectors_need_a_mechanism() -> None:
    with pytest.raises(ValueError, match=r"^These are queries and keys. Give the mechanism"):
        head_map(computed(rows_of(0)).inputs, FixedWeights(), 0)


@pytest.mark.parametrize(("heads", "rows"), [([2], [0]), ([-3], [0]), ([0], [6]), (slice(2, 2), [0])])
def test_heads_and_queries_that_are_not_there_are_refused(heads: object, rows: object) -> None:
    for layer in (layer_of(rows_of(0)), computed(rows_of(0))):
        with pytest.raises(IndexError, match="counted from 0"):
            layer.maps(heads, rows)


def test_everything_is_measured_as_of_a_mechanism_with_these_weights() -> None:
    weights = rows_of(1)
    ours, theirs = layer_of(weights), computed(weights)
    for measure in (
        lambda layer: head_map(layer.inputs, layer.mechanism, Aggregate.MAXIMUM),
        lambda layer: downsample(layer.inputs, layer.mechanism, 1, cells=(3, 2)).mass,
        lambda layer: thumbnails([layer], 4),
        lambda layer: passage_mass([layer], slice(1, 4), slice(0, 2)).mass,
        lambda layer: torch.tensor([float(one[0]) for one in head_metrics([layer]).values.values()]),
    ):
        assert torch.equal(measure(ours).nan_to_num(9), measure(theirs).nan_to_num(9))
    assert heads_work([ours]) == heads_work([theirs])
    check_map(ours.inputs, FixedWeights())


def test_rollout_of_weights_is_the_product_of_their_means_and_the_identity() -> None:
    below, above = rows_of(3).double(), rows_of(4).double()
    expected = torch.eye(6, dtype=torch.float64)
    for weights in (below, above):
        step = weights.mean(0) + torch.eye(6)
        expected = step / step.sum(-1, keepdim=True) @ expected
    torch.testing.assert_close(rollout([layer_of(below), layer_of(above)]).double(), expected, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match=r"^Rollout needs weights of 0 or more, and layer has negative ones"):
        rollout([layer_of(below - 0.5)])


def test_rows_without_special_tokens_are_rescaled_to_the_sum_that_they_had() -> None:
    weights = rows_of(5) / 2
    weights[0, 2, 3] = -0.1
    layer = layer_of(weights, special_queries=(0,), special_keys=(0, 5))
    rescaled = head_map(layer.inputs, FixedWeights(), 0, Special.RESCALED)
    for row, whole in zip(rescaled, weights[0, 1:], strict=True):
        kept = whole[1:5]
        factor = 1 if bool((whole < 0).any()) else whole.sum() / kept.sum()
        torch.testing.assert_close(row, kept * factor)
    torch.testing.assert_close(head_map(layer.inputs, FixedWeights(), 0, Special.HIDDEN), weights[0, 1:, 1:5])


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (2, 3, 5), (2, 2, 3, 3)])
def test_uploaded_weights_have_no_vectors(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).random(shape, dtype="f4")
    layers = from_arrays({"weights": array})
    assert all(isinstance(layer.inputs, WeightsOnly) and layer.mechanism == FixedWeights() for layer in layers)
    assert b"".join(layer.weights.numpy().tobytes() for layer in layers) == array.tobytes()
