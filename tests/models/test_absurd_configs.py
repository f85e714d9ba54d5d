"""Configs that ask for far too much: refused before it is built, and without the memory that it would take."""

import json
import resource

import pytest
import torch

from attnviz.models import config_trial, loading
from attnviz.models.loading import inspect_folder

FAR_MORE = "describes far more parts than its files have weights for. Look there for a number that is too large"
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
# Each is the number of parts of something, by a name that tells nothing of it.
PARTS = [
    {"model_type": "canine", "num_hash_functions": 1 << 14, "hidden_size": 1 << 14},
    {"model_type": "albert", "num_hidden_groups": 1 << 24, "inner_group_num": 1},
    {"model_type": "albert", "num_hidden_groups": 1, "inner_group_num": 1 << 24},
    {"model_type": "switch_transformers", "num_experts": 32_000, "num_layers": 1_000, "num_sparse_encoder_layers": 500},
    {"model_type": "swin", "depths": [1_024] * 8, "num_heads": [4] * 8},
    {"model_type": "perceiver", "num_self_attends_per_block": 1_000, "num_blocks": 1_000},
]


def described(folder, said):
    (folder / "config.json").write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize("said", PARTS, ids=lambda said: "-".join(list(said)[:2]))
def test_parts_without_end_are_not_built(copied, said):
    folder = described(copied(), said)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=FAR_MORE):
        inspect_folder(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes


def test_a_table_that_would_be_computed_for_ever(copied, monkeypatch):
    monkeypatch.setattr(config_trial, "SECONDS", 0.2)
    said = SMALL | {"model_type": "videomae", "image_size": 4_096, "patch_size": 1}
    with pytest.raises(ValueError, match=FAR_MORE):
        inspect_folder(described(copied(), said))


def test_after_a_refusal_torch_computes_as_before(copied):
    with pytest.raises(ValueError, match=FAR_MORE):
        inspect_folder(copied(num_hidden_layers=1_000))
    assert torch.ones(2).device.type == "cpu"
    assert torch.get_default_dtype() == torch.float32
    assert torch.nn.Linear(2, 2).weight.device.type == "cpu"


def test_a_config_with_a_large_table_is_tried_out_and_then_built(copied, monkeypatch):
    monkeypatch.setattr(config_trial, "TABLE", 0)
    assert inspect_folder(copied()).parameters > 0


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_positions_that_no_weights_are_there_for(copied, monkeypatch, name):
    monkeypatch.setattr(loading, "check_trial", lambda *_: None)  # which takes seconds, and finds nothing
    folder = copied(name, max_position_embeddings=1 << 24, n_positions=1 << 24)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=FAR_MORE):
        inspect_folder(folder).load()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
