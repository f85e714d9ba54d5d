"""Results in files: what is read again is what was saved, and nothing else is read."""

import json
import os
import pickle
import struct
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers

import attnviz
from attnviz.analysis.head_metrics import HeadMetricTable, head_metrics
from attnviz.attribution import Activation, Attribution, Logit, LogitDifference, Score
from attnviz.effects import KL, Cosine, Loss, Probability, ablations, compensations, layer_predictions, patch
from attnviz.results import CLASSES, ENTRY, MOST_HEADER, MeasuredResult, load, save

WORDS = {"the": 1, "cat": 2, "sat": 3, "[UNK]": 0}


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    return hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=8, **sizes)).eval()


@pytest.fixture(scope="module")
def batch():
    own = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return hf.PreTrainedTokenizerFast(tokenizer_object=own)("the cat sat the", return_tensors="pt")


def same(one, other):
    """Whether two values, or all their parts, are equal; arrays with their types."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one.nan_to_num(7), other.nan_to_num(7))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        names = [each.name for each in fields(one) if not each.name.startswith("_")]
        return type(one) is type(other) and all(same(getattr(one, name), getattr(other, name)) for name in names)
    return type(one) is type(other) and one == other


def test_a_sum_is_saved_with_its_model_its_tokens_and_its_question(model, batch, tmp_path) -> None:
    attribution = attnviz.attribute(model, batch, LogitDifference(3, "mean"))
    attribution.save(tmp_path / "sum.safetensors", model="tiny", tokens=["the", "cat", "sat", "the"])
    saved = attnviz.load(tmp_path / "sum.safetensors")
    assert (saved.model, saved.weights) == ("tiny", "")
    assert (saved.tokens, saved.ids) == (("the", "cat", "sat", "the"), (1, 2, 3, 1))
    assert saved.metric == attribution.metric
    assert same(saved.result, attribution)
    assert saved.result.metric == LogitDifference(3, "mean")
    for name in ("terms", "layers", "mlp_layers"):
        assert same(tuple(getattr(saved.result, name)), tuple(getattr(attribution, name)))
    assert repr(saved.result) == repr(attribution)
    assert [tuple(row) for row in saved.result.to_frame()[["share", "position"]].to_numpy()] == [
        (term.share, term.position) for term in attribution.terms
    ]
    attribution.save(tmp_path / "own.safetensors")
    own = load(tmp_path / "own.safetensors")
    assert (own.model, own.weights, own.ids) == ("LlamaForCausalLM", "float32", (1, 2, 3, 1))


def test_what_needs_the_run_of_a_saved_sum_says_so(model, batch, tmp_path) -> None:
    attribution = attnviz.attribute(model, batch, Logit(3))
    parts = attribution.constant_parts
    for again in (pickle.loads(pickle.dumps(attribution)), _again(attribution, tmp_path)):
        assert same(again, attribution)
        assert again.constant_parts == parts
        for needs in (lambda of: of.sources(0, 0, 1), lambda of: of.attribute(Logit(1)), lambda of: of.neurons(0, 1)):
            needs(attribution)
            with pytest.raises(ValueError, match=r"This sum was read from a file.*Compute it again with"):
                needs(again)


def _again(result, tmp_path):
    save(tmp_path / "again.safetensors", result)
    return load(tmp_path / "again.safetensors").result


def test_all_results_are_read_as_they_were(model, batch, tmp_path) -> None:
    ids = {"input_ids": batch["input_ids"]}
    other = {"input_ids": torch.tensor([[1, 3, 2, 1]])}
    layers = attnviz.capture(model, ids)
    opened = attnviz.attribute(model, batch, Logit(3)).opened(0, 1, 3, 2)
    results = [
        head_metrics(layers),
        layer_predictions(model, ids, 2),
        patch(model, ids, other, Logit(2)),
        tuple(compensations(model, ids, Logit(2), [(0, 1), (1, 0)])),
        ablations(model, ids, Logit(2)),
        opened,
    ]
    for result in results:
        assert same(_again(result, tmp_path), result), type(result)
    for result in (*results[:3], results[3][0]):
        frame = result.to_frame()
        assert len(frame) > 1
        assert {len(column) for column in result.columns().values()} == {len(frame)}
    patching = results[2].to_frame()
    assert patching["value"].tolist() == pytest.approx(results[2].values.flatten().tolist(), nan_ok=True)
    first, table = results[3][0], results[3][0].to_frame()
    for name in ("before", "fixed_norms", "after"):
        shares = getattr(first, name)
        assert table[name].sum() == pytest.approx(float(shares.heads.sum() + shares.mlps.sum()))


@pytest.mark.parametrize(
    "metric",
    [
        *(Logit(3), LogitDifference(3, 2, 1), Score(0, 1, 2, 1, "mean"), Probability(2), Loss(2, None), KL(1)),
        *(Cosine("first"), None),
    ],
)
def test_each_question_is_read_again(metric, tmp_path) -> None:
    save(tmp_path / "r", torch.zeros(2), metric=metric)
    assert load(tmp_path / "r").metric == metric


def test_a_question_about_a_direction_is_read_with_it(tmp_path) -> None:
    save(tmp_path / "r", torch.zeros(2), metric=Activation(1, 2, torch.arange(3.0)))
    assert same(load(tmp_path / "r").metric, Activation(1, 2, torch.arange(3.0)))


def test_the_weights_of_a_file_of_few_bits_are_called_so(model, batch, tmp_path) -> None:
    attribution = attnviz.attribute(model, batch, Logit(3))
    model.config.gguf_type = "Q4_1"
    try:
        attribution.save(tmp_path / "r")
    finally:
        del model.config.gguf_type
    assert load(tmp_path / "r").weights == "Q4_1, from a GGUF file"


def test_a_loaded_model_is_saved_by_its_name(model, tmp_path) -> None:
    save(tmp_path / "r", torch.zeros(2), model=SimpleNamespace(name="org/tiny", model=model))
    saved = load(tmp_path / "r")
    assert (saved.model, saved.weights) == ("org/tiny", "float32")


def test_tokens_are_those_of_a_batch_or_of_a_tokenizer(batch, tmp_path) -> None:
    save(tmp_path / "r", torch.zeros(2), batch=batch)
    assert load(tmp_path / "r").tokens == ("the", "cat", "sat", "the")
    save(tmp_path / "r", torch.zeros(2), batch=batch, tokens=lambda ids: [f"t{one}" for one in ids])
    assert load(tmp_path / "r").tokens == ("t1", "t2", "t3", "t1")


def test_each_class_is_where_it_is_said_to_be() -> None:
    for name, module in CLASSES.items():
        kind = getattr(__import__(module, fromlist=[name]), name)
        assert kind.__name__ == name
    assert {Attribution, HeadMetricTable} <= {*MeasuredResult.__subclasses__()}
    assert {kind.__name__ for kind in MeasuredResult.__subclasses__()} <= CLASSES.keys()


# Files from elsewhere


def written(path, header, arrays=None):
    safetensors.torch.save_file(arrays or {}, path, {ENTRY: header if isinstance(header, str) else json.dumps(header)})
    return path


GOOD = {
    "format": "attnviz result",
    "version": 1,
    "model": "",
    "weights": "",
    "tokens": [],
    "ids": [],
    "metric": None,
    "result": {"array": "result", "of": "torch"},
}
SHARES = {"total": 1.0, "heads": {"array": "result", "of": "torch"}, "mlps": {"array": "result", "of": "torch"}}
DEEP = []
for _ in range(40):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "changed",
    [
        {"result": {"array": "other", "of": "torch"}},
        {"result": {"class": "os.system", "parts": {}}},
        {"result": {"class": "Path", "parts": {}}},
        {"result": {"class": "Logit", "parts": {"token": "a"}}},
        {"result": {"class": "Logit", "parts": {"token": 1, "code": 2}}},
        {"result": {"class": "Logit", "parts": {}}},
        {"result": {"class": "Logit", "parts": [1]}},
        {"result": {"class": "Shares", "parts": SHARES}},  # whose heads have two axes
        {"result": {"class": "Attribution", "parts": {"terms": {}}}},
        {"result": {"class": ["Logit"], "parts": {}}},
        {"result": {}},
        {"result": DEEP},
        {"tokens": [1]},
        {"tokens": "ab"},
        {"ids": [None]},
        {"ids": [True]},
        {"model": 3},
        {"weights": None},
    ],
    ids=str,
)
def test_a_header_of_something_else_is_refused(changed, tmp_path) -> None:
    path = written(tmp_path / "r", GOOD | changed, {"result": torch.zeros(3)})
    with pytest.raises(ValueError, match="“r” cannot be read: it was damaged, cut off, or written by something else"):
        load(path)


def test_other_files_are_refused_in_a_sentence(tmp_path) -> None:
    path = tmp_path / "r"
    assert load(written(path, GOOD, {"result": torch.zeros(3)})).result.shape == (3,)
    for content, sentence in (
        (b"", "cannot be read"),
        (b"abc", "cannot be read"),
        (pickle.dumps(3) * 9, "has a header of"),
        (struct.pack("<Q", MOST_HEADER + 1) + b"{}", "has a header of .* bytes; at most"),
        (path.read_bytes()[:-4], "cannot be read"),
    ):
        (tmp_path / "other").write_bytes(content)
        with pytest.raises(ValueError, match=sentence):
            load(tmp_path / "other")
    for header, sentence in (
        ("{", "cannot be read"),
        ("3", "holds no result of attnviz"),
        (GOOD | {"format": "x"}, "holds no result of attnviz"),
        (GOOD | {"version": 2}, "was written by a later version of attnviz"),
        ({name: GOOD[name] for name in ("format", "version")}, "cannot be read"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load(written(tmp_path / "other", header))
    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / "plain")
    with pytest.raises(ValueError, match="“plain” holds no result of attnviz"):
        load(tmp_path / "plain")
    with pytest.raises(ValueError, match="“none” cannot be opened"):
        load(tmp_path / "none")
    with pytest.raises(ValueError, match="is not a file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="“pipe” is not a file"):
        load(tmp_path / "pipe")


def test_what_is_no_result_is_not_written(tmp_path) -> None:
    with pytest.raises(ValueError, match="A function cannot be saved"):
        save(tmp_path / "r", lambda: 0)
    assert not [*tmp_path.iterdir()]
    with pytest.raises(ValueError, match="“r” cannot be written"):
        save(tmp_path / "none" / "r", torch.zeros(1))
