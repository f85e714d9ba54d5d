"""Models from folders and from a hub, saved tiny in here; nothing in this file asks a network but its own server."""

import hashlib
import http.server
import io
import json
import os
import shutil
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import safetensors.torch
import torch
import transformers as hf
from huggingface_hub import constants
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from attnviz.models import hub as hubs
from attnviz.models import model as kept
from attnviz.models import model_cache as shelves
from attnviz.models.hub import Away, Hub
from attnviz.models.image_inputs import drawing
from attnviz.models.loading import inspected
from attnviz.models.minilm import minilm
from attnviz.models.model_cache import MINILM, NotHere, Shelf, choices, model
from attnviz.ui.models import download

TEXT = "The quick brown fox doesn't stop."
CORPUS = [TEXT.lower(), TEXT, "the lazy dog jumps over a naïve fox, and doesn't stop"] * 3
SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

# Tiny tokenizers of the five kinds that there are


def fast(tokenizer, **more):
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **more)


def word_pieces():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return fast(tokenizer, model_max_length=48, **names)


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"])
    tokenizer.train_from_iterator(CORPUS, trainer)
    return fast(tokenizer, eos_token="<|endoftext|>")


def byte_fallback():
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    corpus = ["▁" + text.replace(" ", "▁") for text in CORPUS]
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=400, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return fast(tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return fast(tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=64)


# Tiny models


def bert():
    return hf.BertForMaskedLM(hf.BertConfig(vocab_size=120, max_position_embeddings=64, **SMALL))


def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=300, n_positions=64, n_embd=32, n_layer=2, n_head=4))


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=400, max_position_embeddings=128, **GROUPED))


def gemma2():
    config = hf.Gemma2Config(vocab_size=400, max_position_embeddings=128, sliding_window=4, **GROUPED)
    return hf.Gemma2ForCausalLM(config)


def t5():
    config = hf.T5Config(vocab_size=120, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4)
    config.decoder_start_token_id = 0
    return hf.T5ForConditionalGeneration(config)


def bart():
    sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("ffn_dim", 32))}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 64}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1, "decoder_start_token_id": 1}
    config = hf.BartConfig(vocab_size=120, d_model=32, forced_eos_token_id=None, **sides, **heads, **ids)
    return hf.BartForConditionalGeneration(config)


def vit():
    return hf.ViTForImageClassification(hf.ViTConfig(image_size=32, patch_size=8, **SMALL))


MODELS = {
    "bert": (bert, word_pieces),
    "gpt2": (gpt2, byte_level),
    "llama": (llama, byte_fallback),
    "gemma2": (gemma2, byte_fallback),
    "t5": (t5, unigram),
    "bart": (bart, unigram),
    "vit": (vit, None),
}


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
    """No setting from outside, and an empty shelf."""
    for name in ("ATTNVIZ_MODELS", "ATTNVIZ_MODEL_MB", "ATTNVIZ_MODELS_KEPT"):
        monkeypatch.delenv(name, raising=False)
    shelves.shelf.cache_clear()


# Folders that hold a model


@pytest.mark.parametrize(
    ("name", "kind", "outputs"),
    [
        ("bert", "BertModel", ""),
        ("gpt2", "GPT2LMHeadModel", "next token"),
        ("llama", "LlamaForCausalLM", "next token"),
        ("gemma2", "Gemma2ForCausalLM", "next token"),
        ("t5", "T5ForConditionalGeneration", "next token"),
        ("bart", "BartForConditionalGeneration", "next token"),
        ("vit", "ViTModel", ""),
    ],
)
def test_a_folder_gives_its_own_model(saved, name, kind, outputs):
    folder, given = inspected(saved / name), inspected(saved / name).load()
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
    given = inspected(saved / name).load()
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
    given = inspected(folder).load()
    assert (type(given.model).__name__, given.outputs) == ("LlamaModel", "")
    with pytest.raises(ValueError, match="gives neither a next token nor a vector"):
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
        given = inspected(folder).load()
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
    assert inspected(folder).outputs == ""


def test_half_precision_is_loaded_as_float32_and_its_size_is_known_before(saved, tmp_path):
    hf.BertModel.from_pretrained(saved / "bert").to(torch.bfloat16).save_pretrained(tmp_path)
    folder = inspected(tmp_path)
    given = folder.load()
    assert {parameter.dtype for parameter in given.model.parameters()} == {torch.float32}
    assert folder.parameters == sum(parameter.numel() for parameter in given.model.parameters())
    assert folder.size == given.size


def test_weights_in_several_files(saved, tmp_path):
    hf.BertModel.from_pretrained(saved / "bert").save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert inspected(tmp_path).load().size > 0


def test_code_that_comes_with_a_known_model_is_not_run_and_that_is_said(copied):
    folder = copied(auto_map={"AutoModel": "evil.Model", "AutoConfig": "evil.Config"})
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    given = inspected(folder).load()
    assert given.notes == (
        "bert comes with code of its own, which was not run: BertModel of transformers stands in for it.",
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
    assert inspected(copied(rope_theta=10**9, max_tokens=10_485_760, **names)).size > 0


def test_a_bound_may_be_infinite_as_that_of_mambas_time_steps(copied):
    assert inspected(copied(time_step_limit=[0.0, float("inf")])).size > 0


def test_a_config_cannot_choose_code_or_files(copied):
    kernel = {"attn_implementation": "evil/kernel", "_attn_implementation": "evil/kernel"}
    given = inspected(copied(**kernel, transformers_weights="other.safetensors", dtype="float16")).load()
    assert given.model.config._attn_implementation == "sdpa"
    assert {parameter.dtype for parameter in given.model.parameters()} == {torch.float32}


# Folders that are refused


def refusal(folder, load=False):
    """What is said about a folder, or about its weights."""
    look = inspected(folder).load if load else lambda: inspected(folder)
    with pytest.raises(ValueError, match=r"\w") as refused:
        look()
    return str(refused.value)


def test_a_folder_that_is_no_model(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    assert "is no model: it has no config.json" in refusal(tmp_path)
    assert "There is no folder" in refusal(tmp_path / "nowhere")
    assert "There is no folder" in refusal("half \0 a name")
    assert "is a file. Give the folder that holds it" in refusal(tmp_path / "notes.txt")
    (tmp_path / "config.json").mkdir()
    assert "has no config.json" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('{"hidden_size": 1' + "0" * 5_000 + "}", "is no JSON"),
        ("[1]", "holds no object with names"),
        ("{}", "has no model_type"),
        ('{"model_type": 5}', "has no model_type"),
        ('{"x": "' + "x" * (1 << 20) + '"}', "bytes; that of a model has 1,048,576 at most"),
        ("\ud83d".encode("utf-16-le", "surrogatepass").decode("latin-1"), "is no JSON"),
    ],
    ids=["cut off", "deep", "digits", "list", "empty", "number", "large", "not text"],
)
def test_a_config_that_is_none(copied, text, words):
    folder = copied()
    (folder / "config.json").write_text(text, encoding="latin-1")
    assert words in refusal(folder)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"num_hidden_layers": 2**40}, "“num_hidden_layers” is 1,099,511,627,776; no model has more than 1,024"),
        ({"hidden_size": 10**12}, "“hidden_size” is 1,000,000,000,000; no model has more than 16,777,216"),
        ({"hidden_size": 1e12}, "“hidden_size” is 1,000,000,000,000.0; no model has more than"),
        ({"vocab_size": 10**9}, "“vocab_size” is 1,000,000,000; no model has more than 4,194,304"),
        ({"num_labels": 10**9}, "“num_labels” is 1,000,000,000; no model has more than"),
        ({"max_position_embeddings": -(10**40)}, "“max_position_embeddings” is larger than 1e+30"),
        ({"parts": [{"n_layers": [5, 9_999]}]}, "“n_layers” is 9,999"),
        ({"hidden_size": float("nan")}, "“hidden_size” is nan, which is no number of a model"),
        ({"layer_norm_eps": float("inf")}, "“layer_norm_eps” is inf, which is no number of a model"),
        ({"parts": {"attention_dropout": [float("-inf")]}}, "“attention_dropout” is -inf, which is no number"),
        ({"depths": [2] * 2_000}, "has 2,000 numbers for “depths”; no model has more than 1,024"),
        ({"num_hidden_layers": 1_000}, "of “bert” describes far more parts than its files have weights for"),
        ({"vocab_size": 4_000_000, "hidden_size": 4_096}, "parameters, which take 61.6 GB"),
        ({"num_hidden_layers": 20, "hidden_size": 16_384}, "parameters, which take "),
        ({"part": json.loads('{"x":' * 900 + "1" + "}" * 900)}, "has parts within parts, more than 16 deep"),
        ({"hidden_size": 31}, "cannot build “bert” from its config.json. The reason given is: “The hidden size"),
        ({"hidden_size": -4}, "cannot build “bert” from its config.json"),
        ({"hidden_size": "wide"}, "cannot build “bert” from its config.json"),
        ({"num_attention_heads": 0}, "cannot build “bert” from its config.json"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "are quantized, and only plain ones are read"),
        ({"model_type": "evil"}, "a model of the type “evil”, which transformers"),
        ({"model_type": "evil", "auto_map": {"AutoModel": "evil.Model"}}, "code of its own, which is never run here"),
        ({"model_type": "wav2vec2"}, "reads neither text nor a picture: what it takes is called “input_values”"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_config_that_is_refused(copied, config, words):
    folder = copied(**config)
    (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    assert words in refusal(folder)
    assert not (folder / "ran").exists()


def test_a_pickle_is_not_opened(copied):
    folder = copied(without=("model.safetensors",))
    assert "has no weights in model.safetensors. Save the model" in refusal(folder)
    (folder / "model.gguf").touch()
    assert "It has “model.gguf”, which is not read here" in refusal(folder)

    class Evil:
        def __reduce__(self):
            return Path.touch, (folder / "ran",)

    torch.save({"x": Evil()}, folder / "pytorch_model.bin")
    assert "only in “pytorch_model.bin”, a pickle, which can run code" in refusal(folder)
    assert not (folder / "ran").exists()


def test_half_the_weights(copied):
    folder = copied()
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(dict(list(weights.items())[::2]), folder / "model.safetensors", {"format": "pt"})
    sentence = refusal(folder, load=True)
    own = hf.AutoModel.from_config(hf.AutoConfig.from_pretrained(folder))
    lacking = [key for key in own.state_dict() if "pooler" not in key and f"bert.{key}" not in list(weights)[::2]]
    assert f"{len(lacking)} of the {len(own.state_dict())} weights of “bert” are missing" in sentence
    assert "“embeddings." in sentence


def test_weights_of_another_shape(copied):
    assert "weights of “bert” are missing from its files or have another shape, such as “encoder.layer." in refusal(
        copied(intermediate_size=64), load=True
    )


def test_weights_that_find_no_place_beside_code_that_was_not_run(copied):
    folder = copied(auto_map={"AutoModel": "own.Model"})
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    weights["bert.encoder.layer.0.attention.self.slopes"] = torch.ones(4)
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert "such as" in refusal(folder, load=True)


def test_adapters_and_pipelines(copied, tmp_path):
    folder = copied()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "evil/base"}')
    assert "is an adapter, which only changes another model" in refusal(folder)
    (folder / "config.json").unlink()
    assert "is an adapter, which only changes another model" in refusal(folder)
    (tmp_path / "model_index.json").touch()
    assert "holds several models" in refusal(tmp_path)


def header(folder, text, follows=b""):
    data = text if isinstance(text, bytes) else struct.pack("<Q", len(text)) + text.encode()
    (folder / "model.safetensors").write_bytes(data + follows)


@pytest.mark.parametrize(
    ("text", "follows", "words"),
    [
        (b"", b"", "says that its header has 0 bytes"),
        (b"\xff" * 8, b"{}", "says that its header has 18,446,744,073,709,551,615 bytes, but the file has 10"),
        (struct.pack("<Q", 100), b"{}", "says that its header has 100 bytes, but the file has 10"),
        ("[" * 100_000, b"", "The header of “model.safetensors” cannot be read"),
        ("[1]", b"", "The header of “model.safetensors” cannot be read"),
        ('{"a": {"dtype": "F32"}}', b"", "The header of “model.safetensors” cannot be read"),
        ('{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4]}}', b"1234", "numbers of 1 axes"),
        ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}', b"1234", "but 4 bytes of numbers are there"),
        ('{"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}', b"1234", "numbers of 2 axes"),
        ('{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', b"12345", "does not describe the 5 bytes"),
        ('{"a": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}', b"1234", "cannot be read"),
        (
            f'{{"a": {{"dtype": "F32", "shape": {[10**40] * 5_000}, "data_offsets": [0, 4]}}}}',
            b"1234",
            "numbers of 5,000 axes",
        ),
        (
            f'{{"a": {{"dtype": "F32", "shape": [{"9" * 4_000}, -{"9" * 4_000}], "data_offsets": [0, 4]}}}}',
            b"1234",
            "numbers of 2 axes",
        ),
        ('{"a": {"dtype": "EVIL", "shape": [1], "data_offsets": [0, 4]}}', b"1234", "numbers of the type “EVIL”"),
    ],
)
def test_a_header_that_lies(copied, text, follows, words):
    folder = copied(without=("model.safetensors",))
    header(folder, text, follows)
    assert words in refusal(folder)


def test_weights_cut_off(copied):
    folder = copied()
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    assert "was damaged or cut off; download it again" in refusal(folder)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (5, "does not say which file holds which weights"),
        ({}, "does not say which file holds which weights"),
        ({"a": "../bert/other.safetensors"}, "names “../bert/other.safetensors”, which is no file of this folder"),
        ({"a": "/etc/passwd"}, "names “/etc/passwd”, which is no file of this folder"),
        ({"a": "pytorch_model.bin"}, "names “pytorch_model.bin”, which is no file of this folder"),
        ({"a": "model-1.safetensors"}, "“model-1.safetensors”, which holds some of the weights, is missing"),
    ],
    ids=str,
)
def test_an_index_that_leads_elsewhere(copied, places, words):
    folder = copied(without=("model.safetensors",))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert words in refusal(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_link_that_leads_out_of_the_folder(copied, saved, name):
    folder = copied(without=(name,) if name != "config.json" else ())
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(saved / "bert" / name)
    assert f"“{name}” is a link that leads out of the folder" in refusal(folder)


@pytest.mark.parametrize("name", ["bpe.codes", "additional_chat_templates/x.jinja"])
def test_what_a_tokenizer_may_open_leads_nowhere_else(copied, tmp_path, name):
    folder, secret = copied(), tmp_path / "secret"
    secret.write_text("s")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(secret)
    assert f"“{Path(name).name}” is a link that leads out of the folder" in refusal(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert f"“{Path(name).name}” is not a file that can be read" in refusal(folder)


def test_what_nobody_opens_may_be_anywhere(copied, saved):
    folder = copied()
    (folder / "pytorch_model.bin").symlink_to(saved / "bert" / "model.safetensors")
    assert inspected(folder).parameters > 0


def test_files_that_never_end_are_not_opened(copied):
    folder = copied(without=("tokenizer.json",))
    os.mkfifo(folder / "tokenizer.json")
    assert "“tokenizer.json” is not a file that can be read" in refusal(folder)


def test_a_folder_may_itself_be_a_link(saved, tmp_path):
    (tmp_path / "latest").symlink_to(saved / "bert")
    assert inspected(tmp_path / "latest").parameters > 0
    assert inspected(saved / "gpt2" / ".." / "bert").name == "bert"


def test_a_model_larger_than_allowed_is_refused_with_the_numbers(saved, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_MODEL_MB", "1")
    assert inspected(saved / "bert").size < 1_000_000
    monkeypatch.setattr("attnviz.settings.MB", 1_000)
    assert "parameters, which take 78.8 KB of memory" in (said := refusal(saved / "bert"))
    assert "at most 0.977 KB may be taken here" in said


@pytest.mark.parametrize("value", ["0", "many", "-1", "1.5"])
def test_a_setting_that_is_no_number(saved, monkeypatch, value):
    monkeypatch.setenv("ATTNVIZ_MODEL_MB", value)
    assert f"ATTNVIZ_MODEL_MB must be a whole number of megabytes, 1 or more; it is “{value}”" in refusal(
        saved / "bert"
    )


NAMED = [
    *({key: "secret.txt"} for key in ("vocab", "merges", "tokenizer_object", "vocab_file", "gguf_file")),
    *({key: ["secret.txt"]} for key in ("init_inputs", "fast_tokenizer_files")),
]


@pytest.mark.parametrize("named", NAMED, ids=lambda named: next(iter(named)))
def test_a_tokenizer_cannot_name_files_to_be_read(copied, tmp_path, named):
    (tmp_path / "secret.txt").write_text("root\nsecret\n[UNK]")
    folder = copied(without=("tokenizer.json",))
    text = json.dumps(named).replace("secret.txt", str(tmp_path / "secret.txt"))
    for file, words in (
        ("tokenizer_config.json", "names a file in “{}”"),
        ("special_tokens_map.json", "says what “{}” is, but may only name special tokens"),
    ):
        (folder / file).write_text(text)
        assert f"{file} {words.format(next(iter(named)))}" in refusal(folder)
        (folder / file).unlink()


@pytest.mark.parametrize("said", [{"name_or_path": "/etc"}, {"is_local": False}, {"local_files_only": False}], ids=str)
def test_special_tokens_cannot_say_where_the_tokenizer_is(copied, said):
    folder = copied()
    (folder / "special_tokens_map.json").write_text(json.dumps({"unk_token": "[UNK]"} | said))
    assert f"special_tokens_map.json says what “{next(iter(said))}” is" in refusal(folder)


def test_special_tokens_of_any_name(copied):
    folder = copied()
    said = {"unk_token": "[UNK]", "image_token": {"content": "<image>"}, "additional_special_tokens": ["<a>"]}
    (folder / "special_tokens_map.json").write_text(json.dumps(said))
    assert inspected(folder).load().encode(TEXT).source.tokens


@pytest.mark.parametrize("without", [(), ("tokenizer.json",)])
def test_a_tokenizer_file_that_is_named_is_not_the_one_that_is_read(copied, saved, tmp_path, without):
    folder = copied(without=without)
    own = inspected(folder).load().tokenizer
    other = json.loads((saved / "bert" / "tokenizer.json").read_text().replace('"the"', '"elsewhere"'))
    (tmp_path / "other.json").write_text(json.dumps(other))
    said = json.loads((folder / "tokenizer_config.json").read_text()) | {"tokenizer_file": str(tmp_path / "other.json")}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    found = inspected(folder).load().tokenizer
    assert "elsewhere" in json.dumps(other)
    assert (own and own.get_vocab()) == (found and found.get_vocab())


def test_what_a_tokenizer_was_made_from_may_be_noted(copied):
    folder = copied()
    said = json.loads((folder / "tokenizer_config.json").read_text())
    said |= {"special_tokens_map_file": "/root/map.json", "tokenizer_file": None, "name_or_path": "/root/bert"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    assert inspected(folder).load().encode(TEXT).source.tokens


# Reading


@pytest.fixture(scope="module")
def loaded(saved):
    return {name: inspected(saved / name).load() for name in MODELS}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "t5", "bart"])
def test_tokens_are_what_was_typed(loaded, name):
    given = loaded[name].encode(TEXT)
    assert given.batch["input_ids"][0].tolist() == loaded[name].tokenizer(TEXT)["input_ids"]
    assert given.batch["attention_mask"].all()
    typed = [token for i, token in enumerate(given.source.tokens) if i not in given.source.special and token != "▁"]
    assert "".join("".join(typed).split()) == "".join(TEXT.split())


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5"])
def test_tokens_of_an_odd_text_are_pieces_of_it(loaded, name):
    text = "Fox,  DÓG\n over a naïve e\u0301 🎉 fox"
    given = loaded[name].encode(text).source
    at = 0
    for i, token in enumerate(given.tokens):
        shown = token if token == "·" else token.partition("·")[0]
        if i not in given.special and token != "▁":
            assert shown in text
            at = text.index(shown, max(at - 2, 0)) if shown.strip() else at
    assert at >= len(text) - 4


def test_bytes_of_one_character_are_told_apart(loaded):
    tokens = loaded["gpt2"].encode("🎉").source.tokens
    assert len(tokens) == len("🎉".encode())
    assert {token.partition("·")[0] for token in tokens} == {"🎉"}
    assert len(set(tokens)) == len(tokens)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "t5", "vit"])
def test_every_layer_is_named_by_what_it_reads(loaded, name):
    given = loaded[name]
    layers = given.layers("" if name == "vit" else TEXT)
    assert {layer.kind for layer in layers} <= {"self", "causal", "cross"}
    for layer in layers:
        assert not layer.inputs.query_tokens[-1].isdecimal()
        assert not layer.inputs.key_tokens[-1].isdecimal()


def test_a_pair_of_texts_is_told_apart(loaded):
    source = loaded["bert"].encode("the fox", "a Naïve dog").source
    words = {of: "".join(t for t, s in zip(source.tokens, source.segments, strict=True) if s == of) for of in (0, 1)}
    assert words == {0: "thefox", 1: "aNaïvedog"}
    assert [source.tokens[i] for i in source.special] == ["[CLS]", "[SEP]", "[SEP]"]
    assert [source.segments[i] for i in source.special] == [None, None, None]
    (first, *_) = loaded["bert"].layers("the fox", "a Naïve dog")
    assert first.inputs.query_tokens == first.inputs.key_tokens == source.tokens


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_decoder_goes_on_by_itself_as_generate_does(saved, loaded, name):
    given = loaded[name].encode(TEXT)
    own = hf.AutoModelForSeq2SeqLM.from_pretrained(saved / name).eval()
    ids = hf.AutoTokenizer.from_pretrained(saved / name)(TEXT, return_tensors="pt")["input_ids"]
    written = own.generate(ids, do_sample=False, num_beams=1, max_new_tokens=32, suppress_tokens=[0])[0].tolist()
    if written[-1] == own.config.eos_token_id and len(written) > 1:
        written = written[:-1]
    assert given.batch["decoder_input_ids"][0].tolist() == written
    assert len(given.target.tokens) == len(written)
    assert given.target.special == (0,)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_target_that_is_given(loaded, name):
    given = loaded[name].encode(TEXT, "a lazy dog")
    ids = loaded[name].tokenizer("a lazy dog")["input_ids"]
    start = loaded[name].model.config.decoder_start_token_id
    assert given.batch["decoder_input_ids"][0].tolist() == [start, *ids[:-1]]
    assert "".join("".join(given.target.tokens[1:]).split()) == "alazydog"
    assert loaded[name].output(given).shape == (120,)


def test_a_target_without_an_end_is_kept_whole(copied):
    folder = copied("t5")
    said = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(said | {"post_processor": None}))
    given = inspected(folder).load()
    reading = given.encode(TEXT, "a lazy dog")
    ids = given.tokenizer("a lazy dog")["input_ids"]
    assert reading.batch["decoder_input_ids"][0].tolist()[1:] == ids
    assert "".join("".join(reading.target.tokens[1:]).split()) == "alazydog"


def test_the_three_kinds_of_attention_have_the_tokens_that_they_relate(loaded):
    layers = loaded["bart"].layers(TEXT, "a lazy dog")
    given = loaded["bart"].encode(TEXT, "a lazy dog")
    source, target = given.source.tokens, given.target.tokens
    assert [(layer.inputs.query_tokens, layer.inputs.key_tokens) for layer in layers] == [
        (source, source),
        (target, target),
        (target, source),
    ]
    assert [layer.kind for layer in layers] == ["self", "causal", "cross"]


def test_patches_of_a_picture_are_named_by_row_and_column(loaded):
    given = loaded["vit"]
    assert given.modality == "picture"
    for layer in given.layers():
        assert layer.inputs.query_tokens == ("[CLS]", *(f"{row}·{column}" for row in range(4) for column in range(4)))
        assert layer.inputs.special_keys == (0,)
    pixels = given.encode().batch["pixel_values"]
    torch.testing.assert_close(pixels[0], drawing(32) * 2 - 1)


def test_patches_in_windows_have_no_names_of_their_own(tmp_path):
    small = {"embed_dim": 16, "depths": [1], "num_heads": [2], "window_size": 4}
    hf.SwinModel(hf.SwinConfig(image_size=32, patch_size=2, **small)).save_pretrained(tmp_path)
    (layer, *_) = inspected(tmp_path).load().layers()
    assert layer.inputs.query_tokens == tuple(map(str, range(256)))


def test_a_model_that_would_see_a_picture_without_end(tmp_path):
    small = {"embed_dim": 16, "depths": [1], "num_heads": [2], "window_size": 4}
    hf.SwinModel(hf.SwinConfig(image_size=1 << 20, patch_size=2, **small)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="does not say how large the pictures are"):
        inspected(tmp_path).load().layers()


def test_a_model_of_two_towers_is_given_a_text_and_a_picture(tmp_path):
    text = SMALL | {"vocab_size": 120, "bos_token_id": 2, "eos_token_id": 3}
    vision = SMALL | {"image_size": 32, "patch_size": 8}
    hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision)).save_pretrained(tmp_path)
    word_pieces().save_pretrained(tmp_path)
    given = inspected(tmp_path).load()
    assert given.modality == "text and picture"
    ends = {layer.inputs.query_tokens[-2:] for layer in given.layers(TEXT, image=png((40, 40)))}
    assert ends == {(".", "[SEP]"), ("3·2", "3·3")}


def png(size, color=(255, 0, 0), kind="PNG"):
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, kind)
    return file.getvalue()


def test_a_picture_is_cut_to_a_square_and_has_the_models_colors(loaded, copied):
    pixels = loaded["vit"].encode(image=png((90, 50))).batch["pixel_values"]
    assert pixels.shape == (1, 3, 32, 32)
    np.testing.assert_allclose(pixels[0, :, 5, 5], [1, -1, -1], atol=1e-6)
    folder = copied("vit")
    (folder / "preprocessor_config.json").write_text('{"image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.5, 2]}')
    pixels = inspected(folder).load().encode(image=png((90, 50))).batch["pixel_values"]
    np.testing.assert_allclose(pixels[0, :, 5, 5], [1.8, -0.4, -0.15], atol=1e-6)


def test_colors_that_are_no_numbers_are_not_taken(copied):
    folder = copied("vit")
    (folder / "preprocessor_config.json").write_text('{"image_mean": [NaN, 0, 1], "image_std": [1, Infinity, 1]}')
    pixels = inspected(folder).load().encode(image=png((9, 9))).batch["pixel_values"]
    np.testing.assert_allclose(pixels[0, :, 5, 5], [1, -1, -1], atol=1e-6)


def test_a_picture_stands_upright(loaded):
    turned = Image.new("RGB", (40, 40))
    turned.paste((255, 255, 255), (0, 0, 40, 10))  # at the top of the file; on the right when it is turned
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    turned.save(file, "PNG", exif=exif)
    pixels = loaded["vit"].encode(image=file.getvalue()).batch["pixel_values"][0, 0]
    assert (pixels[:, -4:] > 0.9).all()
    assert (pixels[:, :16] < -0.9).all()


def test_tokens_of_a_detector_that_stand_behind_the_patches_are_not_named_as_some(tmp_path):
    config = hf.YolosConfig(image_size=[32, 32], patch_size=8, num_detection_tokens=5, **SMALL)
    hf.YolosModel(config).save_pretrained(tmp_path)
    (layer, *_) = inspected(tmp_path).load().layers()
    assert layer.inputs.query_tokens == tuple(map(str, range(1 + 16 + 5)))


def damaged_exif():
    """A picture that is to be turned, and whose height is said to be a text."""
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112], exif[0x010E] = 6, "described"
    Image.new("RGB", (4, 4)).save(file, "JPEG", exif=exif)
    assert file.getvalue().count(b"\x01\x0e\0\x02") == 1
    return file.getvalue().replace(b"\x01\x0e\0\x02", b"\x01\x01\0\x02")


def long_text():
    """A picture with more text beside it than Pillow takes."""
    info = PngInfo()
    info.add_text("a", "x" * 3_000_000, zip=True)
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG", pnginfo=info)
    return file.getvalue()


@pytest.mark.parametrize(
    "image",
    [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + bytes(50), png((40, 40))[:60], long_text(), damaged_exif()],
    ids=len,
)
def test_a_picture_that_is_none(loaded, image):
    with pytest.raises(ValueError, match=r"This is no picture that can be read. Give one as PNG, JPEG or WebP"):
        loaded["vit"].layers(image=image)


def test_a_picture_without_end(loaded):
    with pytest.raises(ValueError, match=r"6,000 × 6,000 pixels; at most 32,000,000 are read"):
        loaded["vit"].layers(image=png((6_000, 6_000)))


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("bert", {"text": ""}, "There is no text yet"),
        ("bert", {"text": " \n"}, "There is no text yet"),
        ("gpt2", {"text": "half \ud83d"}, "half a character"),
        ("bert", {"text": "fox " * 60}, "This text has 62 tokens, and bert reads at most 48"),
        ("gpt2", {"text": "fox " * 80}, "tokens, and gpt2 reads at most 64"),
        ("bert", {"text": "fox " * 30, "pair": "dog " * 30}, "tokens, and bert reads at most 48"),
        ("t5", {"text": "fox " * 100}, "tokens, and t5 reads at most 64"),
        ("t5", {"text": "fox", "pair": "dog " * 100}, "tokens, and t5 reads at most 64"),
        ("bert", {"text": "x" * 100_001}, "This text has 100,001 characters"),
        ("bert", {"text": "\x01"}, "bert finds no token in this text"),
        ("vit", {"text": "fox"}, "vit sees pictures, and reads no text"),
        ("bert", {"text": "fox", "image": b"x"}, "bert reads text, and sees no pictures"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_in_words(loaded, name, given, words):
    with pytest.raises(ValueError, match=words):
        loaded[name].layers(**given)


def test_a_model_without_a_tokenizer_says_what_is_missing(copied):
    given = inspected(copied(without=("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"))).load()
    with pytest.raises(ValueError, match=r"bert has no tokenizer that can be read.*Put the tokenizer\.json"):
        given.layers(TEXT)


MERGED = {"vocab.json": '{"a": 0, "b": 1}', "tokenizer_config.json": '{"tokenizer_class": "GPT2Tokenizer"}'}
NEWER = {"version": "1.0", "added_tokens": [], "model": {"type": "New", "vocab": {}}}


@pytest.mark.parametrize(
    "files",
    [
        *({"tokenizer.json": text} for text in ("{", "[]", '{"version": "1.0"}', "\0" * 100)),
        {
            "tokenizer.json": json.dumps(NEWER),
            "tokenizer_config.json": '{"tokenizer_class": "PreTrainedTokenizerFast"}',
        },
        MERGED | {"merges.txt": "#version\na b c\nq\n"},
        MERGED | {"merges.txt": "#version\nx y\n"},
    ],
    ids=["cut off", "list", "empty", "zeros", "newer", "merges of three", "merges of no tokens"],
)
def test_a_damaged_tokenizer_counts_as_none(copied, files):
    folder = copied(without=("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"))
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(ValueError, match="bert has no tokenizer that can be read"):
        inspected(folder).load().layers(TEXT)


def test_a_tokenizer_of_another_model(copied):
    folder = copied()
    byte_fallback().save_pretrained(folder)
    with pytest.raises(ValueError, match=r"gives the token number \d+, but the model knows only 120"):
        inspected(folder).load().layers(TEXT)


def test_a_model_without_attention(tmp_path):
    config = hf.MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1, state_size=4)
    hf.MambaForCausalLM(config).save_pretrained(tmp_path)
    byte_level().save_pretrained(tmp_path)
    given = inspected(tmp_path, "mamba").load()
    with pytest.raises((ValueError, NotImplementedError), match=r"mamba|Mamba"):
        given.layers(TEXT)


def test_a_forward_that_fails_is_said_in_words_and_not_kept(loaded, monkeypatch):
    given = loaded["bert"]
    with monkeypatch.context() as failing:
        failing.setattr(given.model.embeddings, "forward", lambda *_, **__: 1 / 0)
        with pytest.raises(ValueError, match=r"bert fails on this example. The reason given is: “division by zero”"):
            given.layers("a fox")
    assert len(given.layers("a fox")) == 2


def test_a_roberta_reads_two_tokens_less_than_its_table_of_positions(tmp_path):
    hf.RobertaModel(
        hf.RobertaConfig(vocab_size=300, max_position_embeddings=20, pad_token_id=1, **SMALL)
    ).save_pretrained(tmp_path)
    byte_level().save_pretrained(tmp_path)
    given = inspected(tmp_path).load()
    assert given.limit == 18
    with pytest.raises(ValueError, match=r"tokens, and .* reads at most 18"):
        given.layers("a b c d e f g h i j k l m n o p q r s t")


# The shelf


class Counted:
    """A folder of so many bytes, and how often it was loaded."""

    def __init__(self, size):
        self.size, self.loads = size, 0

    def __call__(self):
        return self

    def load(self):
        self.loads += 1
        time.sleep(0.01)
        return minilm()


def test_the_model_not_asked_for_longest_goes_first():
    shelf, folders = Shelf(most=2, size=100), {name: Counted(10) for name in "abc"}
    for name in "abacab":
        shelf.take(name, folders[name])
    assert [folders[name].loads for name in "abc"] == [1, 2, 1]


def test_models_stay_within_the_bytes():
    shelf, folders = Shelf(most=9, size=100), {name: Counted(40) for name in "abc"}
    for name in "abc":
        shelf.take(name, folders[name])
        assert shelf.taken <= 100
    assert len(shelf.names) == 2
    shelf.take("d", Counted(90))
    assert len(shelf.names) == 1


def test_a_model_that_many_ask_for_is_loaded_once():
    shelf, folder, together = Shelf(most=2, size=100), Counted(10), threading.Barrier(8)

    def ask(_):
        together.wait()
        return shelf.take("a", folder)

    with ThreadPoolExecutor(8) as many:
        assert len(set(many.map(ask, range(8)))) == 1
    assert folder.loads == 1


def test_a_model_that_fails_to_load_leaves_the_shelf_as_it_is():
    shelf, folder = Shelf(most=2, size=100), Counted(10)
    folder.load = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        shelf.take("a", folder)
    assert shelf.names == ()
    shelf.take("a", Counted(10))


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
    given._kept.clear()
    texts = ("a fox", "a dog", "lazy")
    first, *others = map(given.layers, texts)
    monkeypatch.setattr(kept, "BYTES_KEPT", sum(map(kept._bytes, (first, *others))))
    assert [given.layers(text) for text in texts] == [first, *others]
    given.layers(TEXT)  # larger than any of them
    assert given.layers("a fox") is not first
    (layer, *_) = first
    tensors = (layer.inputs.query, layer.inputs.key, layer.inputs.value)
    assert kept._bytes(layer) == sum(tensor.numel() * 4 for tensor in tensors)


@pytest.mark.parametrize("name", ["", MINILM, f" {MINILM} "])
def test_the_model_of_the_wheel_is_always_there(name, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_MODELS", "")
    assert model(name) is minilm()
    assert choices() == [MINILM]


def test_a_hosted_instance_allows_what_its_owner_lists_and_no_folder(saved, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNVIZ_MODELS", "openai-community/gpt2, org/tiny")
    assert choices() == [MINILM, "openai-community/gpt2", "org/tiny"]
    for name in (str(saved / "bert"), "org/other", "~", "../x", f"{saved}/../bert"):
        with pytest.raises(ValueError, match=r"its owner lists, .*Choose one of .*“org/tiny”"):
            model(name)
    with pytest.raises(ValueError, match="shows only the models that its owner lists"):
        Hub(cache=tmp_path).away("org/other")
    with pytest.raises(NotHere):
        model("org/tiny", Hub(cache=tmp_path))


@pytest.mark.parametrize("name", ["a/b/c", "a--b", "../x/..", "a..b", "x" * 97, "org/name.git", "a b", "ümlaut", "-x"])
def test_a_name_that_can_be_no_id(name, tmp_path):
    with pytest.raises(ValueError, match=r"is no name of a model. Write it as on the hub|There is no folder"):
        model(name, Hub(cache=tmp_path))
    with pytest.raises(ValueError, match=r"is no name of a model. Write it as on the hub, owner/model"):
        Hub(cache=tmp_path).away(name)


def test_two_who_ask_for_a_download_start_one():
    fetched, together, let = [], threading.Barrier(4), threading.Event()

    class Slow(Hub):
        def fetch(self, away, progress):
            fetched.append(away.name)
            let.wait(10)

    def start(_):
        together.wait()
        download._start(Away("org/slow", 1, 1, 1), Slow())

    try:
        with ThreadPoolExecutor(4) as many:
            list(many.map(start, range(4)))
        let.set()
        download._under_way["org/slow"].thread.join()
        assert fetched == ["org/slow"]
    finally:
        download._forget("org/slow")


# The hub, as far as a server of its own can play it


class Played(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    repos, refused, asked = {}, {}, []

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        path = self.path.partition("?")[0]
        self.asked.append((self.command, path))
        name = "/".join(path.removeprefix("/api/models").strip("/").split("/")[:2])
        if name in self.refused:
            status, error = self.refused[name]
            return self.reply(status, b"{}", {"X-Error-Code": error, "X-Error-Message": error})
        if name not in self.repos:
            return self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        files, commit = self.repos[name], hashlib.sha1(name.encode()).hexdigest()
        if "/resolve/" in path:
            file = path.split("/resolve/")[1].split("/", 1)[1]
            if refusal := self.refused.get(f"{name}/{file}"):
                return self.reply(refusal[0])
            if file not in files:
                return self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
            data, tag = files[file], f'"{hashlib.sha1(files[file]).hexdigest()}"'
            headers = {"ETag": tag, "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
            if (span := self.headers.get("Range")) and self.command == "GET":
                start, _, end = span.removeprefix("bytes=").partition("-")
                first, last = int(start or 0), min(int(end or len(data)), len(data) - 1)
                part = {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
                return self.reply(206, data[first : last + 1], headers | part)
            return self.reply(200, data, headers)
        if "/tree/" in path:
            tree = [
                {"type": "file", "oid": hashlib.sha1(data).hexdigest(), "size": len(data), "path": file}
                for file, data in files.items()
            ]
            return self.reply(200, json.dumps(tree).encode())
        info = {"id": name, "modelId": name, "sha": commit, "siblings": [{"rfilename": file} for file in files]}
        return self.reply(200, json.dumps(info | {"private": False, "tags": [], "downloads": 0, "likes": 0}).encode())

    def reply(self, status, body=b"", headers=None):
        self.send_response(status)
        for key, value in (
            {"Content-Length": str(len(body)), "Content-Type": "application/json"} | (headers or {})
        ).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(saved, tmp_path, monkeypatch):
    """A hub of its own on this computer, with the tiny models as org/NAME; and what it was asked."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    huggingface_hub.utils.close_session()
    Played.repos = {
        f"org/{name}": {file.name: file.read_bytes() for file in (saved / name).iterdir()} for name in ("bert", "gpt2")
    }
    Played.repos["org/bert"] |= {"onnx/model.onnx": b"x" * 10_000, "pytorch_model.bin": b"pickle", "evil.py": b"code"}
    Played.repos["org/pickle"] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    hf.BertForMaskedLM.from_pretrained(saved / "bert").save_pretrained(tmp_path / "sharded", max_shard_size="40KB")
    Played.repos["org/sharded"] = Played.repos["org/bert"] | {
        file.name: file.read_bytes() for file in (tmp_path / "sharded").iterdir()
    }
    del Played.repos["org/sharded"]["model.safetensors"]
    Played.refused, Played.asked = {}, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Played)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield Hub(f"http://127.0.0.1:{server.server_port}", tmp_path / "hub")
    server.shutdown()
    server.server_close()
    huggingface_hub.utils.close_session()


def test_a_model_is_weighed_brought_here_and_read(hub, saved):
    with pytest.raises(NotHere, match=r"“org/bert” is not on this computer yet. It has to be downloaded first"):
        model("org/bert", hub)
    away, read = hub.away("org/bert"), {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    own = {file.name: file.stat().st_size for file in (saved / "bert").iterdir()}
    weights = safetensors.torch.load_file(saved / "bert" / "model.safetensors")
    size = sum(own[name] for name in read)
    assert away == Away("org/bert", sum(tensor.numel() for tensor in weights.values()), size, size)
    steps = []
    folder = hub.fetch(away, lambda done, size: steps.append((done, size)))
    assert {file.name for file in folder.iterdir()} == read  # no pickle, no code, nothing twice
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert len(steps) > 1
    assert steps[-1] == (size, size)
    assert [(here.name, here.folder) for here in hub.here()] == [("org/bert", folder)]
    Played.asked.clear()
    given = model("org/bert", hub)
    assert given.name == "org/bert"
    assert len(given.layers(TEXT)) == 2
    assert choices(hub) == [MINILM, "org/bert"]
    assert Played.asked == []  # what is here is read without the network


def test_what_was_broken_off_goes_on(hub):
    away = hub.away("org/gpt2")
    Played.refused["org/gpt2/model.safetensors"] = (410, "")
    with pytest.raises(ValueError, match="The hub answered with the error 410"):
        hub.fetch(away)
    assert hub.here() == []
    Played.refused.clear()
    again = hub.away("org/gpt2")
    assert again.size == away.size
    # Files come side by side: some of the small ones may have been on their way.
    assert len(Played.repos["org/gpt2"]["model.safetensors"]) <= again.left <= away.size
    steps = []
    hub.fetch(again, lambda done, size: steps.append(done))
    assert away.size - again.left < steps[0]
    assert steps[-1] == away.size
    assert [here.name for here in hub.here()] == ["org/gpt2"]


def test_a_model_that_lacks_a_shard_is_not_here_and_goes_on(hub, tmp_path):
    hub.fetch(hub.away("org/sharded"))
    # As older versions of huggingface_hub leave it, without a list of what belongs to it.
    shutil.copytree(hub.cache, tmp_path / "older", symlinks=True, ignore=shutil.ignore_patterns("trees"))
    older = Hub(hub.address, tmp_path / "older")
    ((name, folder),) = ((here.name, here.folder) for here in older.here())
    _, shard, *_ = sorted(folder.glob("*.safetensors"))
    lost = shard.stat().st_size
    shard.resolve().unlink()
    shard.unlink()
    assert older.here() == []
    with pytest.raises(NotHere):
        model(name, older)
    again = older.away(name)
    assert again.left == lost
    assert older.fetch(again) == folder
    assert len(model(name, older).layers(TEXT)) == 2


def test_a_model_that_would_never_be_whole_is_refused(hub):
    bare = Played.repos["org/bare"] = dict(Played.repos["org/bert"])
    del bare["config.json"]
    with pytest.raises(ValueError, match=r"“org/bare” has no config.json, so nobody can tell what it is"):
        hub.away("org/bare")
    odd = Played.repos["org/odd"] = dict(Played.repos["org/sharded"])
    first = min(file for file in odd if file.startswith("model-"))
    odd["first.safetensors"] = odd[first]
    index = "model.safetensors.index.json"
    odd[index] = odd[index].replace(first.encode(), b"first.safetensors")
    with pytest.raises(ValueError, match=r"“org/odd” lacks some of its weights"):
        hub.fetch(hub.away("org/odd"))


def test_a_model_of_the_hub_that_is_too_large_is_refused_before_it_is_brought(hub, monkeypatch):
    monkeypatch.setattr("attnviz.settings.MB", 10)
    with pytest.raises(ValueError, match=r"“org/bert” has .* parameters, which take .* at most 40 KB may be taken"):
        hub.away("org/bert")
    assert not list(hub.cache.rglob("model.safetensors"))


def test_a_disk_without_room(hub, monkeypatch):
    full = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(hubs.shutil, "disk_usage", lambda _: full)
    with pytest.raises(ValueError, match=r"and the disk has 0.977 KB left. Make room"):
        hub.away("org/bert")


@pytest.mark.parametrize(
    ("name", "refused", "words"),
    [
        ("org/nothing", None, "The hub has no public model “org/nothing”. Look for a slip in the name"),
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
        hub.away(name)


def test_without_a_network_what_is_here_is_named(hub):
    hub.fetch(hub.away("org/bert"))
    alone = Hub("http://127.0.0.1:9", hub.cache)
    with pytest.raises(ValueError, match=r"The hub cannot be reached to ask for “org/gpt2”.*can be read: “org/bert”"):
        alone.away("org/gpt2")
    with pytest.raises(ValueError, match=r"No model of the hub is on this computer yet"):
        Hub("http://127.0.0.1:9", hub.cache / "empty").away("org/gpt2")
    assert model("org/bert", alone).name == "org/bert"


def test_a_network_that_is_switched_off_is_not_asked(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    huggingface_hub.utils.close_session()
    with pytest.raises(ValueError, match="is not on this computer, and HF_HUB_OFFLINE keeps it off the network"):
        hub.away("org/bert")
    assert Played.asked == []


def test_a_download_that_breaks_off_is_said_in_words(hub):
    away = hub.away("org/bert")
    Played.refused["org/bert"] = (503, "")
    with pytest.raises(ValueError, match=r"The hub answered with the error 503|The hub cannot be reached"):
        hub.fetch(away)
