"""Caches of TransformerLens are shown as the models' own attention: `make beside` runs this in an environment of its
own."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import attnviz
from attnviz import Texts
from attnviz.effects import LogitDifference, ModelPart
from tests.beside import five_questions as ours
from tests.beside import five_questions_transformer_lens as theirs
from tests.beside.small_models import IDS, TARGET, TEXT, bert, expect, t5, tokenizer
from tests.oracles.bridge import bridge, build_bridge_from_module
from tests.support.seeded_models import HEADS, LAYERS, OTHER, PAIRS, TEXTS, TOKEN, seeded_model


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


@torch.no_grad()
def test_five_questions_have_the_same_answers(tmp_path: Path) -> None:
    model, hooked, metric = seeded_model("GPT-2"), bridge("GPT-2"), LogitDifference(TOKEN, OTHER)
    clean, corrupted = zip(*PAIRS, strict=True)
    texts, others, neutral = (Texts(None, [{"input_ids": ids} for ids in some]) for some in (clean, corrupted, TEXTS))

    def difference(logits: Any) -> Any:
        return logits[0, -1, TOKEN] - logits[0, -1, OTHER]

    order = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    parts = [ModelPart("output", *head) for head in order]
    answers = [
        (ours.mean_effects(model, texts, metric, neutral), theirs.mean_effects(hooked, clean, difference, TEXTS)),
        ([ours.effects_on_tokens(model, texts, [3, 9])], [theirs.effects_on_tokens(hooked, clean, [3, 9])]),
        (
            [ours.recovered_by_parts(model, texts, others, metric, LAYERS)],
            [theirs.recovered_by_parts(hooked, clean, corrupted, difference, LAYERS)],
        ),
        (
            ours.circuit(model, texts, metric, neutral, parts)[1:],
            theirs.circuit(hooked, clean, difference, TEXTS, order)[1:],
        ),
    ]
    for mine, other in answers:
        for one, another in zip(mine, other, strict=True):
            torch.testing.assert_close(one.double(), another.double(), atol=1e-3, rtol=0)
    frame, asked = ours.kept(model, texts, metric, tmp_path / "effects.safetensors")
    other_frame, _name = theirs.kept(hooked, clean, difference, tmp_path / "effects.pt")
    assert asked == metric
    assert [*frame.value] == pytest.approx([*other_frame.value], abs=1e-4)
