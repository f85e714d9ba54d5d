import pytest
import torch
import transformers as hf
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import CanineConfig, CanineModel, CanineTokenizer
from transformers.models.gpt2 import modeling_gpt2

from attnviz import Mechanism
from attnviz.biases import Distances, SoftCap
from attnviz.layer import Fidelity
from attnviz.masks import Causal, Chunked, Full, Padding, SlidingWindow
from attnviz.normalizers import Sink
from attnviz.scores import General, ScaledDot
from attnviz.trace import Trace
from attnviz.tracing import capture, capturing
from tests.support.architectures import ZOO, overheard

SMALL = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = SMALL | {"num_key_value_heads": 2}
N = 12


def bert(**more):
    return hf.BertModel(hf.BertConfig(**SMALL, attn_implementation="eager", **more))


def gpt2():
    small = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
    return hf.GPT2Model(hf.GPT2Config(**small, attn_implementation="eager"))


def llama():
    return hf.LlamaModel(hf.LlamaConfig(**GROUPED, attn_implementation="eager"))


def mistral():
    return hf.MistralModel(hf.MistralConfig(**GROUPED, sliding_window=4, attn_implementation="eager"))


def gemma2():
    capped = {"head_dim": 8, "sliding_window": 4, "attn_logit_softcapping": 3.0, "query_pre_attn_scalar": 4}
    return hf.Gemma2Model(hf.Gemma2Config(**GROUPED, **capped, attn_implementation="eager"))


def bart():
    small = {"vocab_size": 60, "d_model": 32, "max_position_embeddings": 64, "attn_implementation": "eager"}
    for stack in ("encoder", "decoder"):
        small |= {f"{stack}_layers": 1, f"{stack}_attention_heads": 4, f"{stack}_ffn_dim": 32}
    return hf.BartModel(hf.BartConfig(**small))


def t5():
    small = {"vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 4}
    return hf.T5Model(hf.T5Config(**small, attn_implementation="eager"))


def gpt_oss():
    experts = {"head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4}
    return hf.GptOssModel(hf.GptOssConfig(**GROUPED, **experts, attn_implementation="eager"))


def llama4():
    more = {"head_dim": 8, "num_local_experts": 2, "attention_chunk_size": 5, "no_rope_layer_interval": 2}
    return hf.Llama4TextModel(hf.Llama4TextConfig(**GROUPED, **more, attn_implementation="eager"))


MODELS = [bert, gpt2, llama, mistral, gemma2]


def sharpened(make):
    """The model with queries and keys so long that its rows are far from uniform, as a trained model's are."""
    model = make().eval()
    for name, weight in model.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight", "query.weight", "key.weight", "c_attn.weight")):
            weight.data *= 16
    return model


def batch(real=N):
    return {"input_ids": torch.arange(1, N + 1)[None], "attention_mask": (torch.arange(N) < real).long()[None]}


def pair():
    """Two texts, of which the second is the longer one."""
    ids = torch.arange(1, 2 * N + 1).reshape(2, N)
    return {"input_ids": ids, "attention_mask": torch.stack([(torch.arange(N) < N - 3).long(), torch.ones(N).long()])}


@torch.no_grad()
def eager(model, batch):
    return [weights[0] for weights in model(**batch, output_attentions=True).attentions]


def recomputed(layers):
    return [layer.mechanism(layer.inputs).weights for layer in layers]


@pytest.mark.parametrize("make", MODELS)
def test_without_an_attention_mask(make):
    model, given = sharpened(make), {"input_ids": batch()["input_ids"]}
    for weights, own in zip(recomputed(capture(model, given)), eager(model, given), strict=True):
        torch.testing.assert_close(weights, own, atol=1e-5, rtol=0)


def test_values_are_the_models_own_too():
    model, seen = sharpened(bert), []
    for layer in model.encoder.layer:
        layer.attention.self.register_forward_hook(lambda module, given, result: seen.append(result[0]))
    layers = capture(model, batch())
    for layer, during in zip(layers, list(seen), strict=True):
        torch.testing.assert_close(layer.mechanism(layer.inputs).output.transpose(0, 1).flatten(1), during[0])
    seen.clear()
    eager(model, batch())
    for layer, own in zip(layers, seen, strict=True):
        inputs = layer.inputs
        expected = scaled_dot_product_attention(inputs.query, inputs.key, inputs.value).transpose(0, 1).flatten(1)
        torch.testing.assert_close(expected, own[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("make", [llama, mistral, gemma2, gpt_oss, llama4])
@pytest.mark.parametrize("real", [N, N - 3], ids=["whole", "padded"])
def test_what_the_model_computes_is_unchanged_by_being_looked_at(make, real):
    model, ends = sharpened(make), []
    model.norm.register_forward_hook(lambda module, given, result: ends.append(result[0, :real]))
    capture(model, batch(real))
    eager(model, batch(real))
    torch.testing.assert_close(ends[0], ends[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("make", [bert, mistral, gemma2, gpt_oss, llama4, t5])
def test_texts_longer_than_a_block_of_rows(make):
    model = sharpened(make)
    ids = torch.randint(60, (1, 560))
    if make is bert:
        model.embeddings.position_embeddings = torch.nn.Embedding(560, 32)
        model.embeddings.position_ids = torch.arange(560)[None]
        model.embeddings.token_type_ids = torch.zeros(1, 560, dtype=torch.long)
    given = {"input_ids": ids, "attention_mask": (torch.arange(560) >= 30).long()[None]}
    if make is t5:
        given |= {"decoder_input_ids": ids[:, :530]}
    with overheard(model) as heard, torch.no_grad():
        model(**given)
    for layer, own in zip(capture(model, given), list(heard), strict=True):
        assert layer.fidelity is Fidelity.VERIFIED
        real = slice(30 if layer.inputs.queries == 560 else 0, None)
        torch.testing.assert_close(layer.mechanism(layer.inputs).weights[:, real], own[0, :, real], atol=1e-5, rtol=0)


def test_a_mask_that_one_brings():
    model, allowed = sharpened(llama), torch.ones(N, N).tril().bool()
    allowed[5:, 2] = False
    model.set_attn_implementation("sdpa")  # which understands booleans
    for given in (allowed, torch.zeros(N, N).masked_fill(~allowed, torch.finfo(torch.float32).min)):
        layers = capture(model, {"input_ids": batch()["input_ids"], "attention_mask": given[None, None]})
        for layer in layers:
            found = layer.mechanism(layer.inputs)
            assert layer.fidelity is Fidelity.VERIFIED
            assert torch.equal(found.allowed, allowed.expand(4, N, N))
    model.set_attn_implementation("eager")
    for weights, own in zip(
        recomputed(layers), eager(model, {**batch(), "attention_mask": given[None, None]}), strict=True
    ):
        torch.testing.assert_close(weights, own, atol=1e-5, rtol=0)


def test_an_example_that_is_not_there():
    with pytest.raises(ValueError, match="There is no example 2: the batch holds 2, counted from 0"):
        capture(bert(), pair(), example=2)


# What is captured, and of what


class Classifier(nn.Module):
    """A module of one's own around transformers models."""

    def __init__(self, *models):
        super().__init__()
        self.models = nn.ModuleList(models)
        self.head = nn.Linear(32, 2)

    def forward(self, input_ids):
        return self.head(sum(model(input_ids=input_ids).last_hidden_state for model in self.models))


def test_models_inside_another_module_are_captured_as_alone():
    inner = bert(), gpt2()
    ids = pair()["input_ids"][:1]
    alone = [layer for model in inner for layer in capture(model, {"input_ids": ids})]
    inside = capture(Classifier(*inner), {"input_ids": ids})
    assert {layer.fidelity for layer in inside} == {Fidelity.VERIFIED}
    for one, other in zip(inside, alone, strict=True):
        assert one.mechanism == other.mechanism
        torch.testing.assert_close(one.inputs.query, other.inputs.query)
    assert [model.config._attn_implementation for model in inner] == ["eager", "eager"]


def test_a_tensor_of_ids_is_a_batch():
    model, ids = bert(), pair()["input_ids"]
    for given, example in ((ids[1], 0), (ids[1:], 0), (ids, 1)):
        for one, other in zip(
            capture(model, given, example=example), capture(model, {"input_ids": ids[1:]}), strict=True
        ):
            torch.testing.assert_close(one.inputs.query, other.inputs.query)


def test_a_text_is_refused_with_what_to_do():
    for given, kind in (("some text", "str"), ([1, 2], "list")):
        with pytest.raises(ValueError, match=rf"this is a {kind}\. Give what the model's tokenizer makes .*token ids"):
            capture(bert(), given)


class Mixer(nn.Module):
    """Attention of one's own, computed by a function of queries, keys and values."""

    def __init__(self, function):
        super().__init__()
        self.project, self.function = nn.Linear(8, 24), function

    def forward(self, x):
        heads = self.project(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        return self.function(*heads).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("softmax", [nn.functional.softmax, lambda scores, dim: nn.Softmax(dim)(scores)])
def test_a_softmax_of_ones_own_is_refused_with_what_can_be_captured(softmax):
    model = Mixer(lambda query, key, value: softmax(query @ key.mT, dim=-1) @ value)
    seen = (
        r"Attention is seen in transformers models, nn\.MultiheadAttention, F\.scaled_dot_product_attention and "
        r"flex_attention; and in a softmax over keys, if .*\. A softmax ran in Mixer, 1 × 2 × 5 × 5\."
    )
    with pytest.raises(ValueError, match=seen):
        capture(model, torch.randn(1, 5, 8))


def test_layers_whose_module_says_nothing_are_numbered():
    [layer] = capture(Mixer(scaled_dot_product_attention), torch.randn(1, 5, 8))
    assert layer.name == "layer 0"
    both = nn.Sequential()
    for name in ("attention", "attn"):
        both.add_module(name, Mixer(scaled_dot_product_attention))
    assert [one.name for one in capture(both, {"input": torch.randn(1, 5, 8)})] == ["layer 0", "layer 1"]


# What is said of a layer


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("real", [N, N - 3], ids=["whole", "padded"])
def test_a_layer_has_a_name_a_kind_and_tensors_of_its_own(make, real):
    model = make()
    layers, kv_heads = capture(model, batch(real)), getattr(model.config, "num_key_value_heads", 4)
    stack, kind = ("encoder", "self") if make is bert else ("layer", "causal")
    assert [(layer.name, layer.kind) for layer in layers] == [(f"{stack} 0", kind), (f"{stack} 1", kind)]
    tensors = [tensor for layer in layers for tensor in layer.inputs.tensors.values()]
    for layer in layers:
        assert bool(layer.mechanism(layer.inputs).allowed.triu(1).any()) == (kind == "self")
        assert layer.inputs.query.shape == (4, N, 8)
        assert layer.inputs.key.shape == layer.inputs.value.shape == (kv_heads, N, 8)  # grouped heads are not repeated
    for tensor in tensors:
        assert tensor.is_contiguous()
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == len(tensors) == 6


def test_a_mechanism_is_made_of_the_parts_that_the_model_uses():
    assert capture(bert(), batch())[0].mechanism == Mechanism(mask=Full())
    assert capture(gpt2(), batch())[0].mechanism == Mechanism(mask=Causal())
    # Gemma 2 scales by a number of its own and caps; its first layer slides, its second sees all that came before.
    sliding, whole = capture(gemma2(), batch())
    assert whole.mechanism == Mechanism(ScaledDot(4**-0.5), (SoftCap(3.0),), Causal())
    assert sliding.mechanism == Mechanism(ScaledDot(4**-0.5), (SoftCap(3.0),), SlidingWindow(4))
    (padded, _) = capture(gpt2(), batch(N - 3))
    assert padded.mechanism.mask == Causal() & Padding(N - 3)
    model = gpt_oss()
    (layer, _) = capture(model, batch())
    assert layer.mechanism == Mechanism(
        mask=SlidingWindow(4), normalizer=Sink(model.layers[0].self_attn.sinks.detach())
    )
    assert [layer.mechanism.mask for layer in capture(llama4(), batch())] == [Chunked(5), Causal()]
    (first, *_) = capture(t5(), batch() | {"decoder_input_ids": torch.arange(5)[None]})
    (distances,) = first.mechanism.biases
    assert first.mechanism == Mechanism(ScaledDot(1.0), (distances,))
    assert isinstance(distances, Distances)
    assert distances.table.shape == (4, 2 * N - 1)


def test_tokens_are_what_one_asks_for_and_positions_by_default():
    (first, _) = capture(bert(), batch())
    assert first.inputs.query_tokens == first.inputs.key_tokens == tuple(map(str, range(N)))
    assert first.inputs.special_queries == ()
    (first, _) = capture(bert(), batch(), tokens=tuple("abcdefghijkl"), special=(0, 11))
    assert first.inputs.query_tokens == first.inputs.key_tokens == tuple("abcdefghijkl")
    assert first.inputs.special_queries == first.inputs.special_keys == (0, 11)


def test_tokens_of_a_decoder():
    given = batch() | {"decoder_input_ids": torch.arange(20, 25)[None]}
    named = {
        "tokens": tuple("abcdefghijkl"),
        "special": (0,),
        "decoder_tokens": tuple("vwxyz"),
        "decoder_special": (4,),
    }
    layers = capture(bart(), given, **named)
    assert [layer.kind for layer in layers] == ["self", "causal", "cross"]
    encoder, decoder, cross = (layer.inputs for layer in layers)
    assert encoder.query_tokens == encoder.key_tokens == cross.key_tokens == named["tokens"]
    assert decoder.query_tokens == decoder.key_tokens == cross.query_tokens == named["decoder_tokens"]
    assert encoder.special_queries == cross.special_keys == (0,)
    assert decoder.special_keys == cross.special_queries == (4,)


def test_tokens_of_a_tokenizers_own_batch():
    given = hf.BatchEncoding(batch())
    given.tokens = lambda example: list("abcdefghijkl")
    (first, _) = capture(bert(), given)
    assert first.inputs.query_tokens == tuple("abcdefghijkl")


def test_what_was_captured_can_be_differentiated():
    weight = torch.eye(8, requires_grad=True)
    (first, _) = capture(bert(), batch())
    Mechanism(General(weight))(first.inputs).output.square().sum().backward()
    assert weight.grad.abs().max() > 0


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_a_hidden_rule_is_found_also_where_every_weight_is_small(kind, monkeypatch):
    def eager_with_more(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **more):
        scores = query @ key.mT * query.shape[-1] ** -0.5 + attention_mask
        weights = (scores + 2.0 * (torch.arange(key.shape[2]) % 2 == 0)).to(value.dtype).softmax(-1)
        return (weights @ value).transpose(1, 2), weights

    torch.manual_seed(0)
    small = {"vocab_size": 60, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 512}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "attn_implementation": "eager"}
    model = hf.GPT2Model(hf.GPT2Config(**small, **ends)).to(kind).eval()
    given = {"input_ids": torch.randint(0, 60, (1, 512)), "attention_mask": torch.ones(1, 512, dtype=torch.long)}
    assert [layer.fidelity for layer in capture(model, given)] == [Fidelity.VERIFIED]
    monkeypatch.setattr(modeling_gpt2, "eager_attention_forward", eager_with_more)
    assert [layer.fidelity for layer in capture(model, given)] == [Fidelity.WEIGHTS_ONLY]


# The model is left as it was found


class Broken(Exception):
    pass


def broken():
    """A model that fails in its second layer."""

    def fail(module, given):
        raise Broken

    model = bert()
    model.encoder.layer[1].output.register_forward_pre_hook(fail)
    return model


def hooks(model):
    return [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_model_is_left_as_it_was_found(training, implementation):
    model = bert().train(training)
    model.encoder.layer[0].eval()  # a part of it is frozen
    model.set_attn_implementation(implementation)
    before = [module.training for module in model.modules()]
    capture(model, batch())
    assert model.config._attn_implementation == implementation
    assert [module.training for module in model.modules()] == before


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("make", "given", "error"),
    [(broken, batch(), Broken), (bert, {"input_ids": torch.tensor([[1, 99]])}, IndexError)],
    ids=["in the middle", "an unknown token"],
)
def test_a_model_that_fails_is_left_as_it_was_found(make, given, error, training):
    model = make().train(training)
    before, hooked = model.config._attn_implementation, hooks(model)
    for _ in range(2):
        with pytest.raises(error):
            capture(model, given)
    assert model.config._attn_implementation == before
    assert hooks(model) == hooked
    assert all(module.training == training for module in model.modules())
    assert len(capture(sharpened(bert), batch())) == 2  # and the next capture starts afresh


def test_a_model_of_parts_that_attend_otherwise_is_left_as_it_was():
    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    text = small | {"vocab_size": 60, "bos_token_id": 0, "eos_token_id": 0}
    model = hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=small | {"image_size": 32, "patch_size": 16}))
    model.set_attn_implementation({"text_config": "eager", "vision_config": "sdpa"})
    capture(model, batch() | {"pixel_values": torch.randn(1, 3, 32, 32)})
    assert model.config.text_config._attn_implementation == "eager"
    assert model.config.vision_config._attn_implementation == "sdpa"


def test_dropout_does_not_blur_what_is_seen():
    model = bert(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5).train()
    one, two = (capture(model, batch())[1].inputs for _ in range(2))
    assert torch.equal(one.query, two.query)
    assert model.training


def test_queries_that_continue_a_cache_attend_to_its_keys():
    model, given = llama().eval(), batch()
    with torch.no_grad():
        past = model(**given).past_key_values
        whole = model(torch.cat([given["input_ids"], torch.tensor([[5]])], 1), output_attentions=True).attentions
    layers = capture(model, {"input_ids": torch.tensor([[5]]), "past_key_values": past, "use_cache": False})
    for layer, weights in zip(layers, whole, strict=True):
        assert (layer.kind, layer.fidelity, layer.inputs.queries) == ("causal", "verified", 1)
        found = layer.mechanism(layer.inputs).weights
        torch.testing.assert_close(found, weights[0, :, -1:], atol=1e-5, rtol=0)
        assert layer.inputs.query_tokens == (str(N),)
        assert layer.inputs.key_tokens == tuple(map(str, range(N + 1)))
    assert layers.missing == (
        f"{N} of the {N + 1} keys of layer 0, layer 1 have their places in the cache as names: they were not computed "
        "in this capture, or have changed since.",
    )
    assert model.config._attn_implementation == "eager"


def test_a_model_that_chooses_its_keys_continues_a_cache():
    model = next(one for one in ZOO if one.name == "DeepSeek-V3.2").model().eval()
    with torch.no_grad():
        past = model(torch.tensor([[3, 4, 5, 6, 7, 8]])).past_key_values
    trace = capture(model, {"input_ids": torch.tensor([[5]]), "past_key_values": past})
    assert {layer.inputs.keys for layer in trace} == {7}
    assert {layer.fidelity for layer in trace} == {"verified"}
    assert past.get_seq_length() == 7


def test_capture_is_a_function_of_the_package_each_time_it_is_named():
    import attnviz

    assert attnviz.capture is attnviz.capture is capture


@pytest.mark.parametrize("named", [True, False])
def test_chunks_have_the_names_or_the_numbers_of_their_own_tokens(named, tmp_path) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    chunks = {"local_transformer_stride": 4, "upsampling_kernel_size": 2, "downsampling_rate": 2}
    model, tokenizer = CanineModel(CanineConfig(**sizes, **chunks, num_hash_buckets=32)).eval(), CanineTokenizer()
    ids = tokenizer("abcde", return_tensors="pt")["input_ids"]
    names = ("[CLS]", "a", "b", "c", "d", "e", "[SEP]") if named else (*"0123456",)
    options = {"tokens": tokenizer, "special": (0, 6)} if named else {}
    trace = capture(model, ids, **options, folder=tmp_path / "trace")
    first, second, downsampled, last = (layer.inputs for layer in trace)
    assert (first.query_tokens, second.query_tokens, last.key_tokens) == (names[:4], names[4:], names)
    assert second.key_tokens == names[4:]
    assert second.key_ids == tuple(ids[0, 4:].tolist())
    assert downsampled.key_tokens == ("0", "1", "2")  # not tokens of the text
    assert (first.special_keys, second.special_queries) == (((0,), (2,)) if named else ((), ()))
    assert Trace.load(tmp_path / "trace")[1].inputs.key_tokens == names[4:]


def test_an_example_of_several_is_chosen():
    model, sentence = bert().eval(), r"holds 2 examples, and a trace is of one\. Say which with example=0 to 1"
    for batch in (pair(), pair()["input_ids"]):
        with pytest.raises(ValueError, match=sentence):
            capture(model, batch)
    layers = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2), 1).eval()  # reads tokens before examples
    assert len(capture(layers, torch.randn(5, 1, 8), torch.randn(3, 1, 8))) == 2
    with pytest.raises(ValueError, match=sentence):
        capture(layers, torch.randn(5, 2, 8), torch.randn(3, 2, 8))
    assert len(capture(layers, torch.randn(5, 2, 8), torch.randn(3, 2, 8), example=1)) == 2


def test_the_first_of_several_watched_examples_is_said_to_be_shown():
    model = bert().eval()
    with capturing(model) as traces, torch.no_grad():
        model(**pair())
        model(**batch())
    assert [trace.missing for trace in traces] == [
        ("Of the 2 examples, the first is shown. Give capturing another one as example.",),
        (),
    ]
    assert torch.equal(traces[0][0].inputs.query, capture(model, pair(), example=0)[0].inputs.query)
