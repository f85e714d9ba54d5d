"""Tiny models with tokenizers of the five kinds that there are, and what reading them needs in tests."""

import io
import json
from dataclasses import replace

import pytest
import torch
import transformers as hf
from PIL import Image
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from attnviz.base.settings import NAMES
from attnviz.models import model_cache
from attnviz.models.dinov2 import dinov2
from attnviz.models.hub import Hub
from attnviz.models.loading import inspect_folder
from attnviz.models.wheel import DINOV2_WHEEL

TEXT = "The quick brown fox doesn't stop."


CORPUS = [TEXT.lower(), TEXT, "the lazy dog jumps over a naïve fox, and doesn't stop"] * 3


SMALL = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


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
    # Not trained: the trainer breaks ties by chance.
    words = " ".join(CORPUS).split()
    pieces = {"▁", *"".join(words), *(f"▁{word[:3]}" for word in words), *(word[3:] for word in words if word[3:])}
    vocabulary = [(piece, 0.0) for piece in ("<pad>", "</s>", "<unk>")] + [(piece, -1.0) for piece in sorted(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return fast(tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=64)


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


CHAT_TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}; {% endfor %}assistant:"


def add_chat_template(folder, template=CHAT_TEMPLATE):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))
    return folder


def png(size, color=(255, 0, 0), kind="PNG"):
    file = io.BytesIO()
    Image.new("RGB", size, color).save(file, kind)
    return file.getvalue()


def refusal(folder, load=False):
    """What is said about a folder, or about its weights."""
    look = inspect_folder(folder).load if load else lambda: inspect_folder(folder)
    with pytest.raises(ValueError, match=r"\w") as refused:
        look()
    return str(refused.value)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """The folders of the tiny models, by name; never to be changed."""
    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    for name, (make, tokenizer) in MODELS.items():
        model = make()
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.data *= 8  # rows of attention that are far from uniform, and texts that go on
        model.save_pretrained(root / name)
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
        settings = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(settings))
        return folder

    return copy


@pytest.fixture
def isolated(monkeypatch, tmp_path):
    """No setting from outside, an empty model cache, no optional model, nothing from the hub here, and no network."""
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    for name in (*NAMES, *proxies, *map(str.upper, proxies)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(model_cache, "HUB", Hub("http://127.0.0.1:9", tmp_path / "hub"))
    monkeypatch.setattr(dinov2, "wheel", replace(DINOV2_WHEEL, distribution="no-such-package"))
    model_cache.shared_cache.cache_clear()
