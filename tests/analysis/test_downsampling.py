"""Maps in fewer cells, against slow loops over all weights."""

import math
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import adaptive_max_pool2d

from attnviz import Inputs, Mechanism
from attnviz.analysis.downsampling import DownsampledMap, downsample, thumbnails
from attnviz.analysis.head_maps import Special, head_map, shown_positions
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import Causal, Full, Mask, Padding
from attnviz.mechanism import BLOCK
from attnviz.normalizers import Differential, Identity, Softmax
from attnviz.scores import Dot

NAN = math.nan
SPECIAL_QUERIES, SPECIAL_KEYS = (0, 4), (0, 2, 6)


@dataclass(frozen=True, eq=False)
class Drawn(Mask):
    """What a tensor says."""

    allowed: torch.Tensor

    def __call__(self, b, h, q, k):
        return self.allowed[q, k]


def same(ours, expected):
    torch.testing.assert_close(ours, torch.as_tensor(expected, dtype=torch.float32), equal_nan=True)


def drawn(weights: torch.Tensor) -> tuple[Inputs, Mechanism]:
    """A head that has just these weights, NaN where not allowed."""
    queries, keys = weights.shape
    tokens = tuple(map(str, range(queries))), tuple(map(str, range(keys)))
    inputs = Inputs(torch.eye(queries)[None], weights.nan_to_num(0).mT[None], torch.ones(1, keys, 1), *tokens)
    return inputs, Mechanism(Dot(), mask=Drawn(~weights.isnan()), normalizer=Identity())


def downsampled(inputs, mechanism, head, height, width, special=Special.SHOWN, **parts) -> DownsampledMap:
    compute = partial(head_map, inputs, mechanism, head, special)
    return downsample(compute, inputs, height, width, special=special, **parts)


def slow_reduced(weights, height, width):
    """Torch's adaptive pooling: cell i of s stands for ⌊i·n/s⌋ up to ⌈(i + 1)·n/s⌉."""
    height, width = min(height, len(weights)), min(width, weights.shape[1])
    small = torch.full((height, width), NAN)
    for i in range(height):
        for j in range(width):
            top, bottom = i * len(weights) // height, -(-(i + 1) * len(weights) // height)
            left, right = j * weights.shape[1] // width, -(-(j + 1) * weights.shape[1] // width)
            seen = [w for w in weights[top:bottom, left:right].flatten().tolist() if not math.isnan(w)]
            if seen:
                small[i, j] = max(seen)
    return small


def stands(small, weights):
    """Every cell's weight stands at the query and the key that it names."""
    none = small.weights.isnan()
    assert torch.equal(small.query < 0, none)
    assert torch.equal(small.key < 0, none)
    assert torch.equal(weights[small.query[~none], small.key[~none]], small.weights[~none])


@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    st.integers(0, 99),
)
def test_a_cell_has_the_maximum_of_what_it_stands_for_and_says_where_that_is(shape, size, masked, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(shape, generator=generator)
    weights[torch.rand(shape, generator=generator) < masked] = NAN
    small = downsampled(*drawn(weights), 0, *size)
    same(small.weights, slow_reduced(weights, *size))
    stands(small, weights)
    height, width = small.weights.shape
    for i in range(height):
        for j in range(width):
            if small.query[i, j] >= 0:
                assert i * shape[0] // height <= small.query[i, j] < -(-(i + 1) * shape[0] // height)
                assert j * shape[1] // width <= small.key[i, j] < -(-(j + 1) * shape[1] // width)
    assert small.rows.tolist() == [i * shape[0] // height for i in range(height)]
    assert small.columns.tolist() == [j * shape[1] // width for j in range(width)]


@pytest.mark.parametrize("size", [(100, 120), (64, 64), (7, 999), (BLOCK + 300, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("mask", [Full(), Causal()], ids=repr)
def test_a_map_of_several_blocks_of_rows_is_pooled_as_the_whole_would_be(random_inputs, monkeypatch, size, mask):
    count, held, call = 2 * BLOCK + 77, [], Mechanism.__call__
    inputs, mechanism = random_inputs(heads=1, queries=count, keys=300), Mechanism(mask=mask)
    whole = head_map(inputs, mechanism, 0)

    def recorded(*asked, **more):
        attention = call(*asked, **more)
        held.append(attention.weights.shape[1])
        return attention

    monkeypatch.setattr(Mechanism, "__call__", recorded)
    small = downsampled(inputs, mechanism, 0, *size)
    assert max(held) <= BLOCK
    pooled = adaptive_max_pool2d(whole.nan_to_num(nan=-torch.inf)[None], small.weights.shape)[0]
    same(small.weights, torch.where(pooled.isneginf(), NAN, pooled))
    stands(small, whole)


@pytest.mark.parametrize("special", Special)
@pytest.mark.parametrize(
    ("rows", "keys"),
    [
        (slice(100, 700), slice(20, 90)),
        (slice(510, 515), slice(None)),
        (slice(500, BLOCK), slice(None)),
        (slice(None), slice(-1, None)),
        (slice(0, 2), slice(0, 3)),
    ],
    ids=str,
)
def test_a_part_is_reduced_as_a_map_of_its_own(random_inputs, rows, keys, special):
    count = BLOCK + 300
    inputs = random_inputs(
        heads=2, queries=count, keys=100, special_queries=(0, 513, 600), special_keys=(0, 50), d_k=4, seed=3
    )
    mechanism = Mechanism(mask=Causal("bottom right"), normalizer=Softmax(0.5))
    whole = torch.full((count, 100), NAN)
    q, k = shown_positions(count, inputs.special_queries, special), shown_positions(100, inputs.special_keys, special)
    whole[torch.tensor(q)[:, None], torch.tensor(k)] = head_map(inputs, mechanism, 1, special)
    inside = [[i for i in left if i in range(n)[part]] for left, n, part in ((q, count, rows), (k, 100, keys))]
    small = downsampled(inputs, mechanism, 1, 11, 9, rows=rows, keys=keys, special=special)
    same(small.weights, slow_reduced(whole[inside[0]][:, inside[1]], 11, 9))
    stands(small, whole)
    assert small.rows.tolist() == [inside[0][i * len(inside[0]) // len(small.rows)] for i in range(len(small.rows))]


def test_a_part_that_is_as_small_as_the_screen_has_every_weight(random_inputs):
    inputs = random_inputs(queries=40, keys=50)
    small = downsampled(inputs, Mechanism(), 1, 10, 12, rows=slice(30, 40), keys=slice(3, 15))
    assert torch.equal(small.weights, Mechanism()(inputs).weights[1, 30:40, 3:15])
    assert torch.equal(small.query, torch.arange(30, 40)[:, None].expand(10, 12))
    assert torch.equal(small.key, torch.arange(3, 15).expand(10, 12))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"rows": slice(5, 5)}, "No query is left"),
        ({"keys": slice(0, 1), "special": Special.HIDDEN}, "No key is left"),
        ({"rows": slice(0, 5, 2)}, "a step of 2"),
    ],
    ids=str,
)
def test_a_part_with_nothing_in_it_is_refused_in_words(random_inputs, part, said):
    inputs = random_inputs(special_keys=(0,))
    with pytest.raises(ValueError, match=said):
        downsampled(inputs, Mechanism(), 0, 4, 4, **part)


@pytest.mark.parametrize("mask", [Causal(), Padding(0)], ids=repr)
def test_a_map_in_which_nothing_is_allowed_somewhere(random_inputs, mask):
    inputs = random_inputs(queries=7, keys=7)
    small = downsampled(inputs, Mechanism(mask=mask), 0, 3, 3)
    same(small.weights, slow_reduced(head_map(inputs, Mechanism(mask=mask), 0), 3, 3))
    assert small.weights.isnan().any()


def test_a_negative_weight_is_not_taken_for_a_masked_cell(random_inputs):
    weights = torch.tensor([[-0.5, -0.25, NAN, NAN]])
    same(downsampled(*drawn(weights), 0, 2, 2).weights, [[-0.25, NAN]])
    inputs, mechanism = random_inputs(), Mechanism(normalizer=Differential(1.0))
    same(downsampled(inputs, mechanism, 0, 2, 3).weights, slow_reduced(mechanism(inputs).weights[0], 2, 3))


@pytest.mark.parametrize("special", Special)
def test_thumbnails_are_every_head_of_every_layer_in_order(random_inputs, special):
    more = {"special_queries": SPECIAL_QUERIES, "special_keys": SPECIAL_KEYS}
    layers = [
        Layer(LayerId("a"), Kind.SELF, random_inputs(heads=3, **more), Mechanism()),
        Layer(LayerId("b"), Kind.CAUSAL, random_inputs(heads=2, seed=1, **more), Mechanism(mask=Causal())),
    ]
    shown_with = [Mechanism(mask=Causal()), Mechanism()]  # not the layers' own
    expected = [
        slow_reduced(head_map(layer.inputs, mechanism, head, special), 3, 3)
        for layer, mechanism in zip(layers, shown_with, strict=True)
        for head in range(layer.inputs.heads)
    ]
    same(thumbnails(layers, shown_with, 3, special), torch.stack(expected))


def test_a_small_map_is_left_as_it_is(random_inputs):
    inputs = random_inputs(heads=2, queries=4, keys=6)
    made = thumbnails([Layer(LayerId("a"), Kind.SELF, inputs, Mechanism())], [Mechanism()], 6)
    assert torch.equal(made, Mechanism()(inputs).weights)
