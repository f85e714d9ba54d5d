"""Maps in fewer cells, against slow loops over all weights."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz import Inputs, Mechanism
from attnviz.analysis import softmax_blocks
from attnviz.analysis.downsampling import Downsampled, downsample, downsample_map, thumbnails
from attnviz.analysis.engines import Local
from attnviz.analysis.head_maps import Special, head_map, maps_of_heads, shown_positions
from attnviz.biases import ALiBi
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import Causal, Full, Longformer, Mask, Padding, SlidingWindow, Strided, parse
from attnviz.mechanism import BLOCK
from attnviz.normalizers import Differential, Identity, Sink, Softmax, SoftmaxPlusOne, Sparsemax
from attnviz.scores import Additive, Cosine, Dot

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


def downsampled(inputs, mechanism, head, height, width, special=Special.SHOWN, **parts) -> Downsampled:
    compute = partial(head_map, inputs, mechanism, head, special)
    return downsample_map(compute, inputs, cells=(height, width), special=special, **parts)


def cell_slices(count, cells):
    """Cell i of s stands for ⌊i·n/s⌋ up to ⌊(i + 1)·n/s⌋."""
    cells = min(cells, count)
    return [slice(i * count // cells, (i + 1) * count // cells) for i in range(cells)]


def slow_cells(weights, height, width):
    """The mass, the maximum and the number of allowed pairs of each cell, by loops."""
    rows, columns = cell_slices(len(weights), height), cell_slices(weights.shape[1], width)
    whole, numbers = weights.double().numpy(), np.full((3, len(rows), len(columns)), NAN)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            cell = whole[row, column]
            seen = cell[~np.isnan(cell)]
            numbers[0, i, j], numbers[2, i, j] = seen.sum() / len(cell), len(seen)
            if len(seen):
                numbers[1, i, j] = seen.max()
    return torch.from_numpy(numbers)


def slow_reduced(weights, height, width):
    return slow_cells(weights, height, width)[1].float()


def same_cells(small, weights, height, width):
    """All three numbers of every cell are those of loops over the weights."""
    mass, maximum, allowed = slow_cells(weights, height, width)
    same(small.mass, mass.float())
    same(small.maximum, maximum.float())
    assert torch.equal(small.allowed, allowed.long())


def stands(small, weights):
    """Every cell's weight stands at the query and the key that it names."""
    none = small.maximum.isnan()
    assert torch.equal(small.query < 0, none)
    assert torch.equal(small.key < 0, none)
    assert torch.equal(weights[small.query[~none], small.key[~none]], small.maximum[~none])


@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    st.integers(0, 99),
)
def test_a_cell_has_the_maximum_of_its_pairs_and_says_where_it_is(shape, size, masked, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(shape, generator=generator)
    weights[torch.rand(shape, generator=generator) < masked] = NAN
    small = downsampled(*drawn(weights), 0, *size)
    same_cells(small, weights, *size)
    stands(small, weights)
    for edges, count, cells in ((small.row_edges, shape[0], size[0]), (small.column_edges, shape[1], size[1])):
        assert edges.tolist() == [*(each.start for each in cell_slices(count, cells)), count]
    none = small.query < 0
    for position, first, stop in (
        (small.query, small.row_edges[:-1, None], small.row_edges[1:, None]),
        (small.key, small.column_edges[:-1], small.column_edges[1:]),
    ):
        assert (none | ((first <= position) & (position < stop))).all()
    assert small.queries_done == shape[0]


@pytest.mark.parametrize("size", [(100, 120), (64, 64), (7, 999), (BLOCK + 300, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("mask", [Full(), Causal()], ids=repr)
def test_a_map_of_several_blocks_is_downsampled_as_the_whole_would_be(random_inputs, monkeypatch, size, mask):
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
    same_cells(small, whole, *size)
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
    small = downsampled(inputs, mechanism, 1, 11, 9, queries=rows, keys=keys, special=special)
    same_cells(small, whole[inside[0]][:, inside[1]], 11, 9)
    stands(small, whole)
    starts = [inside[0][part.start] for part in cell_slices(len(inside[0]), 11)]
    assert small.row_edges.tolist() == [*starts, inside[0][-1] + 1]


def test_a_part_that_is_as_small_as_the_screen_has_every_weight(random_inputs):
    inputs = random_inputs(queries=40, keys=50)
    small = downsampled(inputs, Mechanism(), 1, 10, 12, queries=slice(30, 40), keys=slice(3, 15))
    assert torch.equal(small.maximum, Mechanism()(inputs).weights[1, 30:40, 3:15])
    assert torch.equal(small.query, torch.arange(30, 40)[:, None].expand(10, 12))
    assert torch.equal(small.key, torch.arange(3, 15).expand(10, 12))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"queries": slice(5, 5)}, "No query is left"),
        ({"keys": slice(0, 1), "special": Special.HIDDEN}, "No key is left"),
        ({"queries": slice(0, 5, 2)}, "a step of 2"),
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
    same(small.maximum, slow_reduced(head_map(inputs, Mechanism(mask=mask), 0), 3, 3))
    assert small.maximum.isnan().any()


def test_a_negative_weight_is_not_taken_for_a_masked_cell(random_inputs):
    weights = torch.tensor([[-0.5, -0.25, NAN, NAN]])
    same(downsampled(*drawn(weights), 0, 2, 2).maximum, [[-0.25, NAN]])
    inputs, mechanism = random_inputs(), Mechanism(normalizer=Differential(1.0))
    same(downsampled(inputs, mechanism, 0, 2, 3).maximum, slow_reduced(mechanism(inputs).weights[0], 2, 3))


@pytest.mark.parametrize("special", Special)
def test_thumbnails_are_every_head_of_every_layer_in_order(random_inputs, special):
    more = {"special_queries": SPECIAL_QUERIES, "special_keys": SPECIAL_KEYS}
    layers = [
        Layer(LayerId("a"), Kind.SELF, random_inputs(heads=3, **more), Mechanism(mask=Causal())),
        Layer(LayerId("b"), Kind.CAUSAL, random_inputs(heads=2, seed=1, **more), Mechanism()),
    ]
    expected = [
        slow_reduced(head_map(layer.inputs, layer.mechanism, head, special), 3, 3)
        for layer in layers
        for head in range(layer.inputs.heads)
    ]
    same(thumbnails(layers, 3, special), torch.stack(expected))


def test_a_small_map_is_left_as_it_is(random_inputs):
    inputs = random_inputs(heads=2, queries=4, keys=6)
    made = thumbnails([Layer(LayerId("a"), Kind.SELF, inputs, Mechanism())], 6)
    assert torch.equal(made, Mechanism()(inputs).weights)


@pytest.mark.parametrize("special", Special)
@pytest.mark.parametrize("mechanism", [Mechanism(mask=Causal()), Mechanism(normalizer=Differential(1.0))])
@pytest.mark.parametrize(("queries", "keys", "size"), [(20, 9, 13), (5, 30, 11), (12, 12, 1)])
def test_thumbnails_of_a_text_that_is_not_long_are_pooled_whole_maps(
    random_inputs, monkeypatch, queries, keys, size, mechanism, special
):
    more = {"special_queries": SPECIAL_QUERIES, "special_keys": SPECIAL_KEYS}
    inputs = random_inputs(queries=queries, keys=keys, **more)
    layers, maps = (
        [Layer(LayerId("a"), Kind.SELF, inputs, mechanism)],
        maps_of_heads(inputs, mechanism, special=special),
    )
    expected = torch.stack([slow_reduced(one, size, size) for one in maps])
    with monkeypatch.context() as blocks:
        blocks.setattr("attnviz.analysis.downsampling.WHOLE_CELLS", 0)
        same(thumbnails(layers, size, special), expected)
    monkeypatch.setattr("attnviz.analysis.downsampling.downsample", None)  # head by head it would take much longer
    same(thumbnails(layers, size, special), expected)
    monkeypatch.setattr("attnviz.analysis.downsampling.WHOLE_WEIGHTS", queries * keys)  # one head at a time
    same(thumbnails(layers, size, special), expected)


# The softmax path, against whole rows ---------------------------------------------------------------------------------


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles and strips so small that a short text has many of them."""
    monkeypatch.setattr(softmax_blocks, "TILE", 480)
    monkeypatch.setattr(softmax_blocks, "STRIP", 8)
    monkeypatch.setattr(softmax_blocks, "SAMPLE", 4)
    monkeypatch.setattr(softmax_blocks, "MOST_NUMBERS", 300)
    monkeypatch.setattr("attnviz.analysis.downsampling.BLOCK", 20)


MECHANISMS = {
    "softmax": Mechanism(normalizer=Softmax(0.5)),
    "causal": Mechanism(mask=Causal()),
    "sink": Mechanism(Dot(), mask=Causal(), normalizer=Sink(torch.tensor([-1.0, 2.0]))),
    "window": Mechanism(Cosine(0.1), mask=SlidingWindow(5), normalizer=SoftmaxPlusOne()),
    "strided": Mechanism(mask=Strided(3)),
    "longformer": Mechanism(mask=Longformer(4, (3, 60))),
    "padding": Mechanism(mask=Padding(50)),
    "nothing": Mechanism(mask=Padding(0)),
    "additive": Mechanism(Additive(hidden=4), (ALiBi(),), Causal()),
    "other heads": Mechanism(mask=parse("causal & (h == 0 | q - k < 9)")),
    "drawn": Mechanism(mask=Drawn(torch.rand(70, 70, generator=torch.Generator().manual_seed(0)) < 0.2)),
    "sharp": Mechanism(Dot(), (), Causal(), Softmax(0.1)),
}
PART = {"queries": slice(13, 61), "keys": slice(5, 31)}


@pytest.mark.parametrize(
    ("name", "part", "special"),
    [
        *((name, {}, Special.SHOWN) for name in MECHANISMS),
        *((name, {}, Special.HIDDEN) for name in ("causal", "longformer", "drawn")),
        *((name, PART, Special.RESCALED) for name in MECHANISMS),
        *((name, PART, special) for name in ("sink", "padding") for special in (Special.SHOWN, Special.HIDDEN)),
    ],
    ids=str,
)
def test_a_softmax_by_tiles_is_that_of_whole_rows(random_inputs, small_tiles, name, part, special):
    inputs = random_inputs(heads=2, queries=70, keys=70, special_queries=(0, 14, 69), special_keys=(0, 14, 69), seed=4)
    mechanism = MECHANISMS[name]
    exact = replace(inputs, **{name: getattr(inputs, name).double() for name in ("query", "key", "value")})
    for cells in ((9, 7), (64, 64)):
        small = downsample(inputs, mechanism, 1, cells=cells, special=special, **part)
        whole = downsampled(exact, mechanism, 1, *cells, special, **part)
        torch.testing.assert_close(small.mass, whole.mass, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(small.maximum, whole.maximum.float(), atol=1e-5, rtol=1e-5, equal_nan=True)
        assert torch.equal(small.allowed, whole.allowed)
        weights = torch.full((70, 70), NAN)
        shown = torch.tensor(shown_positions(70, inputs.special_queries, special))  # the special keys are the same
        weights[shown[:, None], shown] = head_map(inputs, mechanism, 1, special)
        seen = small.query >= 0
        torch.testing.assert_close(
            weights[small.query[seen], small.key[seen]], small.maximum[seen], atol=5e-5, rtol=1e-6
        )


@pytest.mark.parametrize("special", Special)
def test_a_part_needs_no_other_keys_where_the_log_sum_exp_is_known(random_inputs, small_tiles, monkeypatch, special):
    inputs = random_inputs(heads=2, queries=70, keys=70, special_queries=(0, 14), special_keys=(0, 14), seed=4)
    mechanism = Mechanism(mask=Causal(), normalizer=Sink(0.5))
    whole = downsample(inputs, mechanism, cells=(7, 7), special=special)
    scores = mechanism(inputs).scores[0]
    shown = shown_positions(70, inputs.special_keys, special)
    weights = (scores[whole.queries][:, shown] - whole.lse[:, None]).exp()
    torch.testing.assert_close(weights, head_map(inputs, mechanism, 0, special).nan_to_num(0))
    part = {"queries": slice(20, 60), "keys": slice(10, 30), "special": special, "cells": (40, 5)}
    expected = downsample(inputs, mechanism, **part)
    tiles, scores = [], softmax_blocks.SoftmaxRows.scores

    def recorded(rows, part, tile, reference):
        tiles.append(part.strips.positions[tile.strips])
        return scores(rows, part, tile, reference)

    monkeypatch.setattr(softmax_blocks.SoftmaxRows, "scores", recorded)
    small = downsample(inputs, mechanism, lse=whole.lse, **part)
    assert {int(key) for one in tiles for key in one.flatten()} <= {-1, *range(10, 30)}
    same(small.mass, expected.mass)
    same(small.maximum, expected.maximum)
    with pytest.raises(ValueError, match="lse must be that of all"):
        downsample(inputs, mechanism, lse=whole.lse[1:])


def test_cells_of_two_zooms_agree_and_a_row_of_cells_adds_up_to_1(random_inputs):
    inputs, mechanism = random_inputs(heads=1, queries=600, keys=600), Mechanism(mask=Causal())
    coarse, fine = (downsample(inputs, mechanism, cells=(count, count)) for count in (10, 60))
    same(coarse.mass.sum(1), torch.ones(10))
    same(fine.mass.view(10, 6, 10, 6).sum(3).mean(1), coarse.mass)
    same(fine.maximum.nan_to_num(0).view(10, 6, 10, 6).amax((1, 3)), coarse.maximum.nan_to_num(0))
    assert torch.equal(fine.allowed.view(10, 6, 10, 6).sum((1, 3)), coarse.allowed)
    mean = mechanism(inputs).weights[0][torch.ones(600, 600).tril().bool()].mean()
    assert float((coarse.mean.nan_to_num(0) * coarse.allowed).sum() / coarse.allowed.sum()) == pytest.approx(
        float(mean)
    )


@pytest.mark.parametrize("size", [30.0, 3000.0])
def test_scores_of_any_size_are_computed(random_inputs, small_tiles, size):
    """The scores of a few keys say little about the largest, and what a mask hides nothing."""
    inputs = random_inputs(heads=1, queries=70, keys=70)
    inputs = replace(inputs, query=inputs.query * size, key=inputs.key * torch.linspace(0, 3, 70)[:, None])
    for mask in (Causal(), parse("causal & k % 7 != 0")):
        small = downsample(inputs, Mechanism(mask=mask), cells=(70, 70))
        torch.testing.assert_close(
            small.maximum.nan_to_num(0), Mechanism(mask=mask)(inputs).weights[0], atol=2e-6 * size, rtol=0
        )
        same(small.mass.sum(1), mask.matrix(70, 70).any(1).float())


def test_any_number_of_threads_gives_the_same_bits(random_inputs, small_tiles):
    inputs, mechanism = random_inputs(heads=1, queries=300, keys=300), Mechanism(mask=Causal())
    one, other = (downsample(inputs, mechanism, cells=(20, 20), engine=Local(threads)) for threads in (1, 3))
    for name in ("mass", "maximum", "query", "key", "allowed", "lse"):
        assert getattr(one, name).numpy().tobytes() == getattr(other, name).numpy().tobytes()


def test_what_a_mask_never_allows_is_not_computed(random_inputs, small_tiles, monkeypatch):
    areas, scores = [], softmax_blocks.SoftmaxRows.scores

    def recorded(*given):
        result = scores(*given)
        areas.append(result.numel())
        return result

    monkeypatch.setattr(softmax_blocks.SoftmaxRows, "scores", recorded)
    downsample(random_inputs(heads=1, queries=2000, keys=2000), Mechanism(mask=SlidingWindow(50)), cells=(16, 16))
    assert sum(areas) < 2000 * (50 + 20 + 2 * 8 + 2 * 32)


def test_a_sample_has_a_few_queries_of_each_row_of_cells(random_inputs):
    inputs, mechanism = random_inputs(heads=1, queries=100, keys=100), Mechanism(mask=Causal())
    for normalizer in (Softmax(), Sparsemax()):
        mechanism = Mechanism(mask=Causal(), normalizer=normalizer)
        small = downsample(inputs, mechanism, cells=(5, 5), sample=2)
        assert small.queries_done == 10
        weights = mechanism(inputs).weights[0]
        for i, first in enumerate(range(0, 100, 20)):
            same(small.mass[i], weights[[first + 5, first + 15]].view(2, 5, 20).sum(2).mean(0))
    assert downsample(inputs, mechanism, cells=(5, 5), sample=99).queries_done == 100


def test_progress_says_what_is_done_and_can_cancel(random_inputs, small_tiles):
    inputs, seen = random_inputs(heads=1, queries=100, keys=100), []

    def progress(done, so_far):
        seen.append((done, so_far.queries_done, int(so_far.mass.isnan().all(1).sum())))
        if done > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        downsample(inputs, Mechanism(), cells=(5, 5), progress=progress)
    assert seen == [(0.2, 20, 4), (0.4, 40, 3), (0.6, 60, 2)]
