"""Models in memory: how many, how large, and who may ask for which."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from attnviz.models import TRANSLATOR
from attnviz.models import model as kept
from attnviz.models.hub import Hub, RemoteModel
from attnviz.models.minilm import minilm
from attnviz.models.model_cache import MINILM, SMOLLM2, ModelCache, NotDownloaded, available_models, model
from attnviz.trace.memory import layer_bytes
from attnviz.ui import model_download


class Counted:
    """A folder of a given size in bytes, and how often it was loaded."""

    def __init__(self, size):
        self.size, self.loads = size, 0

    def __call__(self):
        return self

    def load(self):
        self.loads += 1
        time.sleep(0.01)
        return minilm()


def test_the_model_not_asked_for_longest_goes_first():
    cache, folders = ModelCache(max_models=2, max_bytes=100), {name: Counted(10) for name in "abc"}
    for name in "abacab":
        cache.get(name, folders[name])
    assert [folders[name].loads for name in "abc"] == [1, 2, 1]


def test_models_stay_within_the_bytes():
    cache, folders = ModelCache(max_models=9, max_bytes=100), {name: Counted(40) for name in "abc"}
    for name in "abc":
        cache.get(name, folders[name])
        assert cache.size <= 100
    assert len(cache.names) == 2
    cache.get("d", Counted(90))
    assert len(cache.names) == 1


def test_a_model_that_many_ask_for_is_loaded_once():
    cache, folder, together = ModelCache(max_models=2, max_bytes=100), Counted(10), threading.Barrier(8)

    def ask(_):
        together.wait()
        return cache.get("a", folder)

    with ThreadPoolExecutor(8) as many:
        assert len(set(many.map(ask, range(8)))) == 1
    assert folder.loads == 1


def test_a_model_that_fails_to_load_leaves_the_shelf_as_it_is():
    cache, folder = ModelCache(max_models=2, max_bytes=100), Counted(10)
    folder.load = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        cache.get("a", folder)
    assert cache.names == ()
    cache.get("a", Counted(10))


def test_a_folder_that_was_trained_on_is_loaded_anew(copied):
    folder = copied()
    first = model(str(folder))
    assert model(str(folder)) is first
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert model(str(folder)) is not first


def test_one_forward_at_a_time(loaded):
    given, running, most = loaded["bert"], [], []

    def enter(*_):
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)

    hooks = [
        given.model.register_forward_pre_hook(enter),
        given.model.register_forward_hook(lambda *_: running.pop()),
    ]
    try:
        with ThreadPoolExecutor(4) as many:
            answers = list(many.map(lambda i: given.layers(f"fox {'dog ' * i}"), range(4)))
    finally:
        for hook in hooks:
            hook.remove()
    assert max(most) == 1
    assert [len(layers[0].inputs.query_tokens) for layers in answers] == [3, 4, 5, 6]


def test_the_layers_of_the_latest_examples_are_kept_by_their_bytes(loaded, monkeypatch):
    given = loaded["gpt2"]
    given._examples.clear()
    texts = ("a fox", "a dog", "lazy")
    first, *others = map(given.layers, texts)
    monkeypatch.setattr(kept, "MAX_TRACE_BYTES", sum(map(layer_bytes, (first, *others))))
    assert [given.layers(text) for text in texts] == [first, *others]
    given.layers("foxes")  # is one too many
    assert given.layers("a fox") is not first
    (layer, *_) = first
    tensors = (layer.inputs.query, layer.inputs.key, layer.inputs.value)
    assert layer_bytes([layer]) == sum(tensor.numel() * 4 for tensor in tensors)


@pytest.mark.parametrize("name", ["", MINILM, f" {MINILM} "])
def test_the_model_of_the_wheel_is_always_there(name, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_MODELS", "")
    assert model(name) is minilm()
    assert available_models() == [MINILM, SMOLLM2, TRANSLATOR]


def test_a_hosted_instance_allows_what_its_owner_lists_and_no_folder(saved, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNVIZ_MODELS", "openai-community/gpt2, org/tiny")
    assert available_models() == [MINILM, SMOLLM2, TRANSLATOR, "openai-community/gpt2", "org/tiny"]
    for name in (str(saved / "bert"), "org/other", "~", "../x", f"{saved}/../bert"):
        with pytest.raises(ValueError, match=r"its owner lists, .*Choose one of .*“org/tiny”"):
            model(name)
    with pytest.raises(ValueError, match="shows only the models that its owner lists"):
        Hub(cache=tmp_path).find("org/other")
    with pytest.raises(NotDownloaded):
        model("org/tiny", Hub(cache=tmp_path))


@pytest.mark.parametrize("name", ["a/b/c", "a--b", "../x/..", "a..b", "x" * 97, "org/name.git", "a b", "ümlaut", "-x"])
def test_a_name_that_can_be_no_id(name, tmp_path):
    with pytest.raises(ValueError, match=r"is not the name of a model. Write it as on the hub|There is no folder"):
        model(name, Hub(cache=tmp_path))
    with pytest.raises(ValueError, match=r"is not the name of a model. Write it as on the hub, owner/model"):
        Hub(cache=tmp_path).find(name)


def test_two_who_ask_for_a_download_start_one():
    fetched, together, let = [], threading.Barrier(4), threading.Event()

    class Slow(Hub):
        def fetch(self, away, progress):
            fetched.append(away.name)
            let.wait(10)

    def start(_):
        together.wait()
        model_download._start(RemoteModel("org/slow", 1, 1, 1), Slow())

    try:
        with ThreadPoolExecutor(4) as many:
            list(many.map(start, range(4)))
        let.set()
        model_download._under_way["org/slow"].thread.join()
        assert fetched == ["org/slow"]
    finally:
        model_download._forget("org/slow")
