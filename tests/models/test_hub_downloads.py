"""Models from a hub, played by a server of this test: no network is asked."""

import shutil

import huggingface_hub
import pytest
import safetensors.torch
import transformers as hf
from huggingface_hub import constants

from attnviz.base.formatting import byte_size
from attnviz.models import TRANSLATOR, loading
from attnviz.models import hub as hubs
from attnviz.models.hub import Hub, RemoteModel
from attnviz.models.model_cache import MINILM, SMOLLM2, NotDownloaded, available_models, model
from tests.support.tiny_hub import Played, played_hub
from tests.support.tiny_models import TEXT


@pytest.fixture
def hub(saved, tmp_path):
    """A hub on this computer, with the tiny models as org/NAME."""
    repos = {
        f"org/{name}": {file.name: file.read_bytes() for file in (saved / name).iterdir()} for name in ("bert", "gpt2")
    }
    repos["org/bert"] |= {"onnx/model.onnx": b"x" * 10_000, "pytorch_model.bin": b"pickle", "evil.py": b"code"}
    repos["org/pickle"] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    hf.BertForMaskedLM.from_pretrained(saved / "bert").save_pretrained(tmp_path / "sharded", max_shard_size="40KB")
    shards = {file.name: file.read_bytes() for file in (tmp_path / "sharded").iterdir()}
    repos["org/sharded"] = repos["org/bert"] | shards
    del repos["org/sharded"]["model.safetensors"]
    with played_hub(repos, tmp_path / "hub") as hub:
        yield hub


def test_a_model_is_weighed_brought_here_and_read(hub, saved):
    with pytest.raises(NotDownloaded, match=r"“org/bert” is not on this computer yet. It has to be downloaded first"):
        model("org/bert", hub)
    away, read = hub.find("org/bert"), {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    own = {file.name: file.stat().st_size for file in (saved / "bert").iterdir()}
    weights = safetensors.torch.load_file(saved / "bert" / "model.safetensors")
    size = sum(own[name] for name in read)
    assert away == RemoteModel("org/bert", sum(tensor.numel() for tensor in weights.values()), size, size)
    steps = []
    folder = hub.fetch(away, lambda done, size: steps.append((done, size)))
    assert {file.name for file in folder.iterdir()} == read  # no pickle, no code, nothing twice
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert len(steps) > 1
    assert steps[-1] == (size, size)
    assert [(here.name, here.folder) for here in hub.cached_models()] == [("org/bert", folder)]
    Played.asked.clear()
    given = model("org/bert", hub)
    assert given.name == "org/bert"
    assert len(given.layers(TEXT)) == 2
    assert available_models(hub) == [MINILM, SMOLLM2, TRANSLATOR, "org/bert"]
    assert Played.asked == []  # what is here is read without the network


def test_what_was_broken_off_goes_on(hub):
    away = hub.find("org/gpt2")
    Played.refused["org/gpt2/model.safetensors"] = (410, "")
    with pytest.raises(ValueError, match="The hub answered with the error 410"):
        hub.fetch(away)
    assert hub.cached_models() == []
    Played.refused.clear()
    again = hub.find("org/gpt2")
    assert again.size == away.size
    # Files come side by side: some of the small ones may have been on their way.
    assert len(Played.repos["org/gpt2"]["model.safetensors"]) <= again.left <= away.size
    steps = []
    hub.fetch(again, lambda done, size: steps.append(done))
    assert away.size - again.left < steps[0]
    assert steps[-1] == away.size
    assert [here.name for here in hub.cached_models()] == ["org/gpt2"]


def test_a_model_that_lacks_a_shard_is_not_here_and_goes_on(hub, tmp_path):
    hub.fetch(hub.find("org/sharded"))
    # As older versions of huggingface_hub leave it, without a list of what belongs to it.
    shutil.copytree(hub.cache, tmp_path / "older", symlinks=True, ignore=shutil.ignore_patterns("trees"))
    older = Hub(hub.address, tmp_path / "older")
    ((name, folder),) = ((here.name, here.folder) for here in older.cached_models())
    _, shard, *_ = sorted(folder.glob("*.safetensors"))
    lost = shard.stat().st_size
    shard.resolve().unlink()
    shard.unlink()
    assert older.cached_models() == []
    with pytest.raises(NotDownloaded):
        model(name, older)
    again = older.find(name)
    assert again.left == lost
    assert older.fetch(again) == folder
    assert len(model(name, older).layers(TEXT)) == 2


def test_a_model_that_would_never_be_whole_is_refused(hub):
    bare = Played.repos["org/bare"] = dict(Played.repos["org/bert"])
    del bare["config.json"]
    with pytest.raises(ValueError, match=r"“org/bare” has no config.json, so it is not known what kind of model it is"):
        hub.find("org/bare")
    odd = Played.repos["org/odd"] = dict(Played.repos["org/sharded"])
    first = min(file for file in odd if file.startswith("model-"))
    odd["first.safetensors"] = odd[first]
    index = "model.safetensors.index.json"
    odd[index] = odd[index].replace(first.encode(), b"first.safetensors")
    with pytest.raises(ValueError, match=r"“org/odd” lacks some of its weights"):
        hub.fetch(hub.find("org/odd"))


def test_a_model_of_the_hub_that_is_too_large_is_not_downloaded(hub, monkeypatch):
    monkeypatch.setattr("attnviz.base.settings.MB", 10)
    with pytest.raises(ValueError, match=r"“org/bert” has .* parameters, which need .* at most 40 KB may be used"):
        hub.find("org/bert")
    assert not list(hub.cache.rglob("model.safetensors"))


def test_a_model_of_the_hub_is_measured_by_the_type_of_its_files(hub, monkeypatch):
    half = Played.repos["org/half"] = dict(Played.repos["org/bert"])
    weights = safetensors.torch.load(half["model.safetensors"])
    halves = {name: tensor.bfloat16() for name, tensor in weights.items()}
    half["model.safetensors"] = safetensors.torch.save(halves, {"format": "pt"})
    size = sum(tensor.nbytes for tensor in halves.values())
    monkeypatch.setattr(loading, "model_bytes", lambda: size)
    assert hub.find("org/half").parameters == sum(tensor.numel() for tensor in halves.values())
    monkeypatch.setattr(loading, "model_bytes", lambda: size - 1)
    with pytest.raises(ValueError, match=f"which need {byte_size(size)} of memory"):
        hub.find("org/half")


def test_a_disk_without_room(hub, monkeypatch):
    full = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(hubs.shutil, "disk_usage", lambda _: full)
    with pytest.raises(ValueError, match=r"and the disk has 0.977 KB left. Free some space"):
        hub.find("org/bert")


@pytest.mark.parametrize(
    ("name", "refused", "words"),
    [
        ("org/nothing", None, "The hub has no public model “org/nothing”. Check the name for a typing error"),
        ("org/private", (401, "RepoNotFound"), "The hub has no public model “org/private”"),
        ("org/secret", (401, ""), "The hub has no public model “org/secret”"),
        ("org/gated", (403, "GatedRepo"), "“org/gated” is gated: its owner asks you to accept terms first"),
        ("org/down", (500, ""), "The hub answered with the error 500 when it was asked for “org/down”"),
        ("org/pickle", None, "“org/pickle” has no weights as safetensors"),
    ],
)
def test_what_the_hub_refuses_is_said_in_words(hub, name, refused, words):
    if refused:
        Played.refused[name] = refused
    with pytest.raises(ValueError, match=words):
        hub.find(name)


def test_without_a_network_what_is_here_is_named(hub):
    hub.fetch(hub.find("org/bert"))
    alone = Hub("http://127.0.0.1:9", hub.cache)
    with pytest.raises(ValueError, match=r"The hub cannot be reached to ask for “org/gpt2”.*can be read: “org/bert”"):
        alone.find("org/gpt2")
    with pytest.raises(ValueError, match=r"No model of the hub is on this computer yet"):
        Hub("http://127.0.0.1:9", hub.cache / "empty").find("org/gpt2")
    assert model("org/bert", alone).name == "org/bert"


def test_a_network_that_is_switched_off_is_not_asked(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    huggingface_hub.utils.close_session()
    with pytest.raises(ValueError, match="is not on this computer, and HF_HUB_OFFLINE keeps it off the network"):
        hub.find("org/bert")
    assert Played.asked == []


def test_a_download_that_breaks_off_is_said_in_words(hub):
    away = hub.find("org/bert")
    Played.refused["org/bert"] = (503, "")
    with pytest.raises(ValueError, match=r"The hub answered with the error 503|The hub cannot be reached"):
        hub.fetch(away)
