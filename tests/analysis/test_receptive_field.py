import re
from collections import deque

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.analysis.receptive_field import field_sizes, layers_needed
from attnviz.masks import MASKS, Causal, Full, Padding, SlidingWindow


def slow_reach(allowed, layers):
    """Breadth first from each query, along what it may look at."""
    n = len(allowed)
    needed = [[0] * n for _ in range(n)]
    for query in range(n):
        found, queue = {query: 0}, deque([query])
        while queue:
            here = queue.popleft()
            for key in range(n):
                if allowed[here][key] and key not in found:
                    found[key] = found[here] + 1
                    queue.append(key)
        for key, steps in found.items():
            needed[query][key] = max(steps, 1) if max(steps, 1) <= layers else 0
    return needed


@given(st.integers(1, 8), st.integers(1, 9), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.2, 0.4, 1.0]))
def test_reach_as_a_breadth_first_search_finds_it(n, layers, seed, share):
    allowed = torch.rand(n, n, generator=torch.Generator().manual_seed(seed)) < share
    assert layers_needed(allowed, layers).tolist() == slow_reach(allowed.tolist(), layers)


@pytest.mark.parametrize("mask", [kind() for kind in MASKS], ids=repr)
def test_every_mask_of_the_menu(mask):
    allowed = mask.matrix(12, 12)
    assert layers_needed(allowed, 5).tolist() == slow_reach(allowed.tolist(), 5)


def slow_stack(masks, layers):
    """Layer by layer, the positions of the first that each position of the last is made of."""
    n = len(masks[0])
    needed, fields = [[0] * n for _ in range(n)], [{query} for query in range(n)]
    for layer in range(1, layers + 1):
        allowed = masks[(layer - 1) % len(masks)]
        seen = [[key for key in range(n) if allowed[query][key]] for query in range(n)]
        fields = [fields[query].union(*(fields[key] for key in seen[query])) for query in range(n)]
        for query, field in enumerate(fields):
            for key in field:
                needed[query][key] = needed[query][key] or layer
    return needed


@given(st.integers(1, 8), st.integers(1, 9), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.3]))
def test_a_sequence_of_masks_is_repeated_over_the_layers(n, layers, count, seed, share):
    masks = torch.rand(count, n, n, generator=torch.Generator().manual_seed(seed)) < share
    assert layers_needed(list(masks), layers).tolist() == slow_stack(masks.tolist(), layers)


def test_a_global_layer_after_five_local_ones_reaches_everything():
    local, whole = SlidingWindow(3).matrix(40, 40), Causal().matrix(40, 40)
    each = field_sizes(layers_needed([local] * 5 + [whole], 7), 7).each[:, -1]
    assert each.tolist() == [3, 5, 7, 9, 11, 40, 40]


def test_masks_of_several_sizes_or_none_are_refused():
    for masks, words in (([], "none"), ([Full().matrix(3, 3), Full().matrix(4, 4)], "3 × 3, 4 × 4")):
        with pytest.raises(ValueError, match=f"Give at least one mask, and masks of one size; it got {words}."):
            layers_needed(masks, 2)


@pytest.mark.parametrize("size", [0, 1, 2, 4])
@pytest.mark.parametrize("layers", [1, 2, 5, 40])
def test_a_sliding_window_grows_by_its_size_less_one_with_each_layer(size, layers):
    n = 150  # more than one block
    each = field_sizes(layers_needed(SlidingWindow(size).matrix(n, n), layers), layers).each
    for layer in range(1, layers + 1):
        field = max(size - 1, 0) * layer + 1
        assert each[layer - 1].tolist() == [min(query + 1, field) for query in range(n)]


def test_what_two_layers_reach_is_what_attention_twice_depends_on():
    """The inputs that the output of two layers with a residual stream has a gradient for."""
    allowed = (SlidingWindow(3) & ~Padding(1)).matrix(7, 7)
    x = torch.randn(7, dtype=torch.float64, requires_grad=True)

    def layer(x):
        scores = torch.where(allowed, x[:, None] * x, -torch.inf)
        return x + torch.where(allowed.any(-1, keepdim=True), scores, 0).softmax(-1).masked_fill(~allowed, 0) @ x

    depends = torch.autograd.functional.jacobian(lambda x: layer(layer(x)), x) != 0
    assert torch.equal(depends, layers_needed(allowed, 2) > 0)


def test_seen_says_who_sees_most_the_middle_and_least():
    counted = field_sizes(layers_needed(Causal().matrix(4, 4), 2), 3)
    assert counted.each.tolist() == [[1, 2, 3, 4]] * 3
    assert counted.most.tolist() == [4] * 3
    assert counted.median.tolist() == [2.5] * 3
    assert counted.least.tolist() == [1] * 3


def test_an_array_is_taken_too():
    assert layers_needed(np.tri(3, dtype=bool), 1).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("shape", "layers", "sentence"),
    [
        ((3, 5), 1, "so there must be as many of both; here there are 3 queries and 5 keys."),
        ((3, 3), 0, "Give at least 1 layer; it got 0."),
    ],
)
def test_what_cannot_be_stacked_is_refused_in_words(shape, layers, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        layers_needed(torch.ones(shape, dtype=torch.bool), layers)
