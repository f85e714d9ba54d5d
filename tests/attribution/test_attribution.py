"""Sums over what wrote to the residual stream: that they add up, and that their terms are what they are said to be."""

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from attnviz.attribution import (
    Activation,
    Attribution,
    LinearizedPass,
    Logit,
    LogitDifference,
    Score,
    attribute,
    attribution_of,
    in_float32,
    most_tokens,
)
from attnviz.attribution.named_pass import named_pass
from attnviz.biases import ALiBi, SoftCap
from attnviz.masks import SlidingWindow
from attnviz.models.smollm2 import smollm2
from attnviz.tracing import capture
from attnviz.tracing.forward_arguments import forward_arguments
from tests.support.architectures import GROUPED, READS, SMALL, T5, WORDS, ZOO
from tests.support.seeded_models import IDS as SEEDED_IDS
from tests.support.seeded_models import OTHER, SEEDED, TOKEN, seeded_model

IDS = torch.randint(3, WORDS, (1, 9), generator=torch.Generator().manual_seed(0))


def linearized(model: nn.Module, **batch: torch.Tensor | bool) -> LinearizedPass:
    return LinearizedPass(model, forward_arguments(model, (batch,), {}))


def adds_up(found: Attribution) -> bool:
    terms = float(found.embeddings.sum() + found.heads.sum() + found.mlps.sum())
    return found.total == pytest.approx(found.constant + found.bias + terms, abs=2e-4)


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**GROUPED, initializer_range=0.3)).eval()


def test_the_constant_of_layers_of_torch_is_of_their_biases() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), 2).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.2, 0.3)
    found = attribute(model, torch.randn(1, 5, 16), Logit(3))
    assert found.constant == pytest.approx(sum(found.constant_parts.values()), abs=1e-4)
    names = ("self_attn.out_proj", "norm1", "norm2")
    assert list(found.constant_parts) == [f"layers.{layer}.{name}" for layer in range(2) for name in names]
    last = model.layers[1].norm2.bias[3]
    assert found.constant_parts["layers.1.norm2"] == pytest.approx(float(last))


def test_a_constant_that_no_module_has_is_said_to_be_so() -> None:
    class Changing(nn.Module):
        """Writes constants into its states where they are."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            states = self.layer(x).clone()
            states[:, :, 3] = 7.0
            return states

    found = attribute(Changing().eval(), torch.randn(1, 5, 16), Logit(3))
    assert found.constant_parts == {"": pytest.approx(7)}


def test_shares_are_those_of_the_matrices_by_hand(llama) -> None:
    outputs, inputs = {}, {}
    last = llama.model.layers[-1]
    hooks = [
        last.self_attn.o_proj.register_forward_pre_hook(lambda module, args: inputs.update(z=args[0])),
        last.mlp.register_forward_hook(lambda module, args, output: outputs.update(mlp=output)),
        llama.model.norm.register_forward_pre_hook(lambda module, args: inputs.update(stream=args[0])),
    ]
    with torch.no_grad():
        llama(input_ids=IDS)
    for hook in hooks:
        hook.remove()
    found = attribute(llama, {"input_ids": IDS}, LogitDifference(5, 7))
    stream = inputs["stream"][0, -1]
    scale = llama.model.norm.weight / (stream.square().mean() + llama.config.rms_norm_eps).sqrt()
    direction = (llama.lm_head.weight[5] - llama.lm_head.weight[7]) * scale
    by_head = last.self_attn.o_proj.weight.unflatten(1, (4, -1))
    for head in range(4):
        written = by_head[:, head] @ inputs["z"][0, -1].unflatten(-1, (4, -1))[head]
        assert float(found.heads[-1, head, -1]) == pytest.approx((written @ direction).item(), abs=1e-5)
    assert float(found.mlps[-1, -1]) == pytest.approx((outputs["mlp"][0, -1] @ direction).item(), abs=1e-5)
    embedding = llama.model.embed_tokens.weight[IDS[0, -1]]
    assert float(found.embeddings[-1]) == pytest.approx((embedding @ direction).item(), abs=1e-5)
    assert found.total == pytest.approx((stream @ direction).item(), abs=1e-5)
    assert float(found.heads[:, :, :-1].abs().max()) == 0  # nothing but attention reads other positions


@pytest.mark.parametrize("name", SEEDED)
def test_shares_of_a_logit_are_those_of_transformer_lens(name: str) -> None:
    expected = json.loads((Path(__file__).parent / "transformer_lens.json").read_text())[name]
    found = attribute(seeded_model(name), {"input_ids": SEEDED_IDS}, LogitDifference(TOKEN, OTHER))
    assert found.total == pytest.approx(expected["total"], abs=1e-5)
    assert found.heads[:, :, -1].flatten().tolist() == pytest.approx(expected["heads"], abs=1e-5)
    assert found.mlps[:, -1].tolist() == pytest.approx(expected["mlps"], abs=1e-5)
    assert float(found.embeddings[-1]) == pytest.approx(sum(expected["embeddings"]), abs=1e-5)


@pytest.mark.parametrize("side", ["key", "query"])
@pytest.mark.parametrize("kind", ["llama", "t5", "torch"])
def test_a_score_is_a_difference_of_log_weights(kind, side, llama) -> None:
    torch.manual_seed(0)
    if kind == "llama":
        model, batch = llama, {"input_ids": IDS}
    elif kind == "t5":
        model = T5ForConditionalGeneration(T5Config(**T5)).eval()
        batch = {"input_ids": IDS, "decoder_input_ids": IDS[:, :6]}
    else:
        layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
        model, batch = nn.TransformerEncoder(layer, 2).eval(), {"src": torch.randn(1, 7, 16)}
    layers = capture(model, batch)
    index = len(layers) - 1 if kind != "t5" else 1  # of the encoder, with a bias of positions
    weights = layers[index].maps([1], [4])[0, 0]
    found = attribute(model, batch, Score(index, 1, 4, 2, over=3, side=side))
    assert found.total == pytest.approx(float((weights[2] / weights[3]).log()), abs=1e-4)
    assert (found.bias != 0) == (kind == "t5")
    mean = attribute(model, batch, Score(index, 1, 4, 2, over="mean", side=side))
    allowed = weights[weights > 0]
    assert mean.total == pytest.approx(float(weights[2].log() - allowed.log().mean()), abs=1e-4)
    assert adds_up(found)
    assert adds_up(mean)


def test_windows_of_a_picture_follow_each_other() -> None:
    architecture = next(each for each in ZOO if each.name == "Swin")
    model, batch = architecture.model(), {name: value[:1] for name, value in architecture.given().items()}
    weights = capture(model, batch)[1].maps([1], [37])[0, 0].nan_to_num(0)  # in the third window of 16 patches
    assert weights.nonzero().flatten().tolist() == [*range(32, 48)]
    found = attribute(model, batch, Score(1, 1, 37, 40, over=33))
    assert found.total == pytest.approx(float((weights[40] / weights[33]).log()), abs=1e-4)
    assert found.bias != 0
    assert adds_up(found)
    mean = found.attribute(Score(1, 1, 37, 40, over="mean", side="query"))
    assert mean.total == pytest.approx(float(weights[40].log() - weights[32:48].log().mean()), abs=1e-4)
    with pytest.raises(ValueError, match="The mask forbids this key"):
        found.attribute(Score(1, 1, 37, 5))
    sources = mean.sources(0, 1, 37)
    assert len(sources) == 256
    assert float(sources.sum()) == pytest.approx(float(mean.heads[0, 1, 37]), abs=1e-5)
    assert mean.opened(0, 1, 37, 40).total == pytest.approx(float(sources[40]), abs=1e-5)


def test_keys_of_windows_have_as_many_names_as_a_head_reads() -> None:
    architecture = next(each for each in ZOO if each.name == "Swin")
    given = {name: value[:1] for name, value in architecture.given().items()}
    run = named_pass(architecture.model(), given)
    shares = run.attribution(Score(1, 1, 5, 2, over=3)).sources(0, 1, 5)
    assert len(run.keys(0)) == len(shares) == len(run.weights(0, 1, 5))


@pytest.mark.parametrize("name", ["GPT-2", "GPT-J", "Swin"])
def test_two_examples_are_refused(name: str) -> None:
    architecture = next(each for each in ZOO if each.name == name)
    with pytest.raises(ValueError, match=r"cannot be written as a sum: it has .* and one example is expected"):
        attribute(architecture.model(), architecture.given(), Logit(5))


def test_a_head_is_the_sum_over_what_it_read_and_each_opens(llama) -> None:
    found = attribute(llama, {"input_ids": IDS}, Logit(5))
    sources = found.sources(1, 2, 8)
    assert float(sources.sum()) == pytest.approx(float(found.heads[1, 2, 8]), abs=1e-5)
    opened = found.opened(1, 2, 8, 4)
    assert opened.total == pytest.approx(float(sources[4]), abs=1e-5)
    assert adds_up(opened)
    assert float(opened.mlps[0].abs().sum()) > 0
    assert float(opened.mlps[1].abs().sum()) == 0  # what runs later has written nothing of it


@pytest.mark.parametrize("shape", [(1, 5, 16), (5, 1, 16), (5, 16)])
def test_the_axis_of_the_example_may_be_first_second_or_none(shape) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=shape[0] == 1)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(shape)
    found = attribute(model, x, Logit(3, position=-2))
    assert found.total == pytest.approx(float(model(x).reshape(5, 16)[-2, 3]), abs=1e-5)
    assert adds_up(found)
    assert found.heads.shape == (2, 4, 5)
    assert found.sources(1, 2, 3).sum() == pytest.approx(float(found.heads[1, 2, 3]), abs=1e-5)
    assert found.attribute(Logit(3, position=-5)).total == pytest.approx(float(model(x).reshape(5, 16)[0, 3]), abs=1e-5)
    with pytest.raises(ValueError, match="no position 5: there are 5"):
        found.attribute(Logit(3, position=5))


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1, 1, 1, 3)])
def test_a_number_of_labels_has_no_position(shape) -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.layer(x).mean(1)).reshape(shape)

    torch.manual_seed(0)
    model, x = Classifier().eval(), torch.randn(1, 5, 16)
    if len(shape) > 3:
        with pytest.raises(ValueError, match="This model has no logits"):
            attribute(model, x, Logit(2))
        return
    found = attribute(model, x, Logit(2))
    assert found.total == pytest.approx(float(model(x).flatten()[2]), abs=1e-5)
    assert adds_up(found)


def test_what_runs_after_a_number_has_no_part_in_it(llama) -> None:
    score = attribute(llama, {"input_ids": IDS}, Score(1, 0, 6, 4, over=2))
    assert score.sources(1, 2, 4).tolist() == [0] * 9
    assert score.opened(1, 2, 4, 3).total == 0
    assert score.neurons(1, 4).tolist() == [0] * 48
    assert float(score.neurons(0, 4).sum()) == pytest.approx(float(score.mlps[0, 4]), abs=1e-5)


def test_terms_are_all_shares_and_the_largest_are_first(llama) -> None:
    found = attribute(llama, {"input_ids": IDS}, LogitDifference(5, 7))
    assert len(found.terms) == 9 * (1 + 2 + 2 * 4)
    assert sum(term.share for term in found.terms) == pytest.approx(found.total - found.constant, abs=1e-4)
    shares = [abs(term.share) for term in found.largest(99)]
    assert shares == sorted(shares, reverse=True)
    for term in found.terms:
        of_layer = found.embeddings if term.layer is None else found.mlps[term.layer]
        of_layer = of_layer if term.head is None else found.heads[term.layer, term.head]
        assert term.share == float(of_layer[term.position])
    assert [str(term).split(" ", 1)[1] for term in found.terms[::9]] == [
        *("embedding at 0", "MLP 0 at 0", "MLP 1 at 0"),
        *(f"head {layer}.{head} at 0" for layer in range(2) for head in range(4)),
    ]
    assert repr(found).endswith(f", {found.largest(5)[4]}, …")


def test_an_mlp_is_the_sum_of_its_units(llama) -> None:
    found = attribute(llama, {"input_ids": IDS}, Logit(5))
    units = found.neurons(1, 8)
    assert units.shape == (48,)
    assert float(units.sum()) == pytest.approx(float(found.mlps[1, 8]), abs=1e-5)


def test_a_nonlinearity_after_the_stream_is_held_and_named() -> None:
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**SMALL)).eval()
    found = attribute(model, {"input_ids": IDS}, LogitDifference(5, 7, position=3))
    logits = model(input_ids=IDS).logits[0, 3]
    assert found.total == pytest.approx(float(logits[5] - logits[7]), abs=1e-5)
    assert adds_up(found)
    assert float(found.heads.abs().sum()) > 0
    assert [name.split(".")[1] for name in found.gates] == ["predictions"]


def zoo_model(name: str, auto: str = "AutoModel") -> nn.Module:
    return replace(next(each for each in ZOO if each.name == name), auto=auto).model()


def test_a_cap_of_logits_is_held_and_named() -> None:
    model = zoo_model("Gemma 2", "AutoModelForCausalLM")
    found = attribute(model, {"input_ids": IDS}, Logit(5))
    assert found.total == pytest.approx(float(model(input_ids=IDS).logits[0, -1, 5]), abs=1e-5)
    assert adds_up(found)
    assert found.gates == ("Gemma2ForCausalLM",)


def test_an_activation_that_hides_from_torch_is_part_of_its_mlp() -> None:
    found = attribute(zoo_model("BLOOM", "AutoModelForCausalLM"), {"input_ids": IDS}, Logit(5))
    assert adds_up(found)
    assert found.mlps.shape == (2, 9)
    assert found.neurons(1, 8).sum() == pytest.approx(float(found.mlps[1, 8]), abs=0.3)  # and its bias
    assert found.gates == ()


def test_gates_of_heads_are_held_and_linear_attention_is_a_writer() -> None:
    model = zoo_model("Qwen3-Next", "AutoModelForCausalLM")
    found = attribute(model, {"input_ids": IDS}, Logit(5))
    assert found.total == pytest.approx(float(model(input_ids=IDS).logits[0, -1, 5]), abs=1e-5)
    assert adds_up(found)
    assert found.gates == ("model.layers.1.self_attn",)
    assert found.heads.shape[0] == 1
    assert found.mlps.shape[0] == 3  # linear attention, and the MLPs of two layers


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("BERT", ["embeddings.word_embeddings", "embeddings.token_type_embeddings", "embeddings.position_embeddings"]),
        ("GPT-2", ["wte", "wpe"]),
        ("ViT", ["embeddings.patch_embeddings.projection"]),
        ("wav2vec 2.0", ["feature_extractor.conv_layers.1.activation", "encoder.pos_conv_embed.activation"]),
        ("Whisper", ["encoder", "encoder.embed_positions", "decoder.embed_tokens"]),
    ],
)
def test_embeddings_and_convolutions_are_told_apart(name: str, parts: list[str]) -> None:
    architecture = next(each for each in ZOO if each.name == name)
    batch = {name: value[:1] for name, value in architecture.given().items()}
    score = attribute(architecture.model(), batch, Score(1, 1, 5, 2, over=3))
    assert list(score.embedding_parts) == parts
    assert adds_up(score)


def test_patches_of_a_picture_in_a_text_are_terms() -> None:
    architecture = next(each for each in ZOO if each.name == "LLaVA")
    batch = {name: value[:1] for name, value in architecture.given().items()}
    score = attribute(replace(architecture, auto=READS).model(), batch, Score(1, 1, 5, 2, over=3))
    assert adds_up(score)
    patches = next(shares for name, shares in score.embedding_parts.items() if name.endswith("patch_embedding"))
    assert patches.nonzero().flatten().tolist() == [1, 2]  # after the token of the class


def test_a_gate_of_what_is_written_before_is_refused() -> None:
    class GatedStream(nn.Module):
        """Multiplies what attention reads by a gate."""

        def __init__(self) -> None:
            super().__init__()
            self.gate, self.layer = Gate(), nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
            self.attention = Attention()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.attention(self.gate(self.layer(x)))

    with pytest.raises(ValueError, match=r"goes through a nonlinearity in “gate” \(Gate\)"):
        attribute(GatedStream().eval(), torch.randn(1, 5, 16), Logit(3))


class Gate(nn.Module):
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states * states.sigmoid()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.query, self.key = 2, nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        query, key = (map(states).unflatten(-1, (2, 8)).transpose(1, 2) for map in (self.query, self.key))
        values = states.unflatten(-1, (2, 8)).transpose(1, 2)
        return scaled_dot_product_attention(query, key, values).transpose(1, 2).flatten(2)


class Mixing(nn.Module):
    """Multiplies the residual stream by itself, in front of a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), nn.LayerNorm(16)
        self.mix = Mix()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.mix(self.layer(x)))


class Mix(nn.Module):
    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return states * states


def test_a_refusal_names_the_module_that_is_not_affine() -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match=r"of -?\d.* is missing\. .* not affine, in “mix” \(Mix\)\.$"):
        attribute(Mixing().eval(), torch.randn(1, 5, 16), Logit(3))


def test_a_model_is_left_as_it_was(llama) -> None:
    before = [parameter.requires_grad for parameter in llama.parameters()]
    with torch.no_grad():
        logits = llama(input_ids=IDS).logits
        attribute(llama, {"input_ids": IDS}, Logit(5))
        assert torch.equal(llama(input_ids=IDS).logits, logits)
    assert [parameter.requires_grad for parameter in llama.parameters()] == before
    assert all(parameter.grad is None for parameter in llama.parameters())


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (Logit(WORDS), "no token 97: there are 97"),
        (Logit(5, position=9), "no position 9: there are 9"),
        (Logit(5, position=-10), "no position -10: there are 9"),
        (Score(2, 0, 4, 1), "no layer 2: there are 2"),
        (Score(0, 4, 4, 1), "no head 4: there are 4"),
        (Score(0, 0, 9, 1), "no position 9"),
        (Score(0, 0, 4, -1), "no position -1"),
        (Score(0, 0, 4, 6), "The mask forbids this key"),
        (Activation(0, 0, torch.ones(32)), "output_hidden_states=True"),
    ],
)
def test_what_is_not_there_is_refused(metric, reason, llama) -> None:
    with pytest.raises(ValueError, match=reason):
        attribute(llama, {"input_ids": IDS}, metric)


def test_scores_with_a_cap_are_refused() -> None:
    with pytest.raises(ValueError, match=r"The scores of layer 1, head 1 are not .* as a cap does"):
        attribute(zoo_model("Gemma 2"), {"input_ids": IDS}, Score(1, 1, 8, 4, over=5))


class Flexible(nn.Module):
    """A layer of FlexAttention."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.query, self.both, self.options = nn.Linear(16, 32), nn.Linear(16, 32), options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (self.query(x), *self.both(x).chunk(2, -1))
        heads = (part.unflatten(-1, (-1, 8)).transpose(1, 2) for part in parts)
        return flex_attention.flex_attention(*heads, enable_gqa=True, **self.options).transpose(1, 2).flatten(2)


@pytest.fixture
def flexible(monkeypatch: pytest.MonkeyPatch) -> type[Flexible]:
    """Layers of FlexAttention that may run with gradients, as on a GPU."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
    torch.manual_seed(0)
    return Flexible


def test_scores_of_flex_attention_are_log_weights(flexible) -> None:
    mask = flex_attention.create_block_mask(SlidingWindow(5), None, None, 9, 9, device="cpu")
    model, x = flexible(score_mod=ALiBi().bind(9, 9, 4), block_mask=mask, scale=0.5), torch.randn(1, 9, 16)
    weights = capture(model, x)[0].maps([1], [6])[0, 0]
    score = attribute(model, x, Score(0, 1, 6, 4, over=3))
    assert score.total == pytest.approx(float((weights[4] / weights[3]).log()), abs=1e-4)
    assert score.bias == pytest.approx(2**-4, abs=1e-6)  # the slope of the second of four heads
    assert adds_up(score)


def test_a_cap_of_flex_attention_is_seen_in_its_weights(flexible) -> None:
    model, x = flexible(score_mod=SoftCap(0.5)), torch.randn(1, 9, 16)
    found = attribute(model, x, Logit(9))
    assert float(found.sources(0, 1, 8).sum()) == pytest.approx(float(found.heads[0, 1, 8]), abs=1e-5)
    with pytest.raises(ValueError, match="as a cap does"):
        found.attribute(Score(0, 1, 6, 4, over=3))


@pytest.mark.parametrize("cap", [2.0, 5.0])
def test_a_cap_that_changes_weights_little_is_seen(flexible, cap) -> None:
    model, x = flexible(score_mod=SoftCap(cap)), torch.randn(1, 9, 16)
    with pytest.raises(ValueError, match="as a cap does"):
        attribute(model, x, Score(0, 1, 6, 4, over=3))


def test_weights_that_do_not_give_the_output_are_refused(llama) -> None:
    found = attribute(llama, {"input_ids": IDS}, Logit(5))
    writer = found._pass.ran[1].heads[1]
    writer.value.data += 3e-3 * writer.call.value.abs().max()
    with pytest.raises(ValueError, match="The weights of layer 1, head 2 are not known: they do not give its output"):
        found.sources(1, 2, 8)


def test_a_function_of_scores_that_is_not_known_is_refused(flexible) -> None:
    with pytest.raises(ValueError, match="its score_mod is a function that is not known"):
        attribute(flexible(score_mod=lambda score, b, h, q, k: score + k), torch.randn(1, 9, 16), Logit(9))


def test_flex_attention_without_gradients_is_refused() -> None:
    with pytest.raises(ValueError, match=r"A sum takes gradients, which this model does not have\. FlexAttention does"):
        attribute(Flexible(), torch.randn(1, 9, 16), Logit(9))


def test_scores_that_a_model_computes_by_itself_are_refused() -> None:
    with pytest.raises(ValueError, match="The queries, keys and values of layer 1 are not known"):
        attribute(zoo_model("GPT-J"), {"input_ids": IDS}, Score(1, 1, 8, 4, over=5))


def test_a_model_that_runs_differently_without_writers_is_refused() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.norm = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), nn.LayerNorm(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            states = self.layer(x)
            return self.norm(states) if float(x.detach().abs().sum()) else self.norm(self.norm(states))

    with pytest.raises(ValueError, match="in another order where nothing is written"):
        attribute(Twice().eval(), torch.randn(1, 5, 16), Logit(3))


def test_a_text_too_long_for_memory_is_refused_before_it_is_read(llama, monkeypatch) -> None:
    monkeypatch.setattr(llama, "forward", None)
    memory_of_8 = 8 * 40 * 32 * 2
    assert most_tokens(llama, memory_of_8) == 8
    assert most_tokens(llama, memory_of_8 - 1) == 7
    short = LinearizedPass(llama, forward_arguments(llama, ({"input_ids": IDS},), {}), most_bytes=memory_of_8)
    with pytest.raises(ValueError, match=r"for 9 tokens\. Give it at most 8"):
        attribution_of(short.gating(frozenset()), Logit(5))


def test_a_model_in_half_precision_is_computed_in_float32(llama) -> None:
    half = copy.deepcopy(llama).to(torch.bfloat16)
    found = attribute(half, {"input_ids": IDS}, LogitDifference(5, 7))
    assert adds_up(found)
    assert found.total == pytest.approx(attribute(half.float(), {"input_ids": IDS}, LogitDifference(5, 7)).total)


def test_a_model_that_is_computed_in_float32_follows_its_model(llama) -> None:
    half = copy.deepcopy(llama).to(torch.bfloat16)
    with torch.inference_mode():
        first = in_float32(half)
    half.train()
    assert in_float32(half).training
    assert not first.training
    before = attribute(half.eval(), {"input_ids": IDS}, Logit(5)).total
    with torch.no_grad():
        half.lm_head.weight.mul_(2)
    assert attribute(half, {"input_ids": IDS}, Logit(5)).total == pytest.approx(2 * before)


def test_memory_is_an_argument(llama) -> None:
    with pytest.raises(ValueError, match="Give it at most 0"):
        attribute(llama, {"input_ids": IDS}, Logit(5), most_bytes=1)


def test_a_number_that_is_not_finite_is_refused(llama) -> None:
    damaged = copy.deepcopy(llama)
    damaged.model.layers[1].mlp.up_proj.weight.data[0, 0] = torch.nan
    with pytest.raises(ValueError, match="The model computes nan here, which is not a sum"):
        attribute(damaged, {"input_ids": torch.tensor([[5, 9, 11]])}, LogitDifference(5, 7))


def test_a_model_without_a_head_has_no_logits(llama) -> None:
    with pytest.raises(ValueError, match="has no logits"):
        attribute(llama.model, {"input_ids": IDS}, Logit(5))


def test_smollm2_names_mary_by_a_head_that_looks_at_john() -> None:
    given = smollm2()
    batch = dict(given.tokenizer("When Mary and John went to the store, John gave the ball to", return_tensors="pt"))
    mary, john = (given.tokenizer(f" {name}").input_ids[0] for name in ("Mary", "John"))
    run = linearized(given.model, **batch)
    found = attribution_of(run, LogitDifference(mary, john))
    assert found.total == pytest.approx(6.094, abs=1e-3)
    heads = found.heads.sum(-1)
    for (layer, head), share in {(23, 3): 2.95, (29, 1): 1.73, (29, 0): -1.16, (24, 4): -1.09}.items():
        assert float(heads[layer, head]) == pytest.approx(share, abs=0.01)
    assert str(found.largest(1)[0]) == "+2.954 head 23.3 at 13"
    shares = [abs(term.share) for term in found.largest(10**6)]
    assert len(shares) == 14 * (30 * 9 + 30 + 1)  # terms of each position
    assert shares == sorted(shares, reverse=True)
    assert int(found.sources(23, 3, 13).argmax()) == 9  # the second “John”
    score = attribution_of(run, Score(24, 4, 13, 1, over=0, side="query"))
    assert score.total == pytest.approx(1.926, abs=1e-3)
    assert float(score.heads[23, 0].sum()) == pytest.approx(1.94, abs=0.01)
    assert float(score.heads[23, 1].sum()) == pytest.approx(1.53, abs=0.01)
