"""Small models in GGUF files, for tests."""

import gguf
import numpy as np
import torch
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode
from transformers.integrations import GGUF_CONFIG_MAPPING

from attnviz.models.gguf_conversion import MODEL_TYPES

ALPHABET = [*bytes_to_unicode().values()]
MERGES = [f"{first} {second}" for first in "abcdef" for second in "ghijklm"]
TOKENS = ["<s>", "</s>", *ALPHABET, *(merge.replace(" ", "") for merge in MERGES)]
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "b", "a", "g", "ba", "bag", "▁bag"]
LAYERS = 2
SMALL = {
    "vocab_size": len(TOKENS),
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
# Beside sizes that the files say: those that transformers leaves at the defaults of the config, which these are.
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "head_dim": 16}
OWN = {
    "qwen2moe": EXPERTS | {"moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632},
    "qwen3": {"head_dim": 128},
    "qwen3moe": EXPERTS | {"moe_intermediate_size": 768},
    "gemma2": {"head_dim": 16, "sliding_window": 4},
    "gemma3": {"head_dim": 16, "sliding_window": 4},
    "gpt2": {"max_position_embeddings": 1024},
}


def config_of(kind, **more):
    """The config of a small model of an architecture."""
    return transformers.AutoConfig.for_model(MODEL_TYPES.get(kind, kind), **SMALL | OWN.get(kind, {}) | more)


def byte_level(writer):
    """The tokenizer of GPT-2's kind, whose merges are in the file."""
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, *[1] * (len(TOKENS) - 2)])
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{{ messages[0].content }}")


def sentence_pieces(writer):
    """The tokenizer of Llama's kind, whose merges follow from its scores."""
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([0.0] * 259 + [-1.0 * i for i in range(len(PIECES) - 259)])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * (len(PIECES) - 259)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def write(path, kind, config, tokenizer=byte_level, more=(), values=(), quantization=None):
    """Writes a model with a transformers config into a GGUF file, its weights random; `more` are tensors, and `values`
    entries of the head, that are added. Returns the path."""
    writer, random = gguf.GGUFWriter(path, kind), np.random.default_rng(0)
    for key, name in GGUF_CONFIG_MAPPING.get(config.model_type, GGUF_CONFIG_MAPPING.get(kind)).items():
        value = getattr(config, name, None) if name else None
        if name == "rope_theta":
            value = 10_000.0
        if isinstance(value, int | float) and not isinstance(value, bool):
            add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
            add(f"{kind}.{key}", value)
    for key, value in dict(values).items():
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32}[type(value)]
        add(key, value)
    tokenizer(writer)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    number = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names, added = gguf.get_tensor_name_map(number, config.num_hidden_layers), set()
    for name, weight in model.state_dict().items():
        stem, _dot, end = name.rpartition(".")
        stored = names.get_name(stem) or names.get_name(stem.partition(".")[2])
        if stored is None or (stored in added and end == "weight"):
            continue
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        added.add(stored)
        transposed = kind == "gpt2" and len(weight.shape) == 2 and "blk" in stored
        numbers = random.normal(size=tuple(reversed(weight.shape)) if transposed else weight.shape).astype(np.float32)
        if "gate_inp_shexp" in stored:  # a row
            numbers = numbers[0]
        if len(numbers.shape) > 1 and quantization:
            quantized = gguf.GGMLQuantizationType[quantization]
            writer.add_tensor(f"{stored}.{end}", gguf.quantize(numbers, quantized), raw_dtype=quantized)
        else:
            writer.add_tensor(f"{stored}.{end}", numbers)
    for name, numbers in dict(more).items():
        writer.add_tensor(name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
