"""The atlas of heads against slow loops over the weights that transformers returns."""

import copy
import math
from functools import cache
from typing import Any

import pytest
import torch

from attnviz.analysis.atlas_examples import EXAMPLES, RANDOM, WEIGHT, WRITTEN
from attnviz.analysis.atlas_part import AtlasPart, read_part
from attnviz.analysis.head_metrics import HEAD_METRICS
from attnviz.models.minilm import minilm
from attnviz.models.smollm2 import smollm2
from attnviz.models.texts import Texts

TEXTS = ["the cat sat on the mat because the cat was tired", "it rains and it rains", "She saw him", "a b c d e f"]
SLOW = ("Entropy", "Previous token", "First token", "Itself", "Same token before", "Largest weight", "Distance")


@cache
def eager(model: Any) -> Any:
    """A copy of the model that computes its attention by itself."""
    copied = copy.deepcopy(model.model)
    copied.set_attn_implementation("eager")
    return copied


def attentions(model: Any, batch: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [one[0].double() for one in eager(model)(**batch, output_attentions=True).attentions]


@pytest.fixture(scope="module", params=[smollm2, minilm], ids=["SmolLM2", "MiniLM"])
def read(request: pytest.FixtureRequest) -> tuple[Any, Texts, AtlasPart]:
    model = request.param()
    texts = Texts(model, TEXTS)
    return model, texts, read_part(model, texts)


def ordinary(inputs: Any, weights: torch.Tensor) -> torch.Tensor:
    """Weights without keys that are the first token, special, or the query itself."""
    kept = weights.clone()
    kept[:, :, [0, *inputs.source.special]] = 0
    return kept - torch.diag_embed(kept.diagonal(dim1=1, dim2=2))


def maps(model: Any, texts: Texts, number: int) -> torch.Tensor:
    """The ordinary weights of all heads in a text."""
    return torch.cat([ordinary(texts.inputs[number], one) for one in attentions(model, texts[number])])


def slow_metrics(ids: list[int], weights: torch.Tensor) -> dict[str, float]:
    """Metrics of one head, by loops."""
    count, total = len(ids), dict.fromkeys(SLOW, 0.0)
    rows = dict.fromkeys(SLOW, 0)
    for q in range(count):
        row = weights[q].tolist()
        total["Entropy"] -= sum(w * math.log2(w) for w in row if w > 0)
        total["Distance"] += sum(w * abs(q - k) for k, w in enumerate(row))
        total["Largest weight"] += max(row)
        for name in ("Entropy", "Distance", "Largest weight"):
            rows[name] += 1
        if sum(w > 0 for w in row) > 1:  # not 1 by the mask
            for name, key in (("First token", 0), ("Itself", q)):
                total[name] += row[key]
                rows[name] += 1
        if q:
            total["Previous token"] += row[q - 1]
            rows["Previous token"] += 1
        before = [k for k in range(q) if ids[k] == ids[q]]
        total["Same token before"] += sum(row[k] for k in before)
        rows["Same token before"] += bool(before)
    return {name: total[name] / rows[name] if rows[name] else math.nan for name in SLOW}


def test_the_metrics_of_each_text_are_those_of_the_models_own_weights(read: Any) -> None:
    model, texts, part = read
    names = [metric.name for metric in HEAD_METRICS]
    numbers = part.texts.tolist()
    assert sorted(numbers) == list(range(len(TEXTS)))
    for number in range(len(TEXTS)):
        own = attentions(model, texts[number])
        ids, values = texts[number]["input_ids"][0].tolist(), part.values[numbers.index(number)]
        for head in (0, 5, len(part.heads) - 1):
            layer = [*dict.fromkeys(part.layers)].index(part.layers[head])
            expected = slow_metrics(ids, own[layer][part.heads[head]])
            got = {name: float(values[names.index(name), head]) for name in SLOW}
            assert got == pytest.approx(expected, abs=2e-4, nan_ok=True)
    torch.testing.assert_close(
        part.sums / part.counts, part.values.double().nanmean(0), equal_nan=True, rtol=0, atol=1e-5
    )


def test_the_examples_are_the_largest_of_each_text(read: Any) -> None:
    model, texts, part = read
    best = [
        torch.cat([ordinary(texts.inputs[i], one) for one in attentions(model, texts[i])]) for i in range(len(TEXTS))
    ]
    expected = torch.stack([one.flatten(1).max(1).values for one in best], 1).sort(1, descending=True).values
    found = part.examples[WEIGHT]
    torch.testing.assert_close(found.order[:, : len(TEXTS)].clamp(min=0).double(), expected, rtol=0, atol=1e-4)
    for kind in (WEIGHT, WRITTEN, RANDOM):
        found = part.examples[kind]
        for head, pair in (found.order > -torch.inf).nonzero().tolist():
            text, query, key = found.places[head, pair].tolist()
            weight = float(best[text][head, query, key])
            assert weight > 0
            assert float(found.weight[head, pair]) == pytest.approx(weight, abs=1e-4)
        assert all(len({*row.tolist()}) == len(TEXTS) for row in found.places[..., 0])  # different texts


def test_what_is_written_is_the_weight_times_the_norm_of_its_value() -> None:
    model, texts = smollm2(), Texts(smollm2(), TEXTS[:1])
    found, (layer, head), values = read_part(model, texts).examples[WRITTEN], (11, 4), {}
    module = eager(model).model.layers[layer].self_attn
    hook = module.v_proj.register_forward_hook(lambda _module, _args, output: values.update(value=output[0]))
    own = attentions(model, texts[0])[layer]
    hook.remove()
    heads = own.shape[0]
    width = values["value"].shape[-1] // (heads // 3)
    value = values["value"][:, head // 3 * width : (head // 3 + 1) * width]
    norms = (value @ module.o_proj.weight[:, head * width : (head + 1) * width].T).norm(dim=-1).double()
    expected = (ordinary(texts.inputs[0], own)[head] * norms).max()
    assert float(found.order[layer * heads + head, 0]) == pytest.approx(float(expected), rel=1e-4)


def test_tokens_are_counted_as_they_are_looked_at_and_from(read: Any) -> None:
    model, texts, part = read
    at, looked = torch.zeros(2, len(part.heads), int(part.tokens.max()) + 1).double()
    for number in range(len(TEXTS)):
        weights = maps(model, texts, number)
        ids = texts[number]["input_ids"][0]
        at.index_add_(1, ids, weights.sum(1))
        looked.index_add_(1, ids, weights.sum(2))
    torch.testing.assert_close(part.looked_at.double(), at[:, part.tokens], rtol=0, atol=1e-3)
    torch.testing.assert_close(part.looked_from.double(), looked[:, part.tokens], rtol=0, atol=1e-3)
    ids = torch.cat([batch["input_ids"][0] for batch in texts])
    assert part.occurrences.tolist() == [int((ids == token).sum()) for token in part.tokens]


def test_heads_are_alike_by_the_cosine_of_their_weights(read: Any) -> None:
    model, texts, part = read
    expected = torch.zeros(len(part.heads), len(part.heads)).double()
    for number in range(len(TEXTS)):
        rows = maps(model, texts, number).flatten(1)
        rows = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-30)
        expected += rows @ rows.T
    torch.testing.assert_close(part.alike.double(), expected, rtol=0, atol=1e-3)
    assert bool((part.compared == len(TEXTS)).all())


def test_parts_are_merged_to_what_is_counted_at_once(read: Any) -> None:
    model, _texts, whole = read
    parts = [read_part(model, Texts(model, TEXTS[:1])), read_part(model, Texts(model, TEXTS[1:]), first=1)]
    merged = AtlasPart.merged(parts)
    for name in ("counts", "sums", "squares", "tokens", "occurrences", "looked_at", "looked_from", "alike", "compared"):
        torch.testing.assert_close(getattr(merged, name), getattr(whole, name), rtol=1e-4, atol=1e-4)
    for kind in (WEIGHT, RANDOM):
        torch.testing.assert_close(merged.examples[kind].order, whole.examples[kind].order, rtol=1e-4, atol=1e-5)
    assert merged.examples[RANDOM].order.shape[1] <= EXAMPLES


def test_random_examples_are_drawn_by_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    model, count = minilm(), 400
    texts = Texts(model, [TEXTS[0]] * count)
    monkeypatch.setattr("attnviz.analysis.atlas_examples.EXAMPLES", count)
    weights = maps(model, texts, 0)
    drawn = torch.zeros_like(weights)
    for places in read_part(model, texts, norms=[], metrics=HEAD_METRICS[:1]).examples[RANDOM].places.unbind(1):
        drawn[torch.arange(len(places)), places[:, 1].long(), places[:, 2].long()] += 1
    queries = (weights.sum(-1) > 0).sum(-1, keepdim=True)[..., None]
    expected = count * weights / weights.sum(-1, keepdim=True).clamp(min=1e-30) / queries
    squares = ((drawn - expected) ** 2 / expected.clamp(min=1e-9))[expected > 5]
    assert float(squares.mean()) == pytest.approx(1, abs=0.1)  # as of a multinomial distribution
