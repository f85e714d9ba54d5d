"""Attention of inseq is shown as the models' own: `make beside` runs this in an environment of its own."""

from typing import Any

import inseq  # type: ignore[import-not-found]
import pytest
import torch
import transformers as hf
from torch import Tensor

import attnviz
from tests.beside.small_models import IDS, TEXT, tokenizer
from tests.support.seeded_models import WORDS, drawn, seeded_model

PROMPT = " ".join(TEXT.split()[:5])


def attribute(model: Any, method: str, *texts: str, **options: Any) -> Any:
    return inseq.load_model(model, method, tokenizer=tokenizer()).attribute(*texts, show_progress=False, **options)


def expect(viewer: Any, name: str, weights: Tensor, queries: list[str], keys: list[str]) -> None:
    [layer] = [layer for layer in viewer.layers if layer.name == name]
    torch.testing.assert_close(layer.maps().nan_to_num(0), weights, atol=1e-6, rtol=1e-5)
    assert (layer.inputs.query_tokens, layer.inputs.key_tokens) == (tuple(queries), tuple(keys))


def test_attention_of_a_decoder() -> None:
    model = seeded_model("GPT-2")
    model.set_attn_implementation("eager")
    viewer = attnviz.show(attribute(model, "attention", PROMPT, TEXT))
    words = TEXT.split()
    with torch.no_grad():
        own = model(IDS, output_attentions=True).attentions
    for index, weights in enumerate(own):
        expect(viewer, f"layer {index}", weights[0, :, 4:7], words[4:7], words)


def test_attention_of_an_encoder_and_a_decoder() -> None:
    sizes = {
        f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("layers", 2), ("ffn_dim", 64))
    }
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = hf.BartConfig(vocab_size=WORDS, d_model=32, forced_eos_token_id=None, **sizes, **heads, **special)
    model = drawn(hf.BartForConditionalGeneration(config))
    model.set_attn_implementation("eager")
    viewer = attnviz.show(attribute(model, "attention", TEXT, "w7 w8 w9", attribute_target=True))
    with torch.no_grad():
        own = model(IDS, decoder_input_ids=torch.tensor([[2, 7, 8]]), output_attentions=True)
    for index in range(2):
        cross, weights = own.cross_attentions[index][0], own.decoder_attentions[index][0]
        expect(viewer, f"decoder {index} cross", cross, ["</s>", "w7", "w8"], TEXT.split())
        found = next(layer for layer in viewer.layers if layer.name == f"decoder {index}")
        torch.testing.assert_close(found.maps().nan_to_num(0)[..., :3], weights, atol=1e-6, rtol=1e-5)


def test_other_methods_are_refused_in_a_sentence() -> None:
    out = attribute(seeded_model("GPT-2"), "saliency", PROMPT, TEXT)
    with pytest.raises(ValueError, match="'attention'"):
        attnviz.show(out)
