"""GGUF files as models of transformers, compared with transformers' own reading of the same files."""

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers.modeling_gguf_pytorch_utils import get_gguf_hf_weights_map, load_gguf_checkpoint

from attnviz.models.gguf_conversion import TENSOR_PROCESSORS, convert, weight_names, write_folder
from attnviz.models.loading import inspect_folder

WIDTH, LAYERS, HEADS, KV_HEADS, WORDS = 64, 2, 4, 2, 300


@pytest.fixture(scope="module", params=["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def llama(request, tmp_path_factory):
    """A small Llama in a GGUF file, with weights of one type and norms in float32."""
    path = tmp_path_factory.mktemp("gguf") / "llama.gguf"
    writer, kind = gguf.GGUFWriter(path, "llama"), gguf.GGMLQuantizationType[request.param]
    writer.add_name("a tiny model")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    alphabet = [*transformers.convert_slow_tokenizer.bytes_to_unicode().values()]
    merges = [f"{first} {second}" for first in "abcdef" for second in "ghijklm"]
    tokens = ["<s>", "</s>", *alphabet, *(merge.replace(" ", "") for merge in merges)]
    assert len(tokens) == WORDS
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, *[1] * (WORDS - 2)])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template("{{ messages[0].content }}")
    random = np.random.default_rng(0)

    def add(name, *shape):
        numbers = random.normal(size=shape).astype(np.float32)
        if len(shape) > 1 and kind != gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, gguf.quantize(numbers, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, numbers)

    add("token_embd.weight", WORDS, WIDTH)
    add("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        for name, *shape in (
            ("attn_norm", WIDTH),
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", WIDTH * KV_HEADS // HEADS, WIDTH),
            ("attn_v", WIDTH * KV_HEADS // HEADS, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_norm", WIDTH),
            ("ffn_gate", 2 * WIDTH, WIDTH),
            ("ffn_up", 2 * WIDTH, WIDTH),
            ("ffn_down", WIDTH, 2 * WIDTH),
        ):
            add(f"blk.{layer}.{name}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_config_and_weights_are_those_that_transformers_reads(llama, tmp_path):
    write_folder(llama, tmp_path)
    theirs = load_gguf_checkpoint(str(llama))["config"]
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    expected = transformers.AutoConfig.for_model(**theirs)
    ours, expected_values = config.to_dict(), expected.to_dict()
    for values in (ours, expected_values):
        values.pop("architectures")
        values.pop("_name_or_path", None)
        values.pop("_model_name_or_path", None)
    assert ours == expected_values
    model = transformers.LlamaForCausalLM(expected)
    state = load_gguf_checkpoint(str(llama), return_tensors=True, model_to_load=model)["tensors"]
    weights = load_file(tmp_path / "model.safetensors")
    assert weights.keys() == state.keys()
    assert all(torch.equal(weights[name], state[name]) for name in state)


def test_a_converted_folder_opens_as_any_other(llama, tmp_path):
    write_folder(llama, tmp_path)
    model = inspect_folder(tmp_path).load()
    assert len(model.layers("bag of cats")) == LAYERS
    tokenizer = transformers.AutoTokenizer.from_pretrained(llama.parent, gguf_file=llama.name)
    ids = model.encode("bag of cats").batch["input_ids"][0].tolist()
    assert ids == tokenizer("bag of cats")["input_ids"]
    assert model.outputs == "next token"


def test_names_of_weights_are_those_of_transformers(llama):
    config = transformers.AutoConfig.for_model(**load_gguf_checkpoint(str(llama))["config"])
    for kind, architecture in ((transformers.LlamaForCausalLM, "llama"), (transformers.LlamaModel, "llama")):
        with torch.device("meta"):
            model = kind(config)
        processor = TENSOR_PROCESSORS["llama"](config=config.to_dict())
        expected = get_gguf_hf_weights_map(model, processor)
        assert weight_names(model, processor, architecture) == expected


def test_progress_goes_from_the_first_tensor_to_the_last(llama):
    calls = []
    model = convert(llama, lambda done, size: calls.append((done, size)))
    assert not calls
    names = [name for name, _numbers in model.weights]
    assert len(names) == len(set(names)) == 2 + 9 * LAYERS
    assert [done for done, _size in calls] == sorted(done for done, _size in calls)
    assert calls[-1][0] == calls[-1][1]
