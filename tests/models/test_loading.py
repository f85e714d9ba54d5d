"""Models from folders: what is loaded, and what it gives."""

import json
from shutil import copytree

import huggingface_hub
import pytest
import safetensors.torch
import torch
import transformers as hf

from attnviz.base.formatting import byte_size
from attnviz.layer import Fidelity
from attnviz.models import loading, number_types
from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import TEXT, refusal


@pytest.mark.parametrize(
    ("name", "kind", "outputs"),
    [
        ("bert", "BertModel", ""),
        ("gpt2", "GPT2LMHeadModel", "next token"),
        ("llama", "LlamaForCausalLM", "next token"),
        ("gemma2", "Gemma2ForCausalLM", "next token"),
        ("t5", "T5ForConditionalGeneration", "next token"),
        ("bart", "BartForConditionalGeneration", "next token"),
        ("vit", "ViTForImageClassification", "labels"),
    ],
)
def test_a_folder_gives_its_own_model(saved, name, kind, outputs):
    folder, given = inspect_folder(saved / name), inspect_folder(saved / name).load()
    assert (given.name, type(given.model).__name__, given.outputs) == (name, kind, outputs)
    assert not given.model.training
    own = getattr(hf, kind).from_pretrained(saved / name).state_dict()
    loaded = given.model.state_dict()
    assert loaded.keys() == own.keys()
    assert all(torch.equal(loaded[key], own[key]) for key in own if "pooler" not in key)
    assert folder.parameters >= sum(parameter.numel() for parameter in given.model.parameters())
    assert folder.size >= given.size > 0


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2"])
def test_the_next_token_is_the_models_own(saved, name):
    given = inspect_folder(saved / name).load()
    own = hf.AutoModelForCausalLM.from_pretrained(saved / name, attn_implementation="eager").eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(saved / name)
    with torch.no_grad():
        ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
        expected = own(input_ids=ids).logits[0, -1]
    torch.testing.assert_close(given.output(given.encode(TEXT)), expected, atol=1e-4, rtol=1e-4)


def test_a_model_without_its_head_is_read_without_it(copied):
    folder = copied("llama")
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    given = inspect_folder(folder).load()
    assert (type(given.model).__name__, given.outputs) == ("LlamaModel", "")
    with pytest.raises(ValueError, match="gives neither a next token, nor labels, nor a vector"):
        given.output(given.encode(TEXT))


def test_a_sentence_vector_is_the_mean_or_the_first_token(copied):
    folder = copied("bert")
    (folder / "1_Pooling").mkdir()
    kinds = [{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Normalize")]
    (folder / "modules.json").write_text(json.dumps(kinds))
    vectors = {}
    for pooling in ("mean_tokens", "cls_token"):
        said = {f"pooling_mode_{name}": name == pooling for name in ("mean_tokens", "cls_token")}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(said))
        given = inspect_folder(folder).load()
        assert given.outputs == "sentence vector"
        vectors[pooling] = given.output(given.encode(TEXT))
    own = hf.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = own(**hf.AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")).last_hidden_state[0]
    torch.testing.assert_close(vectors["mean_tokens"], states.mean(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(vectors["cls_token"], states[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kinds", [["Transformer", "Pooling", "Dense"], ["Transformer"], [], [5], 5], ids=str)
def test_a_sentence_vector_that_is_made_otherwise_is_not_given(copied, kinds):
    folder = copied("bert")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    kinds = [{"type": f"sentence_transformers.models.{k}"} if k != 5 else k for k in kinds] if kinds != 5 else kinds
    (folder / "modules.json").write_text(json.dumps(kinds))
    assert inspect_folder(folder).outputs == ""


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, torch.bfloat16) for name in ("bert", "llama", "t5", "vit")),
        *((name, torch.float16) for name in ("llama", "t5")),
    ],
    ids=str,
)
def test_a_model_keeps_the_type_of_its_files_and_its_size_is_known_before(saved, tmp_path, name, kind):
    text = "" if name == "vit" else TEXT
    copytree(saved / name, tmp_path, dirs_exist_ok=True)
    inspect_folder(saved / name).load().model.to(kind).save_pretrained(tmp_path)
    folder = inspect_folder(tmp_path)
    given, full = folder.load(), inspect_folder(saved / name).load()
    stored = {tensor.dtype for tensor in safetensors.torch.load_file(tmp_path / "model.safetensors").values()}
    assert given.model.dtype == kind
    assert kind in stored
    assert given.size <= folder.size < 1.3 * given.size
    assert given.size < full.size * (kind.itemsize + 0.5) / 4
    assert not folder.notes
    layers = given.layers(text)
    assert {layer.fidelity for layer in layers} == {Fidelity.VERIFIED}
    for layer, other in zip(layers, full.layers(text), strict=True):
        ours, theirs = (one.mechanism(one.inputs).weights for one in (layer, other))
        if name != "t5":  # whose scores are so large here that rounding changes everything
            torch.testing.assert_close(ours, theirs, atol=40 * torch.finfo(kind).eps, rtol=0)


def test_a_type_that_torch_does_not_compute_in_is_said(saved, tmp_path, monkeypatch):
    hf.BertModel.from_pretrained(saved / "bert").to(torch.float16).save_pretrained(tmp_path)
    monkeypatch.setattr(number_types, "can_compute", lambda dtype: False)
    folder = inspect_folder(tmp_path, "tiny")
    assert tuple(note() for note in folder.notes) == (
        "The weights of tiny are float16, in which torch does not compute here, so float32 is used.",
    )
    given = folder.load()
    assert given.model.dtype == torch.float32
    assert folder.size == given.size


def test_a_large_model_in_half_precision_is_measured_by_its_type(saved, tmp_path, monkeypatch):
    hf.BertModel.from_pretrained(saved / "bert").to(torch.bfloat16).save_pretrained(tmp_path)
    size = inspect_folder(tmp_path).size
    monkeypatch.setattr(loading, "model_bytes", lambda: size)
    assert inspect_folder(tmp_path).size == size
    monkeypatch.setattr(loading, "model_bytes", lambda: size - 1)
    assert f"which need {byte_size(size)} of memory" in refusal(tmp_path)


def test_weights_in_several_files(saved, tmp_path):
    hf.BertModel.from_pretrained(saved / "bert").save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert inspect_folder(tmp_path).load().size > 0


def test_code_that_comes_with_a_known_model_is_not_run_and_that_is_said(copied):
    folder = copied(auto_map={"AutoModel": "evil.Model", "AutoConfig": "evil.Config"})
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    given = inspect_folder(folder).load()
    assert given.notes == (
        "bert comes with code of its own, which was not run: BertModel of transformers is used instead.",
    )
    assert not (folder / "ran").exists()


def test_a_config_cannot_name_another_model_to_be_asked_for(copied, monkeypatch):
    asked = []
    monkeypatch.setattr(huggingface_hub.HfApi, "repo_exists", lambda *given, **_: asked.append(given))
    refusal(copied(model_type="detr", backbone="org/evil", use_timm_backbone=False))
    assert asked == []


def test_numbers_that_only_look_large_are_taken(copied):
    names = {
        "moe_layers": list(range(1, 48, 2)),
        "num_experts": 128,
        "label2id": {"stage": 12_345},
        "heads_per_layer": [48] * 40,
    }
    assert inspect_folder(copied(rope_theta=10**9, max_tokens=10_485_760, **names)).size > 0


def test_a_bound_may_be_infinite_as_that_of_mambas_time_steps(copied):
    assert inspect_folder(copied(time_step_limit=[0.0, float("inf")])).size > 0


def test_a_config_cannot_choose_code_or_files(copied):
    kernel = {"attn_implementation": "evil/kernel", "_attn_implementation": "evil/kernel"}
    given = inspect_folder(copied(**kernel, transformers_weights="other.safetensors", dtype="float16")).load()
    assert given.model.config._attn_implementation == "sdpa"
    assert {parameter.dtype for parameter in given.model.parameters()} == {torch.float32}
