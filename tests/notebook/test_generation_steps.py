"""What `generate` returns, against a forward pass of all its tokens."""

from typing import Any

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, LlamaConfig, LlamaForCausalLM, StaticCache

from attnviz.layer import Layer
from attnviz.notebook.layer_maps import layer_maps

IDS = torch.tensor([[3, 4, 5]])


def llama(layers: int) -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    config = LlamaConfig(**sizes, num_hidden_layers=layers, num_key_value_heads=2, eos_token_id=None)
    model = LlamaForCausalLM(config).eval()
    model.set_attn_implementation("eager")
    return model


def bart() -> Any:
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=30, d_model=8, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=16, eos_token_id=None,
        forced_eos_token_id=None, decoder_start_token_id=2,
    )  # fmt: skip
    model = BartForConditionalGeneration(config).eval()
    model.set_attn_implementation("eager")
    return model


@torch.no_grad()
def generate(model: Any, **options: Any) -> Any:
    options = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, **options}
    return model.generate(IDS, output_attentions=True, return_dict_in_generate=True, **options)


def expect(layers: tuple[Layer, ...], expected: list[torch.Tensor]) -> None:
    """Compares maps with weights (examples, heads, queries, keys); what came after a query is masked, or has 0."""
    assert len(layers) == len(expected)
    for layer, weights in zip(layers, expected, strict=True):
        assert (layer.inputs.queries, layer.inputs.keys) == weights.shape[2:]
        for head in range(layer.inputs.heads):
            found = layer.maps(head)[0]
            torch.testing.assert_close(found.nan_to_num(0), weights[0, head], atol=1e-6, rtol=1e-5)
            assert not weights[0, head][found.isnan()].any()


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("options", [{}, {"use_cache": False}, {"max_new_tokens": 1}])
def test_steps_of_a_decoder_are_the_maps_of_one_pass(layers: int, options: dict[str, Any]) -> None:
    model = llama(layers)
    output = generate(model, **options)
    with torch.no_grad():
        whole = model(output.sequences[:, :-1], output_attentions=True).attentions
    texts = [str(one) for one in output.sequences[0, :-1].tolist()]
    for source in (output, output.attentions, [[*step] for step in output.attentions]):
        found = layer_maps(source, texts)
        expect(found, [*whole])
        assert [str(layer.id) for layer in found] == ["layer 0", "layer 1"][:layers]
        assert {layer.kind for layer in found} == {"self"}
        assert found[0].inputs.key_tokens == tuple(texts)


@pytest.mark.parametrize("options", [{}, {"use_cache": False}, {"max_new_tokens": 1}])
def test_steps_of_an_encoder_decoder_are_the_maps_of_one_pass(options: dict[str, Any]) -> None:
    model = bart()
    output = generate(model, **options)
    with torch.no_grad():
        whole = model(IDS, decoder_input_ids=output.sequences[:, :-1], output_attentions=True)
    found = layer_maps(output, key_tokens=list("abc"))
    expect(found, [*whole.encoder_attentions, *whole.decoder_attentions, *whole.cross_attentions])
    names = ["encoder 0", "decoder 0", "decoder 1", "decoder 0 cross", "decoder 1 cross"]
    assert [str(layer.id) for layer in found] == names
    assert found[-1].inputs.key_tokens == tuple("abc")


def test_a_prompt_that_continues_a_cache_is_joined() -> None:
    model = llama(1)
    with torch.no_grad():
        cache = model(IDS[:, :2], use_cache=True).past_key_values
        output = generate(model, past_key_values=cache)
        whole = model(output.sequences[:, :-1], output_attentions=True).attentions
    expect(layer_maps(output), [weights[:, :, 2:] for weights in whole])


def steps(*shapes: tuple[int, int], layers: int = 1, examples: int = 1) -> list[list[torch.Tensor]]:
    return [[torch.full((examples, 2, *shape), 1 / shape[1])] * layers for shape in shapes]


JOINED, KINDS = "do not join into one map", "they may be self- and cross-attention, or steps of a generation"
REFUSED = {
    "a sliding window": (steps((3, 3), (1, 4), (1, 4), layers=2), JOINED),
    "a window from the first step": (steps((5, 5), (1, 3), (1, 3)), JOINED),
    "a cache of fixed size, or cross-attention": (steps((3, 9), (1, 9), (1, 9)), JOINED),
    "steps in another order": (steps((1, 4), (3, 3), (1, 5)), JOINED),
    "a step that is missing": (steps((3, 3), (1, 5)), JOINED),
    "tokens that were rejected": (steps((3, 3), (4, 7), (2, 6)), JOINED),
    "repeated, but not longer": (steps((3, 3), (3, 3)), JOINED),
    "other numbers of layers": ([*steps((3, 3), layers=2), *steps((1, 4))], "different numbers of layers"),
    "one layer of the steps": ([step[0] for step in steps((3, 3), (1, 4), (1, 5))], KINDS),
    "one layer of two steps": ([step[0] for step in steps((3, 3), (1, 4))], KINDS),
    "one step of a hybrid cache": ([step[0] for step in steps((1, 4), (1, 7))], KINDS),
    "maps without an example": ([[weights[0] for weights in step] for step in steps((3, 3), (1, 4))], "of the shape"),
}


@pytest.mark.parametrize(("source", "sentence"), REFUSED.values(), ids=REFUSED)
def test_steps_whose_shapes_show_no_map_are_refused(source: Any, sentence: str) -> None:
    for given in (source, {"attentions": source}):
        with pytest.raises(ValueError, match=sentence) as refused:
            layer_maps(given)
        assert "attnviz.capturing(model)" in str(refused.value)


def test_cross_attention_without_the_output_is_refused() -> None:
    output = generate(bart())
    with pytest.raises(ValueError, match="cross-attention is given without the rest of the output"):
        layer_maps(output.cross_attentions)
    assert len(layer_maps(output.decoder_attentions)) == 2


@pytest.mark.parametrize("options", [{"num_beams": 2}, {"do_sample": True, "num_return_sequences": 2}])
def test_several_sequences_are_refused(options: dict[str, Any]) -> None:
    for model in (llama(2), bart()):
        with pytest.raises(ValueError, match=r"weights of several sequences or beams .* Generate one sequence"):
            layer_maps(generate(model, **options))


@pytest.mark.parametrize("length", [5, 8])
def test_a_cache_of_fixed_size_has_free_places(length: int) -> None:
    model = llama(2)
    output = generate(model, past_key_values=StaticCache(model.config, max_cache_len=length))
    assert output.attentions[0][0].shape[-1] == length
    with torch.no_grad():
        whole = model(output.sequences[:, :-1], output_attentions=True).attentions
    expect(layer_maps(output), [*whole])


def test_attention_that_generate_did_not_return_is_asked_for() -> None:
    with pytest.raises(ValueError, match="output_attentions=True"):
        layer_maps({"sequences": IDS, "attentions": ((None, None), (None, None))})


def test_layers_without_weights_are_left_out_of_steps() -> None:
    [layer] = layer_maps([(None, *step) for step in steps((3, 3), (1, 4))])
    assert (str(layer.id), layer.inputs.queries, layer.inputs.keys) == ("layer 1", 4, 4)
