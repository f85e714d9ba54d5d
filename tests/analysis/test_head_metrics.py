"""What heads do in numbers, against slow loops over the weights and against what others define."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.distributions import Categorical

from attnviz import Inputs, Mechanism
from attnviz.analysis.head_maps import row_summary
from attnviz.analysis.head_metrics import HEAD_METRICS, HeadMetricTable, head_metrics
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import Causal, Full, Mask, Padding, SlidingWindow
from attnviz.mechanism import BLOCK
from attnviz.normalizers import Differential, Hard, Identity, Sigmoid, Sink, Softmax
from attnviz.scores import Dot, ScaledDot

NAMES = [measure.name for measure in HEAD_METRICS]
ONE_SEQUENCE = {"Distance", "Itself", "Previous token", "Next token", "Same token before", "Induction"}
WORDS = ("[CLS]", "a", "b", "a", "a", "b", "c", "a", "[SEP]")
SPECIAL = (0, 8)


@dataclass(frozen=True)
class OddQueriesSeeNothing(Mask):
    def __call__(self, b, h, q, k):
        return (q % 2 == 0) & (k <= q)


def layer_metrics(inputs, mechanism, **options) -> torch.Tensor:
    table = head_metrics([Layer(LayerId(), Kind.SELF, inputs, mechanism)], **options)
    return torch.from_numpy(np.stack([*table.values.values()]))


def text(heads: int = 3, tokens: tuple[str, ...] = WORDS, special: tuple[int, ...] = SPECIAL, seed: int = 0) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (1.5 * torch.randn(heads, len(tokens), 8, generator=generator) for _ in range(3))
    return Inputs(query, key, value, tokens, tokens, special, special)


def given(weights: torch.Tensor, tokens: tuple[str, ...]) -> tuple[Inputs, Mechanism]:
    """A head that has just these weights."""
    size = len(tokens)
    inputs = Inputs(torch.eye(size)[None], weights.mT[None].contiguous(), torch.ones(1, size, 1), tokens, tokens)
    return inputs, Mechanism(Dot(), normalizer=Identity())


def slow(
    inputs: Inputs, mechanism: Mechanism, head: int, left_q: tuple[int, ...] = (), left_k: tuple[int, ...] = ()
) -> tuple[dict, dict]:
    """Every measure, a weight at a time: Σ amount / Σ out of, both in Python's floats; and on how many queries it
    rests."""
    attention, tokens = mechanism(inputs), inputs.key_tokens
    amount, out_of, rests_on = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0)
    keys = [k for k in range(inputs.keys) if k not in left_k]
    for q in range(inputs.queries):
        if q in left_q or not any(attention.allowed[head, q, k] for k in keys):
            continue
        weights = {k: abs(float(attention.weights[head, q, k])) for k in keys}
        mass = sum(weights.values())

        def add(name: str, part: float, whole: float) -> None:
            amount[name] += part
            out_of[name] += whole
            rests_on[name] += 1

        def share(name: str, counting: list[int], q: int = q, weights: dict = weights, mass: float = mass) -> None:
            there = [k for k in counting if k in weights]
            if there and any(attention.allowed[head, q, k] for k in keys if k not in there):
                add(name, sum(weights[k] for k in there), mass)

        add("Row sum", mass, 1.0)
        if mass == 0:
            continue
        add("Entropy", mass * -sum(w / mass * math.log2(w / mass) for w in weights.values() if w > 0), mass)
        add("Largest weight", mass * max(weights.values()) / mass, mass)
        add("Distance", mass * sum(w / mass * abs(q - k) for k, w in weights.items()), mass)
        share("Itself", [q])
        share("Previous token", [q - 1])
        share("Next token", [q + 1])
        share("First token", [0])
        share("Special tokens", list(inputs.special_keys))
        share("Same token before", [k for k in range(q) if tokens[k] == tokens[q]])
        share("Induction", [k + 1 for k in range(q) if tokens[k] == tokens[q] and k + 1 < q])
    return {name: amount[name] / out_of[name] if out_of[name] else math.nan for name in NAMES}, rests_on


@pytest.mark.parametrize("excluded_keys", ["none", "first", "special"])
@pytest.mark.parametrize("excluded_queries", ["none", "first", "special"])
@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism(),
        Mechanism(mask=Causal()),
        Mechanism(mask=SlidingWindow(2), normalizer=Sink(1.0)),
        Mechanism(mask=OddQueriesSeeNothing(), normalizer=Sigmoid()),
        Mechanism(mask=Padding(3), normalizer=Differential()),
        Mechanism(normalizer=Hard()),
    ],
    ids=repr,
)
def test_every_measure_is_what_a_slow_loop_finds(mechanism, excluded_queries, excluded_keys) -> None:
    inputs, left = text(), {"none": (), "first": (0,), "special": SPECIAL}
    if isinstance(mechanism.mask, Padding):  # its queries are left out as its keys are
        left = {name: (*places, *range(3, inputs.queries)) for name, places in left.items()}
    layer = Layer(LayerId(), Kind.SELF, inputs, mechanism)
    found = head_metrics([layer], excluded_queries=excluded_queries, excluded_keys=excluded_keys)
    for head in range(inputs.heads):
        expected, rests_on = slow(inputs, mechanism, head, left[excluded_queries], left[excluded_keys])
        for name in NAMES:
            assert found.values[name][head] == pytest.approx(expected[name], abs=2e-6, nan_ok=True), name
            # A query without any attention adds nothing, but to the sum of rows.
            assert found.positions[name][head] == rests_on[name], name


def test_with_softmax_entropy_and_confidence_are_plain_means_over_queries() -> None:
    """Clark et al. 2019 and Voita et al. 2019 take the mean of each row's entropy and of its largest weight."""
    inputs, mechanism = text(), Mechanism(mask=Causal())
    weights = mechanism(inputs).weights
    found = head_metrics([Layer(LayerId(), Kind.CAUSAL, inputs, mechanism)]).values
    entropy = Categorical(weights.double()).entropy().mean(-1) / math.log(2)
    np.testing.assert_allclose(found["Entropy"], entropy, atol=1e-6)
    np.testing.assert_allclose(found["Largest weight"], weights.amax(-1).mean(-1), atol=1e-6)
    by_rows = [np.mean([row_summary(one).entropy for one in head]) for head in weights]
    np.testing.assert_allclose(found["Entropy"], by_rows, atol=1e-6)


def test_distance_is_that_of_vig_and_belinkov() -> None:
    """Σ α |i − j| / Σ α over all queries and keys; with a sink it is no plain mean of rows."""
    inputs, mechanism = text(), Mechanism(mask=Causal(), normalizer=Sink(2.0))
    weights = mechanism(inputs).weights.double()
    apart = (torch.arange(9)[:, None] - torch.arange(9)).abs()
    expected = (weights * apart).sum((-1, -2)) / weights.sum((-1, -2))
    found = head_metrics([Layer(LayerId(), Kind.CAUSAL, inputs, mechanism)]).values["Distance"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_shares_on_tokens_are_those_of_transformer_lens_head_detector() -> None:
    """Its “mul” score of a pattern is Σ attention · pattern / Σ attention, over all queries; ours is over those that
    have such a key. In its induction pattern a key may be the query itself, after two equal tokens: there are none."""
    words = torch.randperm(25, generator=torch.Generator().manual_seed(1)).tolist()
    tokens = tuple(map(str, words * 4))
    inputs = text(2, tokens, ())
    found = head_metrics([Layer(LayerId(), Kind.CAUSAL, inputs, Mechanism(mask=Causal()))]).values
    weights = Mechanism(mask=Causal())(inputs).weights.double()
    ids = torch.tensor(words * 4)
    duplicate = ((ids[:, None] == ids) & ~torch.eye(100, dtype=torch.bool)).tril()
    induction = torch.cat([torch.zeros(100, 1, dtype=torch.bool), duplicate[:, :-1]], dim=1).tril()
    previous = torch.ones(100, 100, dtype=torch.bool).tril(-1).triu(-1)
    for name, pattern in (
        ("Same token before", duplicate),
        ("Induction", induction),
        ("Previous token", previous),
    ):
        score = (weights * pattern).sum((-1, -2)) / weights.sum((-1, -2))
        np.testing.assert_allclose(found[name] * pattern.any(-1).sum().item() / 100, score, atol=1e-6)


def test_an_induction_head_on_repeated_random_tokens_has_a_share_of_1() -> None:
    """The sequence of Olsson et al. 2022: 25 random tokens four times, after a start of sequence."""
    words = torch.randperm(500, generator=torch.Generator().manual_seed(2))[:25].tolist()
    tokens = ("<s>", *map(str, words * 4))
    weights = torch.zeros(101, 101)
    for q in range(101):
        earlier = [k + 1 for k in range(q) if tokens[k] == tokens[q]]
        weights[q, earlier or [0]] = 1 / len(earlier or [0])
    inputs, mechanism = given(weights, tokens)
    values = dict(zip(NAMES, layer_metrics(inputs, mechanism, excluded_queries="first")[:, 0].tolist(), strict=True))
    assert values["Induction"] == pytest.approx(1)
    assert values["Same token before"] == values["Itself"] == 0
    # Their score is the mean of all entries, of which a query has one for each earlier repeat; 75 queries have some.
    entries = [weights[q, k + 1] for q in range(101) for k in range(q) if tokens[k] == tokens[q]]
    assert float(torch.stack(entries).mean()) == pytest.approx(values["Induction"] * 75 / len(entries))


def test_a_share_that_is_1_by_the_mask_is_left_out() -> None:
    """Under a causal mask the first query has no key but itself, whatever the head does."""
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.2, 0.8, 0.0], [0.1, 0.3, 0.6]])
    tokens = tuple("abc")
    inputs, mechanism = given(weights, tokens)
    by_mask = Mechanism(Dot(), mask=Causal(), normalizer=Identity())
    for one, first, itself, queries in ((mechanism, 1.3 / 3, 2.4 / 3, 3), (by_mask, 0.3 / 2, 1.4 / 2, 2)):
        found = head_metrics([Layer(LayerId(), Kind.SELF, inputs, one)])
        assert found.values["First token"][0] == pytest.approx(first)
        assert found.values["Itself"][0] == pytest.approx(itself)
        assert found.positions["First token"][0] == found.positions["Itself"][0] == queries
        assert found.values["Previous token"][0] == pytest.approx((0.2 + 0.3) / 2)


def test_cross_attention_has_no_measures_that_need_one_sequence(random_inputs) -> None:
    inputs = random_inputs(queries=5, keys=7, special_keys=(6,))
    same = text(2, tuple("abcde"), (4,))
    found = head_metrics([Layer(LayerId("a"), Kind.CROSS, one, Mechanism()) for one in (inputs, same)])
    for name, values in found.values.items():
        assert np.isnan(values).all() == (name in ONE_SEQUENCE), name
    # Also where nobody says so, but the numbers of queries and keys do.
    assert torch.isnan(layer_metrics(inputs, Mechanism())[NAMES.index("Itself")]).all()


def test_a_table_has_every_head_of_every_layer_in_order() -> None:
    layers = [
        Layer(LayerId("a"), Kind.SELF, text(3), Mechanism(mask=Causal())),
        Layer(LayerId("b"), Kind.SELF, text(2, seed=1), Mechanism()),
    ]
    found = head_metrics(layers)
    assert found.layers.tolist() == [0, 0, 0, 1, 1]
    assert found.heads.tolist() == [0, 1, 2, 0, 1]
    assert list(found.values) == NAMES
    both = torch.cat([layer_metrics(layer.inputs, layer.mechanism) for layer in layers], 1)
    np.testing.assert_array_equal(np.stack(list(found.values.values())), both.numpy())
    assert list(head_metrics(layers, metrics=HEAD_METRICS[:2]).values) == NAMES[:2]


def test_heads_that_share_keys_are_measured_with_their_own_queries(random_inputs) -> None:
    inputs = random_inputs(heads=4, kv_heads=2, queries=6, keys=6)
    found = layer_metrics(inputs, Mechanism())
    for head in range(4):
        expected, _ = slow(inputs, Mechanism(), head)
        assert found[:, head].tolist() == pytest.approx([expected[name] for name in NAMES], abs=2e-6, nan_ok=True)


def test_finished_layers_are_reported_while_the_others_are_computed() -> None:
    layers = [Layer(LayerId(index=i), Kind.SELF, text(heads, seed=i), Mechanism()) for i, heads in enumerate((3, 1, 2))]
    reports = []
    whole = head_metrics(layers, progress=lambda *report: reports.append(report))
    shares, tables = zip(*reports, strict=True)
    assert shares[0] == 0
    assert list(shares) == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert sorted({len(table.heads) for table in tables}) == [0, 3, 4]
    for table in tables:
        done = len(table.heads)
        np.testing.assert_array_equal(table.layers, whole.layers[:done])
        np.testing.assert_array_equal(table.heads, whole.heads[:done])
        for name in NAMES:
            np.testing.assert_array_equal(table.values[name], whole.values[name][:done])
            np.testing.assert_array_equal(table.positions[name], whole.positions[name][:done])


def test_a_mean_of_tables_rests_on_the_positions_of_all() -> None:
    tables = [head_metrics([Layer(LayerId(), Kind.SELF, text(seed=seed), Mechanism())]) for seed in range(3)]
    mean = HeadMetricTable.mean(tables)
    for name in NAMES:
        np.testing.assert_allclose(mean.values[name], sum(table.values[name] for table in tables) / 3)
        assert mean.positions[name].tolist() == [3 * count for count in tables[0].positions[name]]


def test_long_texts_are_measured_by_blocks_of_rows_and_give_the_same(random_inputs, monkeypatch) -> None:
    count = BLOCK + 90
    inputs = random_inputs(queries=count, keys=count)
    tokens = tuple(str(i % 37) for i in range(count))
    inputs = Inputs(inputs.query, inputs.key, inputs.value, tokens, tokens, (0,), (0,))
    mechanism, held, call = Mechanism(ScaledDot(1.0), mask=Causal()), [], Mechanism.__call__

    def recorded(*asked, **more):
        attention = call(*asked, **more)
        held.append(attention.weights.numel())
        return attention

    weights = mechanism(inputs).weights.double()
    monkeypatch.setattr(Mechanism, "__call__", recorded)
    found = head_metrics([Layer(LayerId(), Kind.CAUSAL, inputs, mechanism)], excluded_queries="first").values
    assert max(held) <= BLOCK * count
    ids = np.array([i % 37 for i in range(count)])
    q, k = np.arange(count)[1:, None], np.arange(count)
    attention = weights[:, 1:].numpy()
    logs = np.log2(attention, where=attention > 0, out=np.zeros_like(attention))
    np.testing.assert_allclose(found["Entropy"], -(attention * logs).sum(-1).mean(-1), atol=1e-5)
    np.testing.assert_allclose(found["Distance"], (attention * abs(q - k)).sum(-1).mean(-1), rtol=1e-6)
    np.testing.assert_allclose(found["First token"], attention[:, :, 0].mean(-1), rtol=1e-5)
    np.testing.assert_allclose(found["Previous token"], (attention * (k == q - 1)).sum(-1).mean(-1), rtol=1e-5)
    after = (ids[k - 1] == ids[q]) & (k > 0) & (k < q)
    np.testing.assert_allclose(found["Induction"], (attention * after).sum(-1)[:, after.any(-1)].mean(-1), rtol=1e-5)


@pytest.mark.parametrize("mechanism", [Mechanism(mask=Padding(0)), Mechanism(normalizer=Sink(1000.0))], ids=repr)
def test_a_head_that_gives_no_attention_has_no_measures(mechanism) -> None:
    found = dict(zip(NAMES, layer_metrics(text(), mechanism)[:, 0].tolist(), strict=True))
    looks_nowhere = isinstance(mechanism.mask, Full)
    assert found.pop("Row sum") == pytest.approx(0 if looks_nowhere else math.nan, nan_ok=True)
    assert all(map(math.isnan, found.values()))


def test_half_precision_is_counted_in_single() -> None:
    inputs = text(1)
    half = Inputs(*(x.half() for x in (inputs.query, inputs.key, inputs.value)), WORDS, WORDS, SPECIAL, SPECIAL)
    mechanism = Mechanism(normalizer=Softmax(0.5))
    torch.testing.assert_close(layer_metrics(half, mechanism), layer_metrics(inputs, mechanism), atol=0.01, rtol=0.01)


def test_every_measure_has_a_name_of_its_own_a_unit_and_a_help() -> None:
    assert len(set(NAMES)) == len(HEAD_METRICS)
    for measure in HEAD_METRICS:
        assert measure.unit in ("share", "bits", "tokens")
        assert type(measure).__doc__
        assert measure == type(measure)()
        assert measure.one_sequence == (measure.name in ONE_SEQUENCE)
