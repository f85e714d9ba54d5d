"""The keys of GGUF files: each is read, accepted with one value, without effect, or refused by its name."""

from collections import Counter

import gguf
import pytest

from attnviz.models.gguf_file import read_gguf
from attnviz.models.gguf_keys import (
    ARCHITECTURES,
    EXPERTS,
    IMPLIED,
    NO_EFFECT,
    ONE_VALUE,
    ONLY,
    READ_HERE,
    REFUSED,
    SCALING,
    SHARED_NO_EFFECT,
    SPLIT_RULES,
    WITHOUT_EFFECT,
    accepted_values,
    config_json,
    key_class,
)
from tests.support.gguf_files import byte_level, config_of, sentence_pieces, write


def keys_of(part):
    """All keys that llama.cpp has for a part of a file."""
    for name, value in vars(part).items():
        if isinstance(value, type):
            yield from keys_of(value)
        elif isinstance(value, str) and not name.startswith("_"):
            yield value


ALL_KEYS = sorted(keys_of(gguf.Keys))
OWN_KEYS = [key for key in ALL_KEYS if key.startswith("{arch}.")]
# What the specification has, and the library of llama.cpp has not.
MORE_KEYS = ("rope.scale", "rope.scale_linear", "attention.use_norm")


def said(path, kind, values=(), **more):
    """The config that a file of an architecture says, with further values in its head."""
    return config_json(read_gguf(write(path / "a.gguf", kind, config_of(kind), values=values, **more)))


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_key_is_in_one_class(kind):
    classes = {key: key_class(key.format(arch=kind, id=0, name="x", dense="dense_2"), kind) for key in ALL_KEYS}
    assert len(classes) > 220
    counts = Counter(classes.values())
    assert {*counts} == {READ_HERE, ONE_VALUE, WITHOUT_EFFECT, REFUSED}
    for key, role in classes.items():
        assert role != ONE_VALUE or accepted_values(key.format(arch=kind), kind), key
    read = {key for key, role in classes.items() if role == READ_HERE and key in OWN_KEYS}
    rotary = {*SCALING} if "rope.freq_base" in ARCHITECTURES[kind].keys else set()
    assert {key.removeprefix("{arch}.") for key in read} >= {*ARCHITECTURES[kind].keys, *rotary}


def test_no_table_has_a_key_that_there_is_not():
    known = {key.removeprefix("{arch}.") for key in OWN_KEYS} | {*MORE_KEYS}
    tables = [ONLY, IMPLIED, NO_EFFECT, SCALING, EXPERTS, *(one.keys for one in ARCHITECTURES.values())]
    tables += [table for one in ARCHITECTURES.values() for table in (one.only, one.implied, one.no_effect)]
    assert {key for table in tables for key in table} <= known
    assert SHARED_NO_EFFECT


@pytest.mark.parametrize("kind", ["llama", "gpt2", "qwen3moe", "bloom"])
def test_a_key_of_the_own_architecture_that_is_not_known_is_refused(tmp_path, kind):
    for key in (f"{kind}.anything", f"{kind}.ssm.state_size", "tokenizer.ggml.anything", "adapter.lora.alpha"):
        with pytest.raises(ValueError, match=f"has 7 as “{key}”, which is not read from GGUF here, and may change"):
            said(tmp_path, kind, {key: 7})
    assert said(tmp_path, kind, {"somebody.note": 7, "general.note": 7, "other.rope.scaling.alpha": 7.0})


CHANGES = {
    "attention.causal": False,
    "attention.clamp_kqv": 8.0,
    "attention.max_alibi_bias": 4.0,
    "attention.scale": 0.5,
    "attention.value_length": 8,
    "embedding_scale": 12.0,
    "expert_gating_func": 2,
    "expert_weights_scale": 2.5,
    "logit_scale": 0.0625,
    "residual_scale": 0.22,
    "rope.dimension_count": 8,
    "rope.scale_linear": 4.0,
    "rope.scaling.alpha": 1000.0,
    "rope.scaling.attn_factor": 1.19,
    "rope.scaling.yarn_log_multiplier": 0.1,
}


@pytest.mark.parametrize(("key", "value"), CHANGES.items())
@pytest.mark.parametrize("kind", ["qwen2", "gemma3"])
def test_what_would_change_the_numbers_is_refused(tmp_path, kind, key, value):
    with pytest.raises(ValueError, match=f"as “{kind}.{key}”, which is not read"):
        said(tmp_path, kind, {f"{kind}.{key}": value})


def test_what_other_keys_say_is_accepted(tmp_path):
    values = {"attention.key_length": 16, "attention.value_length": 16, "rope.dimension_count": 16, "logit_scale": 1.0}
    values |= {"attention.scale": 0.25, "attention.causal": True, "expert_count": 0, "attention.sliding_window": 0}
    assert said(tmp_path, "qwen2", {f"qwen2.{key}": value for key, value in values.items()})


@pytest.mark.parametrize("count", ["split.count", "split.no"])
def test_a_part_of_a_split_model_is_refused(tmp_path, count):
    with pytest.raises(ValueError, match=f"has 2 as “{count}”"):
        said(tmp_path, "llama", {count: 2})


@pytest.mark.parametrize("kind", ["adapter", "imatrix", "mmproj"])
def test_what_is_not_a_model_is_refused(tmp_path, kind):
    with pytest.raises(ValueError, match=f"has '{kind}' as “general.type”"):
        said(tmp_path, "llama", {"general.type": kind})


def test_a_key_that_every_model_has_is_not_taken_from_another(tmp_path):
    with pytest.raises(ValueError, match=r"does not say “llama.attention.layer_norm_rms_epsilon”, which every model"):
        said(tmp_path, "llama", {"llama.attention.layer_norm_rms_epsilon": None})


def test_a_value_for_each_layer_is_read_where_all_are_the_same(tmp_path):
    assert said(tmp_path, "llama", {"llama.attention.head_count_kv": [2, 2]})["num_key_value_heads"] == 2
    with pytest.raises(ValueError, match=r"has \[2, 4\] as “llama.attention.head_count_kv”"):
        said(tmp_path, "llama", {"llama.attention.head_count_kv": [2, 4]})


def test_soft_caps_are_read(tmp_path):
    caps = ("attn_logit_softcapping", "final_logit_softcapping")
    config = said(tmp_path, "gemma2", dict(zip((f"gemma2.{cap}" for cap in caps), (3.0, 5.0), strict=True)))
    assert [config[cap] for cap in caps] == [3.0, 5.0]
    config = said(tmp_path, "gemma2", {f"gemma2.{cap}": 0.0 for cap in caps})
    assert [config[cap] for cap in caps] == [None, None]
    assert said(tmp_path, "gemma3", {"gemma3.final_logit_softcapping": 5.0})["final_logit_softcapping"] == 5.0
    with pytest.raises(ValueError, match="attn_logit_softcapping"):  # which transformers does not have there
        said(tmp_path, "gemma3", {"gemma3.attn_logit_softcapping": 5.0})


@pytest.mark.parametrize(("kind", "layers"), [("gemma2", 46), ("gemma3", 62)])
def test_the_scale_of_the_largest_gemma_is_that_of_its_width(tmp_path, kind, layers):
    head = read_gguf(write(tmp_path / "a.gguf", kind, config_of(kind)))
    head.metadata[f"{kind}.attention.key_length"] = head.metadata[f"{kind}.attention.value_length"] = 32
    assert config_json(head)["query_pre_attn_scalar"] == 32
    head.metadata[f"{kind}.block_count"] = layers
    assert config_json(head)["query_pre_attn_scalar"] == 64 // 4


def test_which_layers_slide_is_what_transformers_has(tmp_path):
    pattern = "gemma3.attention.sliding_window_pattern"
    for value in (6, [*[True] * 5, False, True]):
        assert said(tmp_path, "gemma3", {pattern: value})
    for value in (4, [True, False, True], [*[True] * 5, False, False], [False, True]):
        with pytest.raises(ValueError, match=f"as “{pattern}”, which is not read"):
            said(tmp_path, "gemma3", {pattern: value})


def test_falcons_that_share_no_keys_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has 4 as “falcon.attention.head_count_kv”"):
        said(tmp_path, "falcon", {"falcon.attention.head_count_kv": 4})


@pytest.mark.parametrize(("kind", "name"), [("stablelm", "layer_norm_eps"), ("falcon", "layer_norm_epsilon")])
def test_norms_have_the_constant_of_their_kind(tmp_path, kind, name):
    assert said(tmp_path, kind, {f"{kind}.attention.layer_norm_epsilon": 0.5})[name] == 0.5


def test_positions_of_starcoder_2_have_their_own_base(tmp_path):
    assert said(tmp_path, "starcoder2", {"starcoder2.rope.freq_base": 1e6})["rope_theta"] == 1e6


@pytest.mark.parametrize("dimensions", range(2, 17, 2))
def test_a_part_of_a_head_rotates(tmp_path, dimensions):
    fraction = said(tmp_path, "stablelm", {"stablelm.rope.dimension_count": dimensions})["partial_rotary_factor"]
    assert int(16 * fraction) == dimensions


def test_a_text_ends_with_a_turn_too(tmp_path):
    assert said(tmp_path, "llama", {"tokenizer.ggml.eot_token_id": 5})["eos_token_id"] == [1, 5]


def test_a_model_of_vectors_has_no_next_token(tmp_path):
    assert said(tmp_path, "qwen3", {"qwen3.pooling_type": 3})["architectures"] == []


def test_the_type_of_most_numbers(tmp_path):
    assert said(tmp_path, "llama", quantization="Q4_1")["gguf_type"] == "Q4_1"


def rule_of(rule):
    """The tokenizer of bytes with a rule of splitting."""

    def tokenizer(writer):
        byte_level(writer)
        writer.kv_data[0]["tokenizer.ggml.pre"].value = rule

    return tokenizer


def test_a_rule_of_splitting_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has 'deepseek-llm' as “tokenizer.ggml.pre”"):
        said(tmp_path, "llama", tokenizer=rule_of("deepseek-llm"))
    with pytest.raises(ValueError, match=r"has 'default' as “tokenizer.ggml.pre”"):
        said(tmp_path, "llama", tokenizer=rule_of("default"))
    assert said(tmp_path, "gpt2", tokenizer=rule_of("default"))
    assert len({name for names in SPLIT_RULES.values() for name in names}) == sum(map(len, SPLIT_RULES.values()))


def test_a_space_prefix_of_bytes_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has True as “tokenizer.ggml.add_space_prefix”"):
        said(tmp_path, "llama", {"tokenizer.ggml.add_space_prefix": True})
    assert said(tmp_path, "llama", {"tokenizer.ggml.add_space_prefix": True}, tokenizer=sentence_pieces)
