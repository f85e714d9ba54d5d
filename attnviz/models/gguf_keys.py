"""What each key of a GGUF file means here: it is read, it is accepted with one value only, or it has no effect.

Any other key of the file's architecture, or of its tokenizer, is refused by its name: it may change what the model
computes. The keys are those of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and of llama.cpp, as is what
holds where a key is missing.
"""

import math
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from attnviz.base.formatting import quoted, short_repr
from attnviz.base.language import value_error
from attnviz.models.gguf_file import GgufFile, tensor_rows

# Keys of an architecture, without its name, and their names in the config of transformers.
SIZES = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "vocab_size": "vocab_size",
    "rope.freq_base": "rope_theta",
}
RMS, NORM = "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"
HEAD_SIZE, ROTARY, WINDOW, PATTERN = (
    "attention.key_length",
    "rope.dimension_count",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
)
LLAMA = SIZES | {RMS: "rms_norm_eps"}
HEADED = LLAMA | {HEAD_SIZE: "head_dim"}
EXPERTS = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
GEMMA = HEADED | {WINDOW: "sliding_window", "final_logit_softcapping": "final_logit_softcapping"}
EARLY = {"block_count": "n_layer", "attention.head_count": "n_head", "vocab_size": "vocab_size"}
# Those that a file may leave out; transformers then has what llama.cpp has, or another shape, which is refused.
OPTIONAL = {
    *("num_key_value_heads", "vocab_size", "rope_theta", "rope_local_base_freq", "head_dim", "seq_length"),
    *("n_inner", "ffn_hidden_size", "moe_intermediate_size", "shared_expert_intermediate_size"),
    *("attn_logit_softcapping", "final_logit_softcapping"),
}
SCALING = {  # of rotary positions, and their names in rope_scaling
    "rope.scaling.type": "rope_type",
    "rope.scaling.factor": "factor",
    "rope.scaling.original_context_length": "original_max_position_embeddings",
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
}
SCALINGS = ("linear", "yarn")  # that both have by the same names
POOLING = "pooling_type"  # of a model that gives vectors of whole texts, and no next token
ROPE_FACTORS = "rope_freqs.weight"  # by which the frequencies of rotary positions are divided, as in Llama 3.1
MOST_FACTORS = 1 << 12  # one for each pair of the numbers of a head
ROPE_BASE = 10_000.0  # without rope.freq_base

# Keys that would change the numbers, and the values with which they change none.
ONLY: dict[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.output_scale": (0, 1),
    "attention.shared_kv_layers": (0,),
    WINDOW: (0,),
    "attention.temperature_length": (0,),
    "attention.temperature_scale": (0, 1),
    "attn_logit_softcapping": (0,),
    "embedding_scale": (0, 1),
    "expert_count": (0,),
    "expert_gating_func": (1,),  # softmax
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "expert_shared_count": (0,),
    "expert_used_count": (0,),
    "expert_weights_scale": (0, 1),
    "final_logit_softcapping": (0,),
    "interleave_moe_layer_step": (0, 1),
    "leading_dense_block_count": (0,),
    "logit_scale": (0, 1),
    "moe_every_n_layers": (0, 1),
    "n_deepstack_layers": (0,),
    "nextn_predict_layers": (0,),
    "rescale_every_n_layers": (0,),
    "residual_scale": (0, 1),
    "rope.scale": (1,),
    "rope.scale_linear": (1,),
    "rope.scaling.alpha": (0,),
    "rope.scaling.attn_factor": (1,),
    "rope.scaling.yarn_attn_factor": (1,),
    "rope.scaling.yarn_ext_factor": (1, -1),
    "rope.scaling.yarn_log_multiplier": (0,),
    "router_logit_softcapping": (0,),
    "tensor_data_layout": ("", "Meta AI original pth"),
}
# Keys that are accepted with what other keys say.
IMPLIED = {
    HEAD_SIZE: "head size",
    "attention.value_length": "head size",
    "attention.key_length_swa": "head size",
    "attention.value_length_swa": "head size",
    ROTARY: "head size",
    "rope.dimension_count_swa": "rotary size",
    "rope.freq_base_swa": "rotary base",
    "attention.scale": "scale",
    "embedding_length_out": "width",
}
# A norm has one of the two constants, and those of rotary positions are said with the type of their scaling.
NO_EFFECT = (RMS, NORM, "rope.scaling.finetuned")


class Architecture(NamedTuple):
    """An architecture of GGUF as a config of transformers."""

    model_type: str
    causal_lm: str  # the class
    keys: Mapping[str, str]  # that are read, and their names in the config
    only: Mapping[str, tuple[Any, ...]] = {}  # as `ONLY`
    implied: Mapping[str, str] = {}  # as `IMPLIED`
    no_effect: tuple[str, ...] = ()
    partly_rotary: bool = False  # rope.dimension_count is read
    scaled_by_width: int = 0  # with so many layers, scores are scaled by what a head would have of the width
    settings: Mapping[str, Any] = {}  # of the config, that the format does not say


ARCHITECTURES = {
    "llama": Architecture("llama", "LlamaForCausalLM", HEADED),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", LLAMA),
    "qwen2moe": Architecture(
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        LLAMA | EXPERTS | {"expert_shared_feed_forward_length": "shared_expert_intermediate_size"},
        only={"expert_weights_norm": (False,)},
    ),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", HEADED),
    "qwen3moe": Architecture(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        HEADED | EXPERTS,
        only={"expert_weights_norm": (True,)},
        settings={"norm_topk_prob": True},
    ),
    "gemma2": Architecture(
        "gemma2",
        "Gemma2ForCausalLM",
        GEMMA | {"attn_logit_softcapping": "attn_logit_softcapping"},
        only={PATTERN: (2,)},
        scaled_by_width=46,
    ),
    "gemma3": Architecture(
        "gemma3_text",
        "Gemma3ForCausalLM",
        GEMMA | {"rope.freq_base_swa": "rope_local_base_freq"},
        only={PATTERN: (6,)},
        scaled_by_width=62,
    ),
    "phi3": Architecture("phi3", "Phi3ForCausalLM", LLAMA | {WINDOW: "sliding_window"}, partly_rotary=True),
    "falcon": Architecture(
        "falcon",
        "FalconForCausalLM",
        {key: name for key, name in SIZES.items() if key != "attention.head_count_kv"}
        | {"feed_forward_length": "ffn_hidden_size", NORM: "layer_norm_epsilon"},
        only={"attention.head_count_kv": (1,), "tensor_data_layout": ("jploski",), "attention.use_norm": (False,)},
    ),
    "bloom": Architecture(
        "bloom",
        "BloomForCausalLM",
        EARLY | {"context_length": "seq_length", "embedding_length": "hidden_size", NORM: "layer_norm_epsilon"},
        only={"attention.max_alibi_bias": (0, 8)},
        implied={"attention.head_count_kv": "heads", "feed_forward_length": "4 × width"},
    ),
    "gpt2": Architecture(
        "gpt2",
        "GPT2LMHeadModel",
        EARLY
        | {"context_length": "n_positions", "embedding_length": "n_embd", "feed_forward_length": "n_inner"}
        | {NORM: "layer_norm_epsilon"},
        implied={"attention.head_count_kv": "heads"},
    ),
    "stablelm": Architecture(
        "stablelm",
        "StableLmForCausalLM",
        SIZES | {NORM: "layer_norm_eps"},
        no_effect=("use_parallel_residual",),  # which its tensors say
        partly_rotary=True,
    ),
    "starcoder2": Architecture("starcoder2", "Starcoder2ForCausalLM", SIZES | {NORM: "norm_epsilon"}),
    "nemotron": Architecture(
        "nemotron",
        "NemotronForCausalLM",
        SIZES | {NORM: "norm_eps", HEAD_SIZE: "head_dim"},
        partly_rotary=True,
    ),
}

MODEL, PRE = "tokenizer.ggml.model", "tokenizer.ggml.pre"
SPACE_PREFIX, TYPE = "tokenizer.ggml.add_space_prefix", "general.type"
TOKENIZERS = ("gpt2", "llama")  # by bytes, and SentencePiece
NO_PREFIX = ("gemma2", "gemma3")  # architectures without a space before a text, where the file does not say it
# The rules by which a text is split before its tokens are merged: one name of each, and all of its names in llama.cpp.
SPLIT_RULES = {
    "gpt-2": (
        *("gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "granite-docling", "gigachat", "a.x-4.0"),
        *("mellum", "modern-bert", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de"),
    ),
    "smollm": ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"),
    "bloom": ("bloom", "poro-chat", "gpt3-finnish"),
    "falcon": ("falcon",),
    "llama3": (
        *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
    ),
    "dbrx": ("dbrx", "smaug-bpe"),
    "qwen2": ("qwen2", "stablelm2", "hunyuan", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"),
    "qwen35": ("qwen35",),
    "tekken": ("tekken",),
    "gpt-4o": ("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"),
}
# The rule of a file from before there was a key for it, where its architecture has only one.
USUAL_RULES = {"gpt2": "gpt-2", "falcon": "falcon", "bloom": "bloom", "starcoder2": "smollm", "qwen3": "qwen2"}
USUAL_RULES |= dict.fromkeys(("qwen2", "qwen2moe", "qwen3moe"), "qwen2")

# Keys that all architectures share.
READ = (
    *("general.architecture", "general.alignment", "tokenizer.chat_template", MODEL, PRE, SPACE_PREFIX),
    *(f"tokenizer.ggml.{name}" for name in ("tokens", "scores", "token_type", "merges", "add_bos_token")),
    *("tokenizer.ggml.add_eos_token", "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"),
    *(f"tokenizer.ggml.{name}_token_id" for name in ("eot", "eom", "unknown", "padding")),
)
SHARED_ONLY: dict[str, tuple[Any, ...]] = {
    TYPE: ("model",),
    "general.quantization_version": (2,),
    "split.no": (0,),
    "split.count": (0, 1),
    "tokenizer.ggml.add_sep_token": (False,),
    "tokenizer.ggml.added_tokens": ([],),
    "tokenizer.ggml.precompiled_charsmap": ([],),
    "tokenizer.ggml.remove_extra_whitespaces": (False,),
    "tokenizer.ggml.token_type_count": (0, 1),
}
SHARED_NO_EFFECT = (  # a star stands for any text
    *("general.*", "quantize.*", "split.tensors.count", "tokenizer.huggingface.json"),
    *("tokenizer.chat_template.*", "tokenizer.chat_templates", "tokenizer.ggml.fim_*_token_id"),
    *(
        f"tokenizer.ggml.{name}_token_id"
        for name in ("separator", "seperator", "mask", "cls", "prefix", "suffix", "middle")
    ),
)
# What other keys begin with that are refused; any others are notes of somebody, or of another architecture.
CLOSED = ("adapter", "clip", "diffusion", "imatrix", "split", "tokenizer", "xielu")

READ_HERE, ONE_VALUE, WITHOUT_EFFECT, REFUSED = "read", "with one value", "no effect", "refused"


def key_class(key: str, kind: str) -> str:
    """Returns what is done with a key in a file of an architecture: it is "read", accepted "with one value", has "no
    effect", or is "refused"."""
    architecture, (space, _dot, rest) = ARCHITECTURES[kind], key.partition(".")
    if space == kind:
        rotary = "rope.freq_base" in architecture.keys
        if (
            rest in architecture.keys
            or (rest in SCALING and rotary)
            or (rest == ROTARY and architecture.partly_rotary)
            or rest == POOLING
        ):
            return READ_HERE
        if rest in (*NO_EFFECT, *architecture.no_effect):
            return WITHOUT_EFFECT
        if not rotary and rest.startswith("rope."):
            return REFUSED
        one = rest in ONLY or rest in architecture.only or rest in IMPLIED or rest in architecture.implied
        return ONE_VALUE if one else REFUSED
    if key in READ:
        return READ_HERE
    if key in SHARED_ONLY:
        return ONE_VALUE
    if any(fnmatchcase(key, pattern) for pattern in SHARED_NO_EFFECT):
        return WITHOUT_EFFECT
    return REFUSED if space in CLOSED else WITHOUT_EFFECT


def accepted_values(key: str, kind: str) -> tuple[Any, ...]:
    """Returns the values with which a key is accepted that is accepted with one value; the names of sizes in place of
    those that other keys say."""
    if key in SHARED_ONLY:
        return SHARED_ONLY[key]
    architecture, rest = ARCHITECTURES[kind], key.partition(".")[2]
    implied = {**IMPLIED, **architecture.implied}
    only = architecture.only.get(rest) or (() if rest in implied else ONLY.get(rest, ()))
    return only or (implied[rest],)


def split_rule(metadata: Mapping[str, Any]) -> str | None:
    """Returns the name in `SPLIT_RULES` of the rule of a tokenizer; None for SentencePiece, which has none, and for a
    rule that is not known."""
    if metadata.get(MODEL) != "gpt2":
        return None
    name = metadata.get(PRE, "default")
    if name == "default":
        return USUAL_RULES.get(metadata["general.architecture"])
    return next((rule for rule, names in SPLIT_RULES.items() if name in names), None)


def has_space_prefix(metadata: Mapping[str, Any]) -> bool:
    """Returns whether a tokenizer puts a space before a text."""
    usual = metadata.get(MODEL) == "llama" and metadata["general.architecture"] not in NO_PREFIX
    return bool(metadata.get(SPACE_PREFIX, usual))


def begins_texts(metadata: Mapping[str, Any]) -> bool:
    """Returns whether a tokenizer puts a token before a text where the file does not say it."""
    return metadata.get(MODEL) == "llama" or split_rule(metadata) in ("llama3", "tekken")


def config_json(gguf: GgufFile) -> dict[str, Any]:
    """Returns the config of the model in a file, as config.json has it, with the type in which most of its numbers are
    stored as `gguf_type`.

    Raises ValueError for an architecture that is not read from GGUF, a key that is refused, and one that is missing.
    """
    kind = gguf.metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise value_error(
            "{name} has the architecture {kind}, which is not read from GGUF here. Choose a model of one of these: "
            "{ARCHITECTURES}.",
            name=quoted(gguf.path.name),
            kind=quoted(kind),
            ARCHITECTURES=", ".join(ARCHITECTURES),
        )
    architecture = ARCHITECTURES[kind]
    values = {key: _one_value(value) for key, value in gguf.metadata.items() if key.startswith(f"{kind}.")}
    own = {key.removeprefix(f"{kind}."): value for key, value in values.items()}
    if isinstance(kinds := own.get(PATTERN), list) and False in kinds:  # of each layer: whether its attention slides
        period = kinds.index(False) + 1
        if kinds == [bool(layer % period) for layer in range(1, len(kinds) + 1)]:
            values[f"{kind}.{PATTERN}"] = period
    sizes = _sizes(own, architecture)
    for key in {MODEL: None, PRE: None, **gguf.metadata}:
        _check_key(gguf, key, kind, values.get(key, gguf.metadata.get(key)), sizes)
    stored, types = {tensor.name for tensor in gguf.tensors}, Counter[str]()
    for tensor in gguf.tensors:
        types[tensor.kind.name] += tensor.count
    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "architectures": [] if own.get(POOLING) else [architecture.causal_lm],
        "tie_word_embeddings": "output.weight" not in stored,
        "vocab_size": _count(gguf.metadata.get("tokenizer.ggml.tokens")),
        "gguf_type": max(types, key=lambda name: types[name], default=""),
        **architecture.settings,
        **_special_ids(gguf.metadata),
    }
    for key, name in architecture.keys.items():
        if key in own:
            config[name] = own[key]
        elif name not in OPTIONAL and (name != "sliding_window" or kind == "gemma3"):
            raise value_error(
                "{name} does not say {key}, which every model of its architecture has. Choose the model that it was "
                "made from.",
                name=quoted(gguf.path.name),
                key=quoted(f"{kind}.{key}"),
            )
    if "rope.freq_base" in architecture.keys:
        config.setdefault("rope_theta", ROPE_BASE)
        config |= _rope_scaling(gguf, own, kind)
    if "num_key_value_heads" in architecture.keys.values():
        config.setdefault("num_key_value_heads", own["attention.head_count"])
    if "head_dim" in architecture.keys.values():
        config["head_dim"] = sizes["head size"]
    if architecture.partly_rotary and sizes["head size"]:
        config["partial_rotary_factor"] = _fraction(sizes["rotary size"], sizes["head size"])
    if architecture.scaled_by_width:
        config["query_pre_attn_scalar"] = sizes["scaled by"]
    if kind == "stablelm":
        config["use_qkv_bias"] = any(name.endswith(("attn_q.bias", "attn_k.bias", "attn_v.bias")) for name in stored)
        config["use_parallel_residual"] = not any("ffn_norm" in name for name in stored)
    for name in ("sliding_window", "final_logit_softcapping", "attn_logit_softcapping"):
        if name in config:
            config[name] = config[name] or None  # as in Phi-4, which has no window
    return config


def _one_value(value: Any) -> Any:
    """Returns the value of all layers, where a key has the same for each."""
    return value[0] if isinstance(value, list) and value and value == value[:1] * len(value) else value


def _count(values: Any) -> int:
    return len(values) if isinstance(values, list) else 0


def _check_key(gguf: GgufFile, key: str, kind: str, value: Any, sizes: Mapping[str, Any]) -> None:
    """Raises ValueError for a key that is refused, with this value."""
    role, own = key_class(key, kind), key.partition(".")[0] == kind
    if role == WITHOUT_EFFECT:
        return
    if role == ONE_VALUE:
        allowed = [sizes.get(one, one) if isinstance(one, str) else one for one in accepted_values(key, kind)]
        fits = any(_same(value, one) for one in allowed)
    elif key == MODEL:
        fits = value in TOKENIZERS
    elif key == PRE:
        fits = gguf.metadata.get(MODEL) != "gpt2" or split_rule(gguf.metadata) is not None
    elif key == SPACE_PREFIX:
        fits = not value or gguf.metadata.get(MODEL) == "llama"
    else:  # the type of a scaling is a text, which `_rope_scaling` checks
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = role == READ_HERE and (is_number or not own or key.endswith(".rope.scaling.type"))
    if not fits:
        raise value_error(
            "{name} has {value} as {key}, which is not read from GGUF here, and may change what the model computes. "
            "Choose the model that it was made from.",
            name=quoted(gguf.path.name),
            key=quoted(key),
            value=short_repr(value),
        )


def _same(value: Any, expected: Any) -> bool:
    """Returns whether two values are the same; numbers as far as 32 bits say."""
    numbers = [one for one in (value, expected) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == 2:
        return math.isclose(value, expected, rel_tol=1e-5)
    return type(value) is type(expected) and bool(value == expected)


def _sizes(own: Mapping[str, Any], architecture: Architecture) -> dict[str, Any]:
    """Returns the sizes that other keys imply; 0 for those that cannot be known."""
    layers, width, heads = (
        own[key] if isinstance(own.get(key), int) and own[key] > 0 else 0
        for key in ("block_count", "embedding_length", "attention.head_count")
    )
    each = width // heads if heads else 0
    # A file from before there was a key for it has heads that rotate as a whole.
    rotating = own.get(ROTARY) if architecture.model_type == "llama" else None
    head = own.get(HEAD_SIZE, rotating or each) if "head_dim" in architecture.keys.values() else each
    scaled_by = each if layers == architecture.scaled_by_width else head
    return {
        "width": width,
        "heads": heads,
        "4 × width": 4 * width,
        "head size": head,
        "rotary size": own.get(ROTARY, head),
        "rotary base": own.get("rope.freq_base", ROPE_BASE),
        "scaled by": scaled_by,
        "scale": scaled_by**-0.5 if isinstance(scaled_by, int) and scaled_by > 0 else 0.0,
    }


def _fraction(part: Any, whole: Any) -> float:
    """Returns the fraction of which `int(whole * fraction)` is the part."""
    fraction = part / whole
    return fraction if int(whole * fraction) == part else math.nextafter(fraction, math.inf)


def special_token_ids(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the ids of special tokens by their names in transformers; None for those that there are not."""
    # Those of SentencePiece, where the file does not say them.
    usual = {"bos": 1, "eos": 2, "unknown": 0} if metadata.get("tokenizer.ggml.model") == "llama" else {}
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    return {
        f"{name}_token": metadata.get(f"tokenizer.ggml.{key}_token_id", usual.get(key)) for key, name in names.items()
    }


def _special_ids(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the ids of special tokens as config.json has them; a text ends with any of those that end a turn."""
    ids = {f"{name}_id": number for name, number in special_token_ids(metadata).items() if name != "unk_token"}
    ends = [ids["eos_token_id"], *(metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eot", "eom"))]
    ends = list(dict.fromkeys(number for number in ends if number is not None))
    return ids | {"eos_token_id": ends if len(ends) > 1 else ids["eos_token_id"]}


def _rope_scaling(gguf: GgufFile, own: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Returns the scaling of rotary positions as config.json has it, which transformers does not read from GGUF."""
    scaling = {name: own[key] for key, name in SCALING.items() if own.get(key)}
    method = scaling.get("rope_type", "none")
    factors = next((tensor for tensor in gguf.tensors if tensor.name == ROPE_FACTORS and kind == "llama"), None)
    if method not in (*SCALINGS, "none") or (factors is not None and method != "none"):
        raise value_error(
            "{name} scales its rotary positions by {method}, which is not read from GGUF here. Choose the model that "
            "it was made from.",
            name=quoted(gguf.path.name),
            method=quoted(method if factors is None else f"{method} + {ROPE_FACTORS}"),
        )
    if factors is None:
        return {"rope_scaling": scaling} if method != "none" else {}
    if factors.count > MOST_FACTORS or len(factors.shape) != 1:
        raise value_error(
            "{name} has the tensor {tensor}, but the config needs one of another shape. Choose the model that it was "
            "made from.",
            name=quoted(gguf.path.name),
            tensor=quoted(factors.name),
        )
    numbers = tensor_rows(gguf.path, factors, 0, 1).ravel().tolist()
    return {
        "rope_scaling": {
            "rope_type": "longrope",
            "short_factor": numbers,
            "long_factor": numbers,
            "attention_factor": 1.0,
            "original_max_position_embeddings": own.get("context_length"),
        }
    }
