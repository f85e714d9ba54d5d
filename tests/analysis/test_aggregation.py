"""Aggregation of heads, layers and queries, against slow loops and what the papers' authors compute."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz import Inputs, Mechanism
from attnviz.analysis.aggregation import aggregate_heads, aggregate_queries, rollout, value_weighted_map
from attnviz.analysis.head_maps import Aggregate, Special, head_map
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import Causal, Full, Padding, SlidingWindow
from attnviz.mechanism import BLOCK
from attnviz.normalizers import Differential, Sink, Softmax

NAN = math.nan


def stack(random_inputs, masks=(Full(),) * 3, size=6, normalizer=None, **more) -> list[Layer]:
    """Layers that have these masks."""
    return [
        Layer(
            LayerId("encoder", i),
            Kind.SELF,
            random_inputs(heads=2, queries=size, keys=size, seed=i, **more),
            Mechanism(mask=mask, normalizer=normalizer or Softmax()),
        )
        for i, mask in enumerate(masks)
    ]


@pytest.mark.parametrize("special", Special)
@pytest.mark.parametrize(("how", "of"), list(zip(Aggregate, (np.mean, np.max, np.min), strict=True)))
def test_chosen_heads_of_several_layers_together(random_inputs, how, of, special):
    masks = Causal(), SlidingWindow(2), Padding(1)
    layers = stack(random_inputs, masks, special_queries=(0,), special_keys=(0, 5))
    chosen = [(0, 1), (2, 0), (2, 1), (1, 0)]
    maps = [head_map(layers[i].inputs, layers[i].mechanism, head, special).numpy() for i, head in chosen]
    expected = np.full_like(maps[0], NAN)
    for at in np.ndindex(*expected.shape):
        cells = [one[at] for one in maps]
        if not np.isnan(cells).all():
            expected[at] = of(np.nan_to_num(cells))
    made = aggregate_heads(layers, chosen, how, special)
    np.testing.assert_allclose(made, expected, atol=1e-7)
    assert np.isnan(expected).any()


def test_heads_that_do_not_fit_together_are_refused_in_words(random_inputs):
    layers = stack(random_inputs)
    layers[1] = Layer(LayerId("decoder", 0, cross=True), Kind.CROSS, random_inputs(queries=4, keys=6), Mechanism())
    with pytest.raises(ValueError, match="4 queries by 6 keys and 6 queries by 6 keys"):
        aggregate_heads(layers, [(0, 0), (1, 0)], Aggregate.MEAN)
    with pytest.raises(ValueError, match="No head is chosen"):
        aggregate_heads(layers, [], Aggregate.MEAN)


def authors_rollout(layers) -> np.ndarray:
    """Abnar & Zuidema 2020, as their code has it: A + I, rows divided by their sums, multiplied layer upon layer."""
    joint = None
    for layer in layers:
        mean = layer.mechanism(layer.inputs).weights.double().mean(0).numpy()
        augmented = mean + np.eye(len(mean))
        augmented = augmented / augmented.sum(-1, keepdims=True)
        joint = augmented if joint is None else augmented @ joint
    return joint


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("mask", [Full(), Causal(), SlidingWindow(2), Padding(0)], ids=repr)
def test_rollout_is_that_of_its_authors(random_inputs, mask, count):
    layers = stack(random_inputs, [mask] * count)
    made = rollout(layers)
    np.testing.assert_allclose(made, authors_rollout(layers), atol=1e-6)
    np.testing.assert_allclose(made.sum(-1), 1, atol=1e-6)
    for rows in ([4], [0, 5], slice(2, 4)):
        np.testing.assert_allclose(rollout(layers, rows), made[rows], atol=1e-6)


def test_where_nothing_is_looked_at_the_token_keeps_itself(random_inputs):
    layers = stack(random_inputs, [Padding(0)] * 3)
    assert torch.equal(rollout(layers), torch.eye(6))
    sunk = stack(random_inputs, normalizer=Sink(30.0))
    np.testing.assert_allclose(rollout(sunk), authors_rollout(sunk), atol=1e-6)


def test_rollout_of_long_texts_goes_by_blocks_of_rows(random_inputs, monkeypatch):
    count = BLOCK + 60
    layers = stack(random_inputs, [Causal()] * 2, size=count)
    expected, held, call = authors_rollout(layers), [], Mechanism.__call__

    def recorded(*asked, **more):
        attention = call(*asked, **more)
        held.append(attention.weights.shape[1])
        return attention

    monkeypatch.setattr(Mechanism, "__call__", recorded)
    np.testing.assert_allclose(rollout(layers), expected, atol=1e-6)
    assert max(held) <= BLOCK
    held.clear()
    np.testing.assert_allclose(rollout(layers, [BLOCK - 1]), expected[[BLOCK - 1]], atol=1e-6)
    assert held == [BLOCK] * 4  # two heads of two layers; nothing after the row is computed under a causal mask


def test_layers_that_cannot_be_stacked_are_refused_in_words(random_inputs):
    layers = stack(random_inputs)
    cross = Layer(LayerId("decoder", 0, cross=True), Kind.CROSS, layers[0].inputs, Mechanism())
    longer = Layer(LayerId("decoder", 1), Kind.SELF, random_inputs(queries=7, keys=7), Mechanism())
    for other, said in ((cross, "cross attention"), (longer, "7 queries and 7 keys")):
        with pytest.raises(ValueError, match=said):
            rollout([*layers, other])
    with pytest.raises(ValueError, match=r"^Rollout needs weights of 0 or more, and .* has negative ones"):
        rollout(stack(random_inputs, normalizer=Differential()))
    with pytest.raises(ValueError, match="no layer"):
        rollout([])


@pytest.mark.parametrize("special", [Special.SHOWN, Special.HIDDEN])
@pytest.mark.parametrize("mechanism", [Mechanism(), Mechanism(mask=Causal()), Mechanism(normalizer=Differential())])
def test_value_weighted_is_the_length_of_what_a_key_adds(random_inputs, mechanism, special):
    inputs = random_inputs(heads=4, kv_heads=2, queries=5, keys=5, special_queries=(0,), special_keys=(0, 3))
    attention = mechanism(inputs)
    left = [i for i in range(5) if special == Special.SHOWN or i not in (0, 3)]
    for head in range(4):
        made = value_weighted_map(inputs, mechanism, head, special)
        for i, q in enumerate(q for q in range(5) if special == Special.SHOWN or q != 0):
            for j, k in enumerate(left):
                added = attention.weights[head, q, k] * inputs.value[head // 2, k]
                length = math.sqrt(sum(float(x) ** 2 for x in added))
                allowed = bool(attention.allowed[head, q, k])
                assert float(made[i, j]) == pytest.approx(length if allowed else NAN, abs=1e-6, nan_ok=True)


def test_a_key_with_weight_and_no_value_adds_nothing():
    value = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    inputs = Inputs(torch.zeros(1, 1, 2), torch.zeros(1, 2, 2), value, ("q",), ("[SEP]", "b"))
    torch.testing.assert_close(value_weighted_map(inputs, Mechanism(), 0), torch.tensor([[0.0, 2.5]]))


@given(data=st.data())
def test_several_queries_and_several_keys_are_added_up(data):
    queries, keys = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    cells = data.draw(
        st.lists(st.floats(-1, 1, width=32) | st.just(NAN), min_size=queries * keys, max_size=queries * keys)
    )
    weights = torch.tensor(cells).view(queries, keys)
    chosen = data.draw(st.lists(st.integers(0, queries - 1), min_size=1, unique=True))
    for how, of in (("sum", sum), (Aggregate.MEAN, lambda one: sum(one) / len(one))):
        expected = []
        for k in range(keys):
            column = [float(weights[q, k]) for q in chosen]
            all_nan = all(map(math.isnan, column))
            expected.append(NAN if all_nan else of([0 if math.isnan(one) else one for one in column]))
        torch.testing.assert_close(aggregate_queries(weights, chosen, how), torch.tensor(expected), equal_nan=True)


def test_nothing_selected_is_refused_in_words():
    with pytest.raises(ValueError, match="No token is selected"):
        aggregate_queries(torch.ones(2, 2), [])
