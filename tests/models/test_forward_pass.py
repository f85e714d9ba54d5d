"""`attnviz.run`, compared with hooks written by hand, and with models that are built or masked otherwise."""

import copy
import inspect
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

import attnviz
from attnviz import Intervention, run
from attnviz.masks import Causal, Full, SlidingWindow, parse
from attnviz.normalizers import Sink, Softmax
from attnviz.scores import Cosine

HEADS, WIDTH, LAYERS = 4, 8, 2
SMALL = {"vocab_size": 40, "hidden_size": HEADS * WIDTH, "intermediate_size": 32}
SMALL |= {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
IDS = torch.tensor([[5, 9, 11, 7, 30, 8, 2], [6, 6, 3, 25, 14, 0, 0]])
PADDED = {"input_ids": IDS, "attention_mask": (IDS > 0).long()}
BART = {"vocab_size": 40, "d_model": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BART |= {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("ffn_dim", 32))}
BART |= {f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")}


def llama(implementation="sdpa", **more):
    config = hf.LlamaConfig(**SMALL, num_key_value_heads=2, attn_implementation=implementation, **more)
    return hf.LlamaForCausalLM(config)


def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=40, n_embd=32, n_layer=LAYERS, n_head=HEADS))


def bert(implementation="sdpa"):
    return hf.BertModel(hf.BertConfig(**SMALL, attn_implementation=implementation))


def bart():
    return hf.BartForConditionalGeneration(hf.BartConfig(**BART))


def falcon(implementation):
    """It calls torch's functions by itself."""
    small = {name: size for name, size in SMALL.items() if name != "intermediate_size"}
    return hf.FalconForCausalLM(hf.FalconConfig(**small, attn_implementation=implementation))


def bloom():
    return hf.BloomForCausalLM(hf.BloomConfig(vocab_size=40, hidden_size=32, n_layer=LAYERS, n_head=HEADS))


def llama_projections(model):
    return [layer.self_attn.o_proj for layer in model.model.layers]


def bart_projections(model):
    encoder, decoder = model.model.encoder.layers, model.model.decoder.layers
    pairs = [(layer.self_attn.out_proj, layer.encoder_attn.out_proj) for layer in decoder]
    return [*(layer.self_attn.out_proj for layer in encoder), *(one for pair in pairs for one in pair)]


# A model, and the projections of its attention's output in the order in which they run.
MODELS = {
    "llama": (llama, llama_projections),
    "llama-eager": (lambda: llama("eager"), llama_projections),
    "gpt2": (gpt2, lambda model: [block.attn.c_proj for block in model.transformer.h]),
    "bert": (bert, lambda model: [layer.attention.output.dense for layer in model.encoder.layer]),
    "bart": (bart, bart_projections),
    "falcon": (lambda: falcon("sdpa"), lambda model: [block.self_attention.dense for block in model.transformer.h]),
    "falcon-eager": (
        lambda: falcon("eager"),
        lambda model: [block.self_attention.dense for block in model.transformer.h],
    ),
    "bloom": (bloom, lambda model: [block.self_attention.dense for block in model.transformer.h]),
}


def first(result):
    return result["logits"] if "logits" in result else result["last_hidden_state"]


@contextmanager
def zeroed(projections, ablated):
    """Hooks written by hand: a head is its slice of what the output's projection gets."""

    def hook(head):
        def zero(module, args):
            states = args[0].clone()
            states[..., head * WIDTH : (head + 1) * WIDTH] = 0
            return (states, *args[1:])

        return zero

    hooks = [projections[layer].register_forward_pre_hook(hook(head)) for layer, head in ablated]
    yield
    for one in hooks:
        one.remove()


def sharp(make):
    """A model in evaluation mode whose attention is felt."""
    torch.manual_seed(0)
    model = make().eval()
    for name, weight in model.named_parameters():
        if weight.ndim == 2 and "embed" not in name and "wte" not in name and "lm_head" not in name:
            weight.data *= 8
    return model


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_ablated_heads_are_those_of_a_hook(name):
    make, projections = MODELS[name]
    model = sharp(make)
    plain, count = first(model(**PADDED)), len(projections(model))
    assert len(attnviz.capture(model, PADDED, example=0)) == count
    assert torch.equal(first(run(model, PADDED, [])), plain)
    for ablated in [*(((layer, layer % HEADS),) for layer in range(count)), ((0, 3), (0, 0), (count - 1, 2))]:
        with zeroed(projections(model), ablated):
            expected = first(model(**PADDED))
        torch.testing.assert_close(
            first(run(model, PADDED, Intervention(ablated=ablated))), expected, atol=1e-6, rtol=0
        )
        assert (expected - plain).abs().amax((1, 2)).min() > 1e-4, "else this would prove little"


@pytest.mark.parametrize("batch_first", [True, False])
@torch.no_grad()
def test_heads_of_multi_head_attention(batch_first):
    torch.manual_seed(0)
    for options in ({}, {"bias": False}, {"add_zero_attn": True, "add_bias_kv": True}, {"kdim": 6, "vdim": 5}):
        module = nn.MultiheadAttention(HEADS * WIDTH, HEADS, batch_first=batch_first, **options)
        widths = HEADS * WIDTH, options.get("kdim", HEADS * WIDTH), options.get("vdim", HEADS * WIDTH)
        query, key, value = (torch.randn(5, 5, width) for width in widths)
        other = copy.deepcopy(module)
        other.out_proj.weight.data[:, WIDTH : 2 * WIDTH] = 0
        output, weights = run(module, (query, key, value), Intervention(ablated=((0, 1),)))
        expected, _ = other(query, key, value)
        torch.testing.assert_close(output, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(weights, module(query, key, value)[1])
        named = {"query": query, "key": key, "value": value}
        torch.testing.assert_close(run(module, named, Intervention(ablated=((0, 1),)))[0], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("batch_first", [True, False])
@torch.no_grad()
def test_all_examples_of_a_batch_are_changed(batch_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(HEADS * WIDTH, HEADS, 16, batch_first=batch_first)
    model, other = nn.TransformerEncoder(layer, 1).eval(), nn.TransformerEncoder(layer, 1).eval()
    other.load_state_dict(model.state_dict())
    other.layers[0].self_attn.out_proj.weight.data[:, WIDTH : 2 * WIDTH] = 0
    batch = torch.randn(3, 5, HEADS * WIDTH)  # more of either than of the other
    for x in (batch, batch.transpose(0, 1)):
        torch.testing.assert_close(run(model, x, Intervention(ablated=((0, 1),))), other(x), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_layers_of_torch():
    torch.manual_seed(0)
    model = nn.Transformer(HEADS * WIDTH, HEADS, LAYERS, LAYERS, 32, batch_first=True).eval()
    source, target = torch.randn(2, 6, HEADS * WIDTH), torch.randn(2, 3, HEADS * WIDTH)
    modules = [layer.self_attn for layer in model.encoder.layers]
    for layer in model.decoder.layers:
        modules += [layer.self_attn, layer.multihead_attn]
    assert len(attnviz.capture(model, source, target, example=0)) == len(modules)
    for layer in range(len(modules)):
        other = copy.deepcopy(model)
        place = dict(model.named_modules())
        path = next(path for path, module in place.items() if module is modules[layer])
        other.get_submodule(path).out_proj.weight.data[:, :WIDTH] = 0
        result = run(model, (source, target), Intervention(ablated=((layer, 0),)))
        torch.testing.assert_close(result, other(source, target), atol=1e-5, rtol=0)


class Own(nn.Module):
    """An attention of one's own, by a function of torch."""

    def __init__(self, attend):
        super().__init__()
        self.attend, self.projection = attend, nn.Linear(HEADS * WIDTH, HEADS * WIDTH)
        self.num_heads = HEADS

    def forward(self, x):
        heads = x.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        return self.projection(self.attend(heads, heads, heads).transpose(1, 2).flatten(2))


def merged(query, key, value):
    """The heads are in one axis with the examples."""
    result = scaled_dot_product_attention(query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1))
    return result.unflatten(0, (-1, HEADS))


def by_softmax(query, key, value):
    return torch.softmax(query @ key.mT, -1) @ value


def by_flex(query, key, value):
    return flex_attention(query, key, value, lambda score, b, h, q, k: score + 0.1 * (q - k))


@pytest.mark.parametrize("attend", [scaled_dot_product_attention, merged, flex_attention, by_flex, by_softmax])
@torch.no_grad()
def test_an_attention_of_ones_own(attend):
    model, x = nn.ModuleDict({"attention": Own(attend)}), torch.randn(3, 5, HEADS * WIDTH)
    model.forward = lambda x: model["attention"](x)
    with zeroed([model["attention"].projection], [(0, 2)]):
        expected = model(x)
    torch.testing.assert_close(run(model, x, Intervention(ablated=((0, 2),))), expected, atol=1e-6, rtol=0)


# Another mask, score or normalizer, in all examples of a batch


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@torch.no_grad()
def test_a_window_makes_a_llama_a_mistral(implementation):
    model = sharp(lambda: llama(implementation))
    config = hf.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=3, attn_implementation=implementation)
    mistral = hf.MistralForCausalLM(config).eval()
    mistral.load_state_dict(model.state_dict())
    result = run(model, IDS, Intervention(SlidingWindow(3))).logits
    torch.testing.assert_close(result, mistral(IDS).logits, atol=1e-4, rtol=1e-4)
    assert (result - model(IDS).logits).abs().max() > 1e-2
    unchanged = run(model, IDS, Intervention(Causal(), layers=(0, 1))).logits
    torch.testing.assert_close(unchanged, model(IDS).logits)


@torch.no_grad()
def test_a_sparse_mask_keeps_the_padding_of_each_example():
    model, later = sharp(bert), torch.ones(7, 7).tril().bool()
    result = run(model, PADDED, [Intervention(sparse=Causal()), Intervention(ablated=((1, 2),))])
    mask = later & (IDS > 0)[:, None, None]
    with zeroed(MODELS["bert"][1](model), [(1, 2)]):
        expected = model(input_ids=IDS, attention_mask=mask)
    torch.testing.assert_close(first(result), first(expected), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("batch_first", [True, False])
@torch.no_grad()
def test_a_mask_in_multi_head_attention(batch_first):
    module, x = nn.MultiheadAttention(HEADS * WIDTH, HEADS, batch_first=batch_first), torch.randn(5, 5, HEADS * WIDTH)
    output, weights = run(module, (x, x, x), Intervention(Causal()))
    expected, _ = module(x, x, x, attn_mask=torch.ones(5, 5).triu(1).bool())
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=0)
    assert bool(weights.isnan().all()), "those of the model would be wrong"


@torch.no_grad()
def test_a_temperature_where_a_decoder_looks_at_the_encoder():
    model = sharp(bart)
    cross = [i for i, layer in enumerate(attnviz.capture(model, PADDED, example=0)) if layer.kind == "cross"]
    result = run(model, PADDED, Intervention(normalizer=Softmax(4.0), layers=tuple(cross)))
    for layer in model.model.decoder.layers:
        for parameter in layer.encoder_attn.q_proj.parameters():
            parameter.data /= 4
    torch.testing.assert_close(result.logits, model(**PADDED).logits, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_mask_in_flex_attention_and_in_torch_s_own():
    x = torch.randn(2, 5, HEADS * WIDTH)
    for attend in (scaled_dot_product_attention, flex_attention, merged):
        model = Own(attend)
        result = run(model, x, Intervention(mask=Causal()))
        causal = Own(lambda query, key, value: scaled_dot_product_attention(query, key, value, is_causal=True))
        causal.load_state_dict(model.state_dict())
        torch.testing.assert_close(result, causal(x), atol=1e-5, rtol=0)


@torch.no_grad()
def test_weights_of_a_changed_layer_are_not_returned():
    model = sharp(lambda: bert("eager"))
    result = run(model, IDS, Intervention(Causal(), layers=(1,)), output_attentions=True)
    assert result.attentions[0].shape == (2, HEADS, 7, 7)
    assert bool(result.attentions[1].isnan().all()), "None would give the next layer's weights this one's number"


# What is refused, and what is left


@pytest.mark.parametrize(
    ("intervention", "sentence"),
    [
        (
            Intervention(ablated=((2, 0),)),
            "There is no head 0 in a layer number 2.* There are 2 layers",
        ),
        (Intervention(ablated=((1, 4),)), "There is no head 4 in a layer number 1.* It has 4 heads, counted from 0."),
        (Intervention(ablated=((-1, 0),)), "There is no head 0 in a layer number -1"),
        (Intervention(ablated=((0, -1),)), "There is no head -1 in a layer number 0"),
        (
            Intervention(Full(), layers=(0, 7)),
            "There is no layer number 7, .* There are 2 layers, counted from 0",
        ),
        (Intervention(normalizer=Sink(torch.zeros(2))), "Sink needs a logit for each of 4 heads"),
        ("ablate", "Interventions are expected, such as .* this is 'a'"),
        (None, "Interventions are expected"),
        ([(0, 1)], r"Interventions are expected, .* this is \(0, 1\)"),
    ],
)
def test_what_is_not_there_is_refused_in_words(intervention, sentence):
    model = bert()
    with pytest.raises(ValueError, match=sentence):
        inspect.unwrap(run)(model, PADDED, intervention)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert model.training
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("places", [{"ablated": (3, 1)}, {"ablated": 3}, {"ablated": ((1, 2, 3),)}, {"layers": 3}])
def test_places_that_are_none_are_refused_in_words(places):
    with pytest.raises(ValueError, match=r"must be whole numbers in a tuple, such as \(.*; it is"):
        inspect.unwrap(Intervention.__post_init__)(SimpleNamespace(**{"ablated": (), "layers": None} | places))


@pytest.mark.parametrize(("make", "reason"), [(bloom, "does not expose its queries and keys")])
def test_a_mechanism_that_is_not_known_is_refused_in_words(make, reason):
    with pytest.raises(ValueError, match=f"of layer 1 cannot be changed: .*{reason}. Its heads can be ablated"):
        run(make(), PADDED, Intervention(normalizer=Softmax(2.0), layers=(1,)))


def test_a_text_is_refused_and_arguments_go_to_the_model():
    model = sharp(bert)
    with pytest.raises(ValueError, match="Linear has no attention"):
        run(nn.Linear(2, 2), torch.zeros(1, 2), [])
    with pytest.raises(ValueError, match="A batch has a model's inputs as tensors, and this is a str"):
        run(model, "a text", [])
    assert run(model, IDS[0], [])[0].shape == (1, 7, HEADS * WIDTH)
    assert run(model, PADDED, [], output_hidden_states=True).hidden_states is not None


def test_no_other_thread_or_capture_is_changed():
    """A capture in a hook of a run is of another model, and a run leaves the next forward pass as it was."""
    model, other = sharp(llama), sharp(bert)
    plain = first(model(IDS))
    traces = []
    hook = model.model.layers[0].register_forward_hook(lambda *_: traces.append(attnviz.capture(other, IDS[:1])))
    run(model, IDS, Intervention(ablated=((0, 1),)))
    hook.remove()
    assert [layer.mechanism.mask for layer in traces[0]] == [Full()] * LAYERS
    assert torch.equal(first(model(IDS)), plain)


def test_of_the_language_of_masks_a_head_alone_is_changed():
    model = sharp(llama)
    one = run(model, IDS, Intervention(sparse=parse("h != 2"))).logits
    ablated = run(model, IDS, Intervention(ablated=((0, 2), (1, 2)))).logits
    torch.testing.assert_close(one, ablated, atol=1e-4, rtol=1e-4)


def test_another_score_in_one_layer_is_that_of_a_capture():
    """Where only one example is there, a capture with the same change gives the same output."""
    model, outputs = sharp(llama), []
    change = Intervention(score=Cosine(), layers=(1,))

    def intervene(layer, inputs, mechanism):
        after = change.apply(mechanism, layer)
        return None if after == mechanism else (after, after(inputs).output)

    hook = model.register_forward_hook(lambda module, args, result: outputs.append(result.logits))
    attnviz.capture(model, IDS[:1], intervene=intervene)
    hook.remove()
    torch.testing.assert_close(run(model, IDS[:1], change).logits, outputs[0], atol=1e-4, rtol=1e-4)
