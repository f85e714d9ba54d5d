"""Forward passes that continue one cache, as one map."""

from dataclasses import replace

import pytest
import torch
import transformers as hf

import attnviz
from attnviz import Layer, Trace
from attnviz.layer import FixedWeights, Kind, LayerId, WeightsOnly
from attnviz.notebook.layer_maps import layer_maps
from attnviz.tracing import capturing
from tests.support.architectures import GROUPED, SLIDING, T5

ALL = slice(None)
IDS = torch.tensor([[3, 4, 5, 6, 7, 8]])


def made(make, config):
    torch.manual_seed(0)
    return make(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def llama():
    return made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED))


def generated(model, **options):
    with capturing(model, tokens=lambda ids: [f"t{id}" for id in ids]) as traces:
        written = model.generate(IDS, do_sample=False, max_new_tokens=5, pad_token_id=0, eos_token_id=-1, **options)
    return traces, written[:, :-1]


@pytest.mark.parametrize("cache", [{}, {"cache_implementation": "static"}])
@pytest.mark.parametrize("window", [False, True])
def test_a_text_that_is_written_is_one_map_of_the_models_own_weights(llama, window, cache):
    model = made(hf.MistralForCausalLM, hf.MistralConfig(**SLIDING)) if window else llama
    traces, written = generated(model, **cache)
    tokens = tuple(f"t{id}" for id in written[0].tolist())
    model = copy_with_own_weights(model)
    expected = model(written, output_attentions=True, use_cache=False).attentions
    for layer, weights in zip(layer_maps(traces), expected, strict=True):
        assert (layer.kind, layer.inputs.query_tokens, layer.inputs.key_tokens) == (Kind.CAUSAL, tokens, tokens)
        for head in (0, 3):
            found = layer.maps(head)[0]
            torch.testing.assert_close(found.nan_to_num(), weights[0, head], atol=1e-5, rtol=0)
            assert found.isnan().triu(1).sum() == 45
            torch.testing.assert_close(layer.maps(head, slice(4, 8))[0], found[4:8], equal_nan=True)


def copy_with_own_weights(model):
    other = type(model)(model.config).eval()
    other.load_state_dict(model.state_dict())
    other.set_attn_implementation("eager")
    return other


def test_what_is_left_of_the_passes_and_other_names(llama):
    traces, _ = generated(llama)
    layer = layer_maps(traces[2:])[0]
    assert (layer.inputs.queries, layer.inputs.keys) == (3, 10)
    named = layer_maps(traces, list("abcdefghij"))[0]
    assert named.inputs.query_tokens == named.inputs.key_tokens == tuple("abcdefghij")
    assert repr(attnviz.show(traces)) == "AttentionWidget(2 layers of heads × queries × keys: 4 × 10 × 10)"


def test_self_attention_and_cross_attention_of_a_decoder():
    model = made(hf.T5ForConditionalGeneration, hf.T5Config(**T5))
    layers = layer_maps(generated(model)[0])
    encoder, *_ = layers
    own, cross, *_ = (layer for layer in layers if layer.id.stack == "decoder")
    assert (encoder.id.stack, encoder.inputs.queries, encoder.inputs.keys, encoder.kind) == ("encoder", 6, 6, Kind.SELF)
    assert (own.inputs.queries, own.inputs.keys, own.kind) == (5, 5, Kind.CAUSAL)
    assert (cross.inputs.queries, cross.inputs.keys, cross.kind) == (5, 6, Kind.CROSS)
    torch.testing.assert_close(cross.maps(0)[0].sum(1), torch.ones(5))


def evicted(cache):
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, [0, 4, 5]], layer.values[:, :, [0, 4, 5]]


def of_weights_alone(ids, first):
    """A pass over tokens of which the first are in a cache, by its weights alone."""
    names = tuple(f"t{id}" for id in ids)
    weights = torch.rand(2, len(ids) - first, len(ids), generator=torch.Generator().manual_seed(len(ids)))
    held = WeightsOnly(weights, names[first:], names, query_ids=tuple(ids[first:]), key_ids=tuple(ids))
    return Trace((Layer(LayerId(index=0), Kind.CAUSAL, held, FixedWeights()),))


def test_passes_of_weights_alone_are_joined_by_the_ids_of_their_tokens():
    traces = of_weights_alone([5, 6, 5], 0), of_weights_alone([5, 6, 5, 5], 3), of_weights_alone([5, 6, 5, 5, 7], 4)
    [layer] = layer_maps(traces)
    assert layer.inputs.key_tokens == layer.inputs.query_tokens == ("t5", "t6", "t5", "t5", "t7")
    for row, (trace, own) in enumerate(
        [(traces[0], 0), (traces[0], 1), (traces[0], 2), (traces[1], 0), (traces[2], 0)]
    ):
        expected = trace[0].weights[:, own]
        assert torch.equal(layer.weights[:, row, : expected.shape[1]], expected)
        assert layer.weights[:, row, expected.shape[1] :].isnan().all()
    assert torch.equal(layer.maps([1], [4, 0, 3]).nan_to_num(9), layer.weights[[1]][:, [4, 0, 3]].nan_to_num(9))
    with pytest.raises(ValueError, match=r"^Forward pass 1 does not continue the cache"):
        layer_maps((traces[0], of_weights_alone([5, 5, 6, 7], 3)))
    unknown = [replace(trace[0], inputs=trace[0].inputs.with_tokens(key_ids=())) for trace in traces]
    with pytest.raises(ValueError, match=r"^Only the weights of layer 0 are known, and not of which tokens"):
        layer_maps([Trace((one,)) for one in unknown])
    assert layer_maps([Trace((unknown[0],))]) == (unknown[0],)


def test_keys_that_are_evicted_end(llama):
    with capturing(llama) as traces:
        cache = llama(IDS).past_key_values
        evicted(cache)
        for id in (9, 10):
            llama(torch.tensor([[id]]), past_key_values=cache)
    layer = layer_maps(traces)[0]
    assert layer.inputs.key_tokens == tuple("01234567")
    gone = layer.maps(0)[0][6:, 1:4].isnan()
    assert gone.all()
    assert torch.equal(
        layer.maps(1)[0][7, [0, 4, 5, 6, 7]], traces[-1][0].mechanism(traces[-1][0].inputs).weights[1, 0]
    )


def two_in_turn(model):
    one, other = hf.DynamicCache(), hf.DynamicCache()
    for cache, id in ((one, 3), (one, 4), (other, 5), (one, 6)):
        model(torch.tensor([[id]]), past_key_values=cache)


def cropped(model):
    cache = model(IDS).past_key_values
    cache.crop(-2)
    model(IDS[:, :1], past_key_values=cache)


def texts(model):
    for _ in range(2):
        model(IDS)


@pytest.mark.parametrize(("run", "number"), [(two_in_turn, 2), (cropped, 1), (texts, 1)])
def test_passes_that_do_not_continue_a_cache_are_refused(llama, run, number):
    with capturing(llama) as traces:
        run(llama)
    message = f"Forward pass {number} does not continue the cache of the one before: the keys of layer 0 are others. "
    with pytest.raises(ValueError, match=f"^{message}Show passes of one cache, such as "):
        attnviz.show(traces)
    assert layer_maps(traces[:number])


def test_layers_that_are_not_in_every_pass_are_refused(llama):
    traces, _ = generated(llama)
    parts = [traces[0], attnviz.Trace(traces[1].layers[:1])]
    with pytest.raises(ValueError, match=r"layer 1 is missing in forward pass 1\. Show passes of one cache"):
        layer_maps(parts + traces[2:])
    with pytest.raises(ValueError, match="These forward passes have no layer in common"):
        layer_maps([traces[0], attnviz.Trace()])
    assert len(layer_maps(parts[:1])) == 2
