"""Small models in GGUF files, for tests."""

import gguf
import numpy as np
import torch
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode

from attnviz.models.gguf_keys import ARCHITECTURES

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
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "norm_topk_prob": True}
GEMMA = {"head_dim": 16, "sliding_window": 4, "query_pre_attn_scalar": 16}
OWN = {
    "qwen2moe": EXPERTS | {"shared_expert_intermediate_size": 96, "norm_topk_prob": False},
    "qwen3": {"head_dim": 32},
    "qwen3moe": EXPERTS | {"head_dim": 32},
    "gemma2": GEMMA | {"attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0},
    "gemma3": GEMMA,
    "stablelm": {"partial_rotary_factor": 0.5},
    "nemotron": {"partial_rotary_factor": 0.5},
    "phi3": {"partial_rotary_factor": 0.5, "sliding_window": 4},
    "falcon": {"ffn_hidden_size": 256},
    "bloom": {"seq_length": 128},
    "gpt2": {"n_inner": 256},
}


def config_of(kind, **more):
    """The config of a small model of an architecture."""
    architecture = getattr(ARCHITECTURES.get(kind), "model_type", kind)
    return transformers.AutoConfig.for_model(architecture, **SMALL | OWN.get(kind, {}) | more)


def byte_level(writer):
    """The tokenizer of GPT-2's kind, whose merges are in the file."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
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


def head_values(kind, config):
    """The values that a config has by the keys of an architecture."""
    architecture = ARCHITECTURES.get(kind) or ARCHITECTURES["llama"]
    values = {f"{kind}.{key}": getattr(config, name, None) for key, name in architecture.keys.items()}
    rope = getattr(config, "rope_parameters", None) or {}
    if f"{kind}.rope.freq_base" in values:
        values[f"{kind}.rope.freq_base"] = (rope.get("full_attention") or rope).get("rope_theta", 10_000.0)
    if architecture.partly_rotary:
        head = config.hidden_size // config.num_attention_heads
        values[f"{kind}.rope.dimension_count"] = int(head * rope.get("partial_rotary_factor", 1.0))
    return values


def write(path, kind, config, tokenizer=byte_level, more=(), values=(), quantization=None):
    """Writes a model with a transformers config into a GGUF file, its weights random; `more` are tensors, and `values`
    entries of the head, that are added. Returns the path."""
    writer, random = gguf.GGUFWriter(path, kind), np.random.default_rng(0)
    values = head_values(kind, config) | dict(values)
    for key, value in values.items():
        if value is None:  # it is left out
            continue
        add = {str: writer.add_string, float: writer.add_float32, int: writer.add_uint32, bool: writer.add_bool}
        add.get(type(value), writer.add_array)(key, value)
    tokenizer(writer)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    number = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names, added = gguf.get_tensor_name_map(number, config.num_hidden_layers), set()
    more = _experts(model, random) | dict(more)
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
    for name, numbers in more.items():
        if numbers is not None:
            writer.add_tensor(name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _experts(model, random):
    """The weights of experts, which gguf has by other names than transformers."""
    tensors = {}
    for name, weight in model.state_dict().items():
        if ".mlp.experts." not in name:
            continue
        layer, (experts, rows, width) = name.split(".")[2], weight.shape
        parts, rows = (("gate", "up"), rows // 2) if "gate_up" in name else (("down",), rows)
        tensors |= {
            f"blk.{layer}.ffn_{part}_exps.weight": random.normal(size=(experts, rows, width)).astype(np.float32)
            for part in parts
        }
    return tensors
