"""A model with its attention exchanged, compared with models of transformers that are built or masked otherwise."""

import copy
import math

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from torch.nn.functional import kl_div, normalize, one_hot
from transformers.models.bert import modeling_bert

from attnviz import Inputs, Mechanism
from attnviz.effects import intervention_run
from attnviz.effects.intervention_run import (
    cosine,
    kl_divergence,
    likeliest_tokens,
    run_with_interventions,
    sentence_similarity,
)
from attnviz.masks import Band, Causal, Full, SlidingWindow, parse
from attnviz.mechanism import BLOCK
from attnviz.models.interventions import Intervention
from attnviz.models.model import LoadedModel
from attnviz.normalizers import Hard, Sink, Softmax
from attnviz.scores import Cosine, ScaledDot
from attnviz.tracing.changed_run import attended

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "run"]
TEXT = "the cat sat on a mat and saw the dog run on and on"
SMALL = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
GROUPED = SMALL | {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64}
GROUPED |= {"attn_implementation": "sdpa"}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
WINDOW = 4


def bert():
    return hf.BertModel(hf.BertConfig(**SMALL, max_position_embeddings=64, attn_implementation="eager"))


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED))


def bart():
    sides = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 2), ("ffn_dim", 32))}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 64}
    config = hf.BartConfig(vocab_size=40, d_model=32, forced_eos_token_id=None, **sides, **heads, **ENDS)
    return hf.BartForConditionalGeneration(config)


def falcon():
    """It asks torch for its attention by itself."""
    small = {name: SMALL[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")}
    return hf.FalconForCausalLM(hf.FalconConfig(**small, attn_implementation="sdpa"))


def bloom():
    return hf.BloomForCausalLM(hf.BloomConfig(vocab_size=40, hidden_size=32, n_layer=2, n_head=4))


def reads(make, outputs="next token"):
    """A model of sharpened weights, as a trained model's are, with a tokenizer of whole words."""
    model = make().eval()
    for name, weight in model.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight", "query.weight", "key.weight", "query_key_value.weight")):
            weight.data *= 16
        if name.endswith(("v_proj.weight", "o_proj.weight", "value.weight", "out_proj.weight")):
            weight.data *= 4  # what attention finds is heard
        if "lm_head" in name or "shared" in name or name.endswith("embed_tokens.weight"):
            weight.data *= 8
    model.config.use_cache = False
    words = Tokenizer(WordLevel({word: i + 3 for i, word in enumerate(WORDS)} | {"<unk>": 0}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    return LoadedModel(
        model, tokenizer, "tiny", outputs=outputs, pooling="mean" if outputs == "sentence vector" else ""
    )


def encoder():
    return reads(bert, "sentence vector")


@torch.no_grad()
def own(model, **given):
    """What transformers alone makes of the text with eager attention: the output, and the weights of each layer."""
    model.model.set_attn_implementation("eager")
    result = model.model(**(model.encode(TEXT).batch | given), output_attentions=True)
    if "decoder_attentions" in result:
        pairs = zip(result.decoder_attentions, result.cross_attentions, strict=True)
        return model.extract_output(result), [*result.encoder_attentions, *(one for pair in pairs for one in pair)]
    return model.extract_output(result), result.attentions


def same(changed, expected):
    """The output and every head's map are those that transformers gives."""
    output, weights = expected
    torch.testing.assert_close(changed.output, output, atol=1e-5, rtol=1e-4)
    for layer, theirs in zip(changed.layers, weights, strict=True):
        torch.testing.assert_close(layer.mechanism(layer.inputs).weights, theirs[0], atol=1e-5, rtol=0)


def differ(changed, model):
    assert (changed.output - model.output(model.encode(TEXT))).abs().max() > 1e-3, "else a test would prove little"


# What transformers makes of the same change


@pytest.mark.parametrize("make", [encoder, lambda: reads(llama), lambda: reads(bart)], ids=["bert", "llama", "bart"])
def test_unchanged_is_the_plain_forward(make):
    model = make()
    plain = model.output(model.encode(TEXT))
    result = run_with_interventions(model, [], TEXT)
    torch.testing.assert_close(result.output, plain, atol=1e-5, rtol=0)
    same(result, own(model))
    for layer, before in zip(result.layers, model.layers(TEXT), strict=True):
        assert (layer.name, layer.inputs.query_tokens) == (before.name, before.inputs.query_tokens)


@pytest.mark.parametrize("head", [0, 3])
def test_an_ablated_head_in_bert_adds_nothing(head):
    model = encoder()
    result = run_with_interventions(model, [Intervention(ablated=((1, head),))], TEXT)
    differ(result, model)
    before = own(model)[1]
    model.model.encoder.layer[1].attention.output.dense.weight.data[:, head * 8 : head * 8 + 8] = 0
    output, weights = own(model)
    torch.testing.assert_close(result.output, output, atol=1e-5, rtol=0)
    for i, (layer, theirs) in enumerate(zip(result.layers, weights, strict=True)):
        expected = theirs[0].clone()
        if i == 1:
            expected[head] = 0
        torch.testing.assert_close(layer.mechanism(layer.inputs).weights, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights[1], before[1], atol=1e-6, rtol=0)  # a layer sees its own change only after it
    assert (weights[2] - before[2]).abs().max() > 1e-3


@pytest.mark.parametrize(("layers", "temperature"), [(None, 3.0), ((0, 2), 0.5)], ids=["all", "two"])
def test_a_temperature_is_queries_divided_by_it(layers, temperature):
    model = encoder()
    result = run_with_interventions(model, [Intervention(normalizer=Softmax(temperature), layers=layers)], TEXT)
    differ(result, model)
    for i in range(3) if layers is None else layers:
        for parameter in model.model.encoder.layer[i].attention.self.query.parameters():
            parameter.data /= temperature
    same(result, own(model))


def test_a_temperature_where_a_decoder_looks_at_the_encoder():
    model = reads(bart)
    cross = tuple(i for i, layer in enumerate(model.layers(TEXT)) if layer.kind == "cross")
    result = run_with_interventions(model, [Intervention(normalizer=Softmax(4.0), layers=cross)], TEXT)
    differ(result, model)
    model.encode(TEXT)  # what the decoder has written, it has written as it was
    for layer in model.model.model.decoder.layers:
        for parameter in layer.encoder_attn.q_proj.parameters():
            parameter.data /= 4
    assert len(cross) == 2
    same(result, own(model))


def test_a_temperature_where_torch_computes_the_attention():
    model = reads(falcon)
    result = run_with_interventions(model, [Intervention(normalizer=Softmax(0.25), layers=(1,))], TEXT)
    differ(result, model)
    model.model.transformer.h[1].self_attention.query_key_value.weight.data[:32] *= (
        4  # the queries, then a key, a value
    )
    torch.testing.assert_close(result.output, model.output(model.encode(TEXT)), atol=1e-5, rtol=1e-4)


def test_a_causal_mask_in_bert():
    model, n = encoder(), len(TEXT.split())
    result = run_with_interventions(model, [Intervention(Causal())], TEXT)
    differ(result, model)
    later = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)[None, None]
    same(result, own(model, attention_mask=later))
    assert {layer.kind for layer in result.layers} == {"causal"}


def test_a_sparse_mask_is_laid_over_the_mask_of_each_layer():
    """Of a causal model and a band, which allows later tokens, the window remains; heads of its own may be left out."""
    model = reads(llama)
    sparse = run_with_interventions(model, [Intervention(sparse=Band(WINDOW - 1))], TEXT)
    differ(sparse, model)
    window = run_with_interventions(model, [Intervention(SlidingWindow(WINDOW))], TEXT)
    torch.testing.assert_close(sparse.output, window.output)
    one_head = run_with_interventions(model, [Intervention(sparse=parse(f"band({WINDOW - 1}) | h != 2"))], TEXT)
    n = len(TEXT.split())
    allowed = [one_head.layers[0].mechanism.mask.matrix(n, n, head) for head in range(4)]
    assert torch.equal(allowed[1], Causal().matrix(n, n))
    assert torch.equal(allowed[2], SlidingWindow(WINDOW).matrix(n, n))
    assert not Intervention(sparse=Full()).is_empty


def test_a_window_makes_a_llama_a_mistral():
    model = reads(llama)
    mistral = copy.copy(model)
    mistral.model = hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=WINDOW)).eval()
    mistral.model.load_state_dict(model.model.state_dict())
    mistral.model.config.use_cache = False
    result = run_with_interventions(model, [Intervention(SlidingWindow(WINDOW))], TEXT)
    differ(result, model)
    same(result, own(mistral))


def test_another_score_and_another_normalizer(monkeypatch):
    def slow(module, query, key, value, mask, **more):
        scores = normalize(query, dim=-1) @ normalize(key, dim=-1).mT
        weights = one_hot(scores.argmax(-1), scores.shape[-1]).float()
        return (weights @ value).transpose(1, 2), weights

    model = encoder()
    result = run_with_interventions(model, [Intervention(score=Cosine(), normalizer=Hard())], TEXT)
    differ(result, model)
    monkeypatch.setattr(modeling_bert, "eager_attention_forward", slow)
    same(result, own(model))


# What it costs and leaves


def test_what_does_not_change_is_not_computed_anew(monkeypatch):
    """Of ablated heads nothing is, and the layers below the first change are the same objects."""
    computed = []

    def watched(mechanism, inputs):
        computed.append(mechanism)
        return attended(mechanism, inputs)

    monkeypatch.setattr(intervention_run, "attended", watched)
    model = reads(llama)
    result = run_with_interventions(model, [Intervention(ablated=((1, 0), (2, 3)))], TEXT)
    assert not computed
    assert result.layers[0] is model.layers(TEXT)[0]
    run_with_interventions(model, [Intervention(Full(), layers=(1,)), Intervention(ablated=((2, 3),))], TEXT)
    assert len(computed) == 1


def test_blocks_of_rows_give_what_the_whole_gives(random_inputs):
    inputs: Inputs = random_inputs(heads=4, kv_heads=2, queries=BLOCK + 3, keys=BLOCK + 3)
    for mechanism in (Mechanism(), Mechanism(ScaledDot(2.0), mask=Causal(), normalizer=Softmax(0.3))):
        torch.testing.assert_close(attended(mechanism, inputs), mechanism(inputs).output, atol=1e-6, rtol=1e-5)


def test_the_model_is_left_as_it_was():
    model = reads(llama)
    plain = model.output(model.encode(TEXT))
    run_with_interventions(model, [Intervention(Full())], TEXT)
    assert model.model.config._attn_implementation == "sdpa"
    assert not model.model._forward_hooks
    assert torch.equal(model.output(model.encode(TEXT)), plain)
    assert [layer.mechanism.mask for layer in model.layers(TEXT)] == [Causal()] * 3


def test_attention_without_known_queries_and_keys_is_refused_in_words():
    model = reads(bloom)
    torch.testing.assert_close(
        run_with_interventions(model, [], TEXT).output, model.output(model.encode(TEXT)), atol=1e-5, rtol=0
    )
    with pytest.raises(ValueError, match=r"The attention of .* 0 cannot be changed"):
        run_with_interventions(model, [Intervention(normalizer=Softmax(2.0))], TEXT)


def test_what_a_normalizer_refuses_leaves_the_model_as_it_was():
    model = encoder()
    with pytest.raises(ValueError, match="Sink needs a logit for each of 4 heads"):
        run_with_interventions(model, [Intervention(normalizer=Sink(torch.zeros(2)))], TEXT)
    assert model.model.config._attn_implementation == "eager"
    assert not model.model._forward_hooks


# What is said of the maps and the outputs


def test_the_similarity_of_two_sentences():
    model, other = encoder(), "a dog saw the mat"
    intervention = Intervention(normalizer=Softmax(3.0))
    plain, now = sentence_similarity(model, [intervention], TEXT, other)
    vectors = [model.output(model.encode(one)) for one in (TEXT, other)]
    assert plain == pytest.approx(float(vectors[0] @ vectors[1] / vectors[0].norm() / vectors[1].norm()), abs=1e-6)
    for layer in model.model.encoder.layer:
        for parameter in layer.attention.self.query.parameters():
            parameter.data /= 3
    vectors = [model.output(model.encode(one)) for one in (TEXT, other)]
    assert now == pytest.approx(float(vectors[0] @ vectors[1] / vectors[0].norm() / vectors[1].norm()), abs=1e-5)
    assert abs(plain - now) > 1e-4


def test_the_divergence_is_that_of_torch_in_bits():
    before, after = torch.randn(2, 50) * 3
    expected = kl_div(after.double().log_softmax(-1), before.double().softmax(-1), reduction="sum") / math.log(2)
    assert kl_divergence(before, after) == pytest.approx(expected.item(), rel=1e-9)
    assert kl_divergence(before, before) == 0
    ruled_out = before.clone()
    ruled_out[3] = -torch.inf  # what is impossible before may be anything after
    assert math.isfinite(kl_divergence(ruled_out, after))
    assert kl_divergence(after, ruled_out) == math.inf


def test_the_likeliest_tokens_are_those_of_both():
    model = reads(llama)
    before, after = torch.zeros(40), torch.zeros(40)
    before[3:9] = torch.tensor([9.0, 8, 7, 6, 5, 4])  # the cat sat on a mat
    after[9:13] = torch.tensor([9.0, 8, 7, 6])  # and saw dog run
    found = likeliest_tokens(model, before, after, 4)
    assert [one.text for one in found] == ["and", "the", "saw", "cat"]  # of fewer, the first has more
    for one in found:
        place = WORDS.index(one.text) + 3
        assert one.before == pytest.approx(before.double().softmax(0)[place].item())
        assert one.after == pytest.approx(after.double().softmax(0)[place].item())


def test_the_cosine_of_vectors():
    assert cosine(torch.tensor([3.0, 4.0]), torch.tensor([6.0, 8.0])) == pytest.approx(1)
    assert cosine(torch.tensor([3.0, 4.0]), torch.tensor([4.0, -3.0])) == pytest.approx(0)
    assert cosine(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])) == pytest.approx(math.sqrt(0.5))
