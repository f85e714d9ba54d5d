"""Many texts: each is read as it would be alone, and numbers of all of them are those of statistics."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import attnviz
from attnviz.attribution import attribute
from attnviz.effects import (
    Logit,
    LogitDifference,
    Loss,
    ablation,
    ablations,
    compensations,
    estimates,
    group_effects,
    knockout,
    layer_predictions,
    logit_lens,
    mlp_ablations,
    patch,
    patch_paths,
)
from attnviz.models.minilm import minilm
from attnviz.models.texts import PerText, Texts
from tests.support.output_projections import TINY, tiny

BATCHES = [torch.tensor([[13, 44, 6, 21]]), torch.tensor([[3, 1, 4]]), torch.tensor([[5, 9, 2, 6, 5]])]
CORRUPTED = [torch.tensor([[13, 40, 6, 21]]), torch.tensor([[3, 7, 4]]), torch.tensor([[5, 9, 8, 6, 5]])]
METRICS = PerText((LogitDifference(7, 9), LogitDifference(3, 1), Logit(4)))
OTHERS = [torch.tensor([[8, 2, 7, 1, 9]]), torch.tensor([[30, 31, 32]])]


def texts(batches: list[Any]) -> Texts:
    return Texts(None, batches)


@pytest.fixture(scope="module", params=[*TINY][:2])
def model(request: pytest.FixtureRequest) -> Any:
    return tiny(request.param)


OF_TEXTS = {
    "ablations": lambda model, batch, metric: ablations(model, batch, metric, texts=OTHERS),
    "zero": lambda model, batch, metric: ablations(model, batch, metric, how="zero"),
    "resampled": lambda model, batch, metric: ablations(model, batch, metric, how="resample", texts=OTHERS[:1]),
    "mlps": lambda model, batch, metric: mlp_ablations(model, batch, metric, texts=OTHERS),
    "groups": lambda model, batch, metric: group_effects(model, batch, metric, [[(0, 0), (1, 1)]], texts=OTHERS),
    "estimates": lambda model, batch, metric: estimates(model, batch, metric, texts=OTHERS),
    "knockout": lambda model, batch, metric: knockout(model, batch, metric),
    "shares": attribute,
    "compensations": lambda model, batch, metric: compensations(model, batch, metric, [(0, 1)], texts=OTHERS),
}


def numbers(value: Any) -> torch.Tensor:
    value = value[0].after.heads if isinstance(value, list) else getattr(value, "heads", value)
    return value.nan_to_num(-1)


@pytest.mark.parametrize("name", OF_TEXTS)
def test_each_text_is_measured_as_it_is_alone(model: Any, name: str) -> None:
    measure = OF_TEXTS[name]
    found = measure(model, texts(BATCHES), METRICS)
    assert isinstance(found, PerText)
    for one, batch, metric in zip(found, BATCHES, METRICS, strict=True):
        torch.testing.assert_close(numbers(one), numbers(measure(model, batch, metric)), rtol=0, atol=1e-12)
    one_metric = measure(model, texts(BATCHES[:2]), Logit(4))
    torch.testing.assert_close(numbers(one_metric[1]), numbers(measure(model, BATCHES[1], Logit(4))))


@pytest.mark.parametrize("function", [patch, lambda *given: patch_paths(*given, receiver=(1, 0))], ids=["part", "path"])
def test_pairs_of_texts_are_patched_one_by_one(model: Any, function: Any) -> None:
    found = function(model, texts(BATCHES), texts(CORRUPTED), METRICS)
    assert found.map(lambda one: one.recovered).values.shape[0] == 3
    for one, *pair in zip(found, BATCHES, CORRUPTED, METRICS, strict=True):
        torch.testing.assert_close(one.values, function(model, *pair).values, equal_nan=True)
    with pytest.raises(ValueError, match="clean 3, corrupted 2"):
        function(model, texts(BATCHES), texts(CORRUPTED[:2]), METRICS[0])


def test_the_lens_of_each_text(model: Any) -> None:
    for function in (logit_lens, layer_predictions):
        found = function(model, texts(BATCHES[:2]))
        for one, batch in zip(found, BATCHES, strict=False):
            alone = function(model, batch)
            torch.testing.assert_close(getattr(one, "entropy", one), getattr(alone, "entropy", alone))


def test_the_mean_over_other_texts_is_computed_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    from_batch = ablation.Text.from_batch
    monkeypatch.setattr(
        ablation.Text, "from_batch", lambda model, batch: read.append(batch) or from_batch(model, batch)
    )
    ablations(model, texts(BATCHES), METRICS, texts=OTHERS, heads=[(0, 0)])
    assert len(read) == len(BATCHES) + len(OTHERS)


def test_progress_goes_over_all_texts(model: Any) -> None:
    shares: list[float] = []
    ablations(model, texts(BATCHES), METRICS, texts=OTHERS, on_progress=lambda share, _effects: shares.append(share))
    assert shares == sorted(shares)
    assert (shares[0] < 1 / 2, shares[-1]) == (True, 1)


def difference(output: Any, _batch: Any) -> torch.Tensor:
    return output.logits[:, -1, 7] - output.logits[:, -1, 9]


def loss(output: Any, batch: Any) -> torch.Tensor:
    predicted = output.logits[:, :-1].double().log_softmax(-1)
    return -predicted.gather(-1, batch["input_ids"][:, 1:, None])[..., 0].mean(-1) / np.log(2)


@pytest.mark.parametrize(("own", "named"), [(difference, LogitDifference(7, 9)), (loss, Loss())])
def test_a_metric_of_ones_own_is_measured_as_the_named_one(model: Any, own: Any, named: Any) -> None:
    batch, corrupted = {"input_ids": BATCHES[0]}, {"input_ids": CORRUPTED[0]}
    for measure in (OF_TEXTS[name] for name in ("ablations", "estimates", "knockout", "groups")):
        torch.testing.assert_close(measure(model, batch, own), measure(model, batch, named), rtol=1e-5, atol=1e-6)
    found, expected = (patch(model, batch, corrupted, metric).values for metric in (own, named))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("result", [1.0, torch.zeros(2, 3), None])
def test_a_metric_that_is_not_a_number_for_each_example_is_refused(model: Any, result: Any) -> None:
    with pytest.raises(ValueError, match="one number for each example"):
        ablations(model, BATCHES[0], lambda _output, _batch: result, how="zero")


@given(arrays(np.float64, st.tuples(st.integers(2, 30), st.integers(1, 3)), elements=st.floats(-5, 5)))
def test_the_statistics_are_those_of_numpy_and_pandas(values: np.ndarray) -> None:
    found = PerText(tuple(torch.tensor(values)))
    np.testing.assert_allclose(found.mean, values.mean(0), atol=1e-12)
    np.testing.assert_allclose(found.spread.standard_error, pd.DataFrame(values).sem(), atol=1e-12)
    np.testing.assert_allclose([found.spread.low, found.spread.high], np.quantile(values, [0.05, 0.95], axis=0))


def test_the_interval_of_the_mean_is_that_of_texts_drawn_again() -> None:
    low, high = PerText((1.0, 3.0)).interval()  # of the means 1, 2 and 3, which come with 1/4, 1/2 and 1/4
    assert (float(low), float(high)) == (1, 3)
    low, high = PerText((1.0, 3.0)).interval(0.4)
    assert (float(low), float(high)) == (2, 2)
    values = np.random.default_rng(0).normal(size=(400, 2))
    low, high = PerText(tuple(torch.tensor(values))).interval(0.9)
    around, error = values.mean(0), 1.645 * values.std(0) / 20
    np.testing.assert_allclose([low, high], [around - error, around + error], atol=0.01)


def test_many_texts_and_many_numbers_have_quantiles_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(3_000, 4, 2, generator=torch.Generator().manual_seed(0)).double()
    found = PerText(tuple(values))
    low, high = found.interval()
    assert bool(((low < found.mean) & (found.mean < high)).all())
    spread = found.spread
    monkeypatch.setattr("attnviz.models.texts.MOST_SORTED", 9_000)  # three columns at a time
    for name in ("low", "high"):
        assert torch.equal(getattr(found.spread, name), getattr(spread, name))


def test_strings_need_a_tokenizer(model: Any) -> None:
    for reader in (None, model):
        with pytest.raises(ValueError, match="Give tokenizer="):
            Texts(reader, ["it rains"])
    with pytest.raises(ValueError, match="Give tokenizer="):
        ablations(model, texts(BATCHES), METRICS, texts=["it rains"])


def test_values_of_different_shapes_or_kinds_have_no_mean() -> None:
    with pytest.raises(ValueError, match="different shapes"):
        _ = PerText((torch.zeros(2), torch.zeros(3))).mean
    with pytest.raises(ValueError, match="no numbers"):
        _ = PerText(("a", "b")).values
    assert torch.isnan(PerText((1.0,)).spread.standard_error)


def test_strings_are_tokenized_as_the_model_does() -> None:
    model = minilm()
    strings = ["the cat sat", "it rains"]
    own, by_tokenizer = Texts(model, strings), Texts(None, strings, model.tokenizer)
    for text, batch, other in zip(strings, own, by_tokenizer, strict=True):
        assert torch.equal(batch["input_ids"], model.encode(text).batch["input_ids"])
        assert torch.equal(batch["input_ids"], other["input_ids"])
    assert own.strings == tuple(strings)


def test_texts_of_equal_shape_are_read_together_without_padding() -> None:
    model, strings = minilm(), ["a cat", "the cat sat", "a dog", "it", "the dog ran", "a bird"]
    given = Texts(model, strings)
    shortest = given[0]["input_ids"].shape[1]
    found = [(numbers, batch) for numbers, batch in given.same_shape(2 * shortest)]
    assert sorted(number for numbers, _batch in found for number in numbers) == [*range(len(strings))]
    assert max(len(numbers) for numbers, _batch in found) == 2
    for numbers, batch in found:
        for row, number in enumerate(numbers):
            assert torch.equal(batch["input_ids"][row], given[number]["input_ids"][0])
    assert [numbers for numbers, _batch in Texts(None, [(1, 2), (1, 2)]).same_shape()] == [[0], [1]]


def test_texts_come_from_lines_and_from_jsonl(tmp_path: Path) -> None:
    lines, rows = tmp_path / "texts.txt", tmp_path / "texts.jsonl"
    lines.write_text("the cat sat\n\n  \nit rains\n", "utf-8")
    rows.write_text("\n".join(map(json.dumps, [{"text": "the cat sat", "id": 1}, "it rains"])), "utf-8")
    for path in (lines, rows):
        assert Texts.from_file(minilm(), path).strings == ("the cat sat", "it rains")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", b"{", "cannot be read as lines of text"),
        ("a.jsonl", b"[" * 100_000, "cannot be read as lines of text"),
        ("a.txt", b"\xff\xfe", "cannot be read as lines of text"),
        ("a.txt", b"\n \n", "Between 1 and"),
        ("a.jsonl", b'{"sentence": "it rains"}', "Row 1 of “a.jsonl” has no text"),
        ("a.jsonl", b'"it rains"\n7', "Row 2 of “a.jsonl” has no text"),
        ("missing.txt", None, "cannot be read as lines of text"),
    ],
)
def test_a_file_that_holds_no_texts_is_refused(tmp_path: Path, name: str, content: bytes | None, reason: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        Texts.from_file(minilm(), tmp_path / name)


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.models.texts.MOST_BYTES", 3)
    (tmp_path / "a.txt").write_text("four", "utf-8")
    monkeypatch.setattr(Path, "read_text", lambda *_given: pytest.fail("read"))
    with pytest.raises(ValueError, match="has more than"):
        Texts.from_file(minilm(), tmp_path / "a.txt")


def test_results_of_texts_are_one_table(model: Any) -> None:
    found = attribute(model, texts(BATCHES), Logit(4))
    frame = found.to_frame()
    assert next(iter(frame)) == "text"
    for number, one in enumerate(found):
        own = frame[frame["text"] == number].drop(columns="text").reset_index(drop=True)
        assert own[["share", "position"]].equals(one.to_frame()[["share", "position"]])
        assert len(own) == len(one.to_frame())


def test_a_file_that_is_not_in_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_text("größer", "latin-1")
    with pytest.raises(ValueError, match="it is not in UTF-8"):
        Texts.from_file(minilm(), tmp_path / "latin.txt")


def test_values_of_texts_are_saved_and_are_a_table(tmp_path: Path, model: Any) -> None:
    found = ablations(model, texts(BATCHES), METRICS, how="zero")
    attnviz.save(tmp_path / "effects.safetensors", found)
    again = attnviz.load(tmp_path / "effects.safetensors").result
    assert isinstance(again, PerText)
    torch.testing.assert_close(again.values, found.values, equal_nan=True)
    frame = found.to_frame()
    assert [*frame] == ["text", "layer", "head", "value"]
    assert frame["text"].nunique() == 3
    assert len(frame) == found.values.numel()
    shares = attribute(model, texts(BATCHES), Logit(4))
    attnviz.save(tmp_path / "shares.safetensors", shares)
    assert attnviz.load(tmp_path / "shares.safetensors").result[1].total == pytest.approx(shares[1].total)
