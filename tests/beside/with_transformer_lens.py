"""Caches of TransformerLens are shown as the models' own attention: `make beside` runs this in an environment of its
own."""

from typing import Any

import pytest
import torch
import transformers as hf

import attnviz
from tests.beside.small_models import IDS, TARGET, TEXT, bert, expect, t5, tokenizer
from tests.oracles.bridge import build_bridge_from_module
from tests.support.seeded_models import seeded_model


@torch.no_grad()
def outputs(model: Any, **arguments: Any) -> tuple[Any, Any]:
    """Returns the output of a model, and its bridge, which changes it."""
    model.set_attn_implementation("eager")
    output = model(**arguments, output_attentions=True)
    return output, build_bridge_from_module(model, type(model).__name__, hf_config=model.config, tokenizer=tokenizer())


@pytest.mark.parametrize("make", [lambda: seeded_model("GPT-2"), lambda: seeded_model("Llama"), bert])
def test_a_cache_is_shown_with_its_tokens(make: Any) -> None:
    output, bridge = outputs(make(), input_ids=IDS)
    _, cache = bridge.run_with_cache(IDS)
    expect(attnviz.show(cache), {f"layer {i}": weights for i, weights in enumerate(output.attentions)}, TEXT.split())


def test_a_text_and_some_of_the_layers() -> None:
    output, bridge = outputs(seeded_model("Pythia"), input_ids=IDS)
    _, cache = bridge.run_with_cache(TEXT, prepend_bos=False, names_filter=lambda name: ".2.attn.hook_pat" in name)
    expect(attnviz.show(cache, bridge.to_str_tokens(TEXT, prepend_bos=False)), {"layer 2": output.attentions[2]})


def test_an_example_of_several() -> None:
    output, bridge = outputs(seeded_model("Llama"), input_ids=IDS)
    _, cache = bridge.run_with_cache(torch.cat([IDS, IDS.flip(1)]))
    with pytest.raises(ValueError, match="apply_slice_to_batch_dim"):
        attnviz.show(cache)
    expected = {f"layer {i}": weights for i, weights in enumerate(output.attentions)}
    expect(attnviz.show(cache.apply_slice_to_batch_dim(0)), expected, TEXT.split())


def test_a_cache_of_an_encoder_and_a_decoder() -> None:
    output, bridge = outputs(t5(), input_ids=IDS, decoder_input_ids=TARGET)
    _, cache = bridge.run_with_cache(IDS, decoder_input=TARGET)
    expected = {f"encoder {i}": weights for i, weights in enumerate(output.encoder_attentions)}
    for i, (own, cross) in enumerate(zip(output.decoder_attentions, output.cross_attentions, strict=True)):
        expected |= {f"decoder {i}": own, f"decoder {i} cross": cross}
    expect(attnviz.show(cache, [*"xyz"], key_tokens=TEXT.split()), expected)


def test_a_bridge_can_be_captured() -> None:
    output, bridge = outputs(seeded_model("GPT-2"), input_ids=IDS)
    expected = {f"layer {i}": weights for i, weights in enumerate(output.attentions)}
    expect(attnviz.show(attnviz.capture(bridge, IDS, tokens=bridge.to_str_tokens(IDS))), expected, TEXT.split())


def test_a_vision_transformer() -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    image = torch.randn(1, 3, 16, 16)
    model = hf.ViTForImageClassification(hf.ViTConfig(image_size=16, patch_size=8, **sizes)).eval()
    output, bridge = outputs(model, pixel_values=image)
    _, cache = bridge.run_with_cache(image)
    expect(attnviz.show(cache), {f"layer {i}": weights for i, weights in enumerate(output.attentions)})
