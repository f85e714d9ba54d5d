"""What nnsight gives is shown as the models' own attention: `make beside` runs this in an environment of its own."""

from typing import Any

import nnsight  # type: ignore[import-not-found]
import pytest
import torch

import attnviz
from tests.beside.small_models import IDS, TARGET, TEXT, expect, t5, tokenizer
from tests.support.seeded_models import seeded_model


@torch.no_grad()
def outputs(model: Any, **arguments: Any) -> tuple[Any, Any]:
    """Returns the output of a model, and the model for nnsight."""
    model.set_attn_implementation("eager")
    return model(**arguments, output_attentions=True), nnsight.NNsight(model)


def decoder() -> tuple[dict[str, Any], Any]:
    output, model = outputs(seeded_model("Llama"), input_ids=IDS)
    return {f"layer {i}": weights for i, weights in enumerate(output.attentions)}, model


def test_a_cache_of_all_modules() -> None:
    expected, model = decoder()
    with model.trace(IDS) as tracer:
        cache = tracer.cache()
    expect(attnviz.show(cache, TEXT.split()), expected, TEXT.split())
    expect(attnviz.show(cache.model.model.layers[1]), {"layer 1": expected["layer 1"]})


def test_saved_weights_and_outputs() -> None:
    expected, model = decoder()
    with model.trace(IDS):
        returned = nnsight.save([layer.self_attn.output for layer in model.model.layers])
    with model.trace(IDS):
        weights = nnsight.save([layer.self_attn.output[1] for layer in model.model.layers])
    first = {"layer 0": expected["layer 0"]}
    by_path = {f"model.layers.{i}.self_attn": layer for i, layer in enumerate(weights)}
    for source in (weights, returned, by_path, dict(zip(by_path, returned, strict=True))):
        expect(attnviz.show(source, TEXT.split()), expected, TEXT.split())
    for source in (weights[:1], returned[:1]):
        expect(attnviz.show(source), first)
    assert torch.equal(attnviz.show(weights[0]).layers[0].maps(), expected["layer 0"][0])
    assert torch.equal(attnviz.show(returned[0]).layers[0].maps(), expected["layer 0"][0])


def test_the_output_of_the_model_and_of_the_interface_of_attention() -> None:
    expected, model = decoder()
    with model.trace(IDS, output_attentions=True):
        pairs = nnsight.save([layer.self_attn.source.attention_interface_1.output for layer in model.model.layers])
        output = model.output.save()
    expect(attnviz.show(output), expected)
    expect(attnviz.show(pairs), expected)


def test_a_cache_of_an_encoder_and_a_decoder() -> None:
    output, model = outputs(t5(), input_ids=IDS, decoder_input_ids=TARGET)
    with model.trace(input_ids=IDS, decoder_input_ids=TARGET) as tracer:
        cache = tracer.cache()
    expected = {f"encoder {i}": weights for i, weights in enumerate(output.encoder_attentions)}
    for i, (own, cross) in enumerate(zip(output.decoder_attentions, output.cross_attentions, strict=True)):
        expected |= {f"decoder {i}": own, f"decoder {i} cross": cross}
    expect(attnviz.show(cache, [*"xyz"], key_tokens=TEXT.split()), expected)


def test_a_generation() -> None:
    plain = seeded_model("GPT-2")
    plain.set_attn_implementation("eager")
    model = nnsight.TransformersModel(plain, task="text-generation", tokenizer=tokenizer())
    options = {"max_new_tokens": 3, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with model.generate(TEXT, **options) as tracer:
        cache = tracer.cache(modules=[layer.attn for layer in model.transformer.h])
        ids = tracer.result.save()
    with torch.no_grad():
        whole = plain(ids[:, :-1], output_attentions=True).attentions
    viewer = attnviz.show(cache, model.tokenizer(model.tokenizer.decode(ids[0, :-1])))
    expect(viewer, {f"layer {i}": weights for i, weights in enumerate(whole)}, None, atol=1e-6)


def test_attention_that_is_not_eager_is_said() -> None:
    _, model = decoder()
    model._module.set_attn_implementation("sdpa")
    with model.trace(IDS) as tracer:
        cache = tracer.cache(modules=[layer.self_attn for layer in model.model.layers])
        returned = model.model.layers[0].self_attn.output.save()
    for source in (cache, returned, [returned]):
        with pytest.raises(ValueError, match="eager"):
            attnviz.show(source)
