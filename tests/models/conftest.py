"""Folders of tiny models, saved once, and the settings of a fresh process."""

import json

import pytest
import torch

from attnviz.models import model_cache
from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import MODELS


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folders of the tiny models, by name; never to be changed."""
    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    for name, (make, tokenizer) in MODELS.items():
        made = make()
        for parameter in made.parameters():
            if parameter.ndim == 2:
                parameter.data *= 8  # rows of attention that are far from uniform, and texts that go on
        made.save_pretrained(root / name)
        if tokenizer:
            tokenizer().save_pretrained(root / name)
    return root


@pytest.fixture
def copied(saved, tmp_path):
    """A function that gives a folder of its own with a tiny model, its config changed."""

    def copy(name="bert", without=(), **config):
        folder = tmp_path / name
        folder.mkdir()
        for file in (saved / name).iterdir():
            if file.name not in without:
                (folder / file.name).write_bytes(file.read_bytes())
        said = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(said))
        return folder

    return copy


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No setting from outside, and an empty model cache."""
    for name in ("ATTNVIZ_MODELS", "ATTNVIZ_MODEL_MB", "ATTNVIZ_MODELS_KEPT"):
        monkeypatch.delenv(name, raising=False)
    model_cache.shared_cache.cache_clear()


@pytest.fixture(scope="session")
def loaded(saved):
    return {name: inspect_folder(saved / name).load() for name in MODELS}
