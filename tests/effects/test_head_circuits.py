"""Circuits of heads, against products of the matrices of models, written out here with all tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from attnviz.effects.head_circuits import HeadCircuits, head_circuits
from attnviz.effects.linear_maps import linear_maps
from attnviz.models.minilm import minilm
from attnviz.models.smollm2 import smollm2
from tests.support.architectures import GROUPED, T5, ZOO
from tests.support.seeded_models import HEADS, LAYERS, SEEDED, SIZES, WIDTH, WORDS, seeded_model

D = WIDTH // HEADS
CENTERED = torch.eye(WIDTH) - 1 / WIDTH
KINDS = ("query", "key", "value")


@dataclass
class ByHand:
    """The matrices of a head: what it reads and writes as (d, width), (width, d)."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor

    @property
    def ov(self) -> Tensor:
        return self.output @ self.value

    @property
    def qk(self) -> Tensor:
        return self.query.T @ self.key


def gpt2(model: Any, layer: int, head: int) -> ByHand:
    block, own = model.transformer.h[layer], slice(head * D, (head + 1) * D)
    norm = block.ln_1.weight.diag() @ CENTERED
    query, key, value = (part.T[own] @ norm for part in block.attn.c_attn.weight.split(WIDTH, 1))
    return ByHand(query, key, value, block.attn.c_proj.weight[own].T)


def llama(model: Any, layer: int, head: int) -> ByHand:
    block, own, shared = model.model.layers[layer], head, head // 2
    norm, attention = block.input_layernorm.weight.diag(), block.self_attn
    query, key, value = (
        part.weight.unflatten(0, (-1, D))[index] @ norm
        for part, index in ((attention.q_proj, own), (attention.k_proj, shared), (attention.v_proj, shared))
    )
    return ByHand(query, key, value, attention.o_proj.weight.unflatten(1, (-1, D))[:, own])


def pythia(model: Any, layer: int, head: int) -> ByHand:
    block = model.gpt_neox.layers[layer]
    norm = block.input_layernorm.weight.diag() @ CENTERED
    query, key, value = block.attention.query_key_value.weight.unflatten(0, (HEADS, 3, D))[head] @ norm
    return ByHand(query, key, value, block.attention.dense.weight.unflatten(1, (HEADS, D))[:, head])


BY_HAND: dict[str, Callable[[Any, int, int], ByHand]] = {"GPT-2": gpt2, "Llama": llama, "Pythia": pythia}


def vocabulary(name: str, model: Any) -> tuple[Tensor, Tensor]:
    """The embedding and the unembedding, (words, width) both; logits are without their mean."""
    norm, weight = {
        "GPT-2": lambda: (model.transformer.ln_f.weight.diag() @ CENTERED, model.lm_head.weight),
        "Llama": lambda: (model.model.norm.weight.diag(), model.lm_head.weight),
        "Pythia": lambda: (model.gpt_neox.final_layer_norm.weight.diag() @ CENTERED, model.lm_head.weight),
    }[name]()
    weight = weight @ norm
    return model.get_input_embeddings().weight, weight - weight.mean(0)


@pytest.fixture(scope="module", params=SEEDED)
def drawn(request: pytest.FixtureRequest) -> tuple[str, Any, HeadCircuits]:
    model = seeded_model(request.param)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return request.param, model, head_circuits(model)


def unit(numbers: Tensor) -> Tensor:
    return numbers / numbers.norm()


def standard(numbers: Tensor) -> Tensor:
    return (numbers - numbers.mean()) / numbers.std()


def places() -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]


def test_maps_are_the_models_matrices_up_to_a_factor(drawn) -> None:
    name, model, circuits = drawn
    for layer, head in places():
        maps, expected = circuits.maps.layers[layer], BY_HAND[name](model, layer, head)
        found = maps.query[head], maps.of_heads(maps.key)[head], maps.of_heads(maps.value)[head], maps.output[head]
        for numbers, own in zip(found, (expected.query, expected.key, expected.value, expected.output), strict=True):
            torch.testing.assert_close(unit(numbers), unit(own), atol=1e-5, rtol=0)


def test_what_a_head_writes_is_its_row_of_the_whole_product(drawn) -> None:
    name, model, circuits = drawn
    embedding, unembedding = vocabulary(name, model)
    for layer, head in places():
        whole = embedding @ BY_HAND[name](model, layer, head).ov.T @ unembedding.T
        for token in (5, 60):
            torch.testing.assert_close(
                circuits.writes(layer, head, token), standard(whole[token]), atol=1e-4, rtol=1e-4
            )
        ranks = (whole > whole.diag()[:, None]).sum(1)
        assert torch.equal(circuits.own_ranks(layer, head, torch.arange(WORDS)), ranks)


def test_copying_is_that_of_the_eigenvalues_of_the_whole_product(drawn) -> None:
    name, model, circuits = drawn
    embedding, unembedding = vocabulary(name, model)
    for layer, head in places():
        whole = unembedding @ BY_HAND[name](model, layer, head).ov @ embedding.T
        values = np.linalg.eigvals(whole.double().numpy())
        assert float(circuits.copying[layer, head]) == pytest.approx(values.real.sum() / np.abs(values).sum(), abs=1e-4)


def test_preferred_keys_are_those_of_normalized_embeddings(drawn) -> None:
    name, model, circuits = drawn
    embedding = model.get_input_embeddings().weight
    for layer, head in places():
        qk = BY_HAND[name](model, layer, head).qk  # in which a norm of GPT-2 takes the mean away
        rest = embedding if name == "Llama" else embedding @ CENTERED
        keys = embedding / rest.square().mean(1).sqrt()[:, None]
        expected = standard(keys @ (qk.T @ embedding[7]))
        torch.testing.assert_close(circuits.preferred_keys(layer, head, 7), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_composition_is_that_of_whole_matrices(kind, drawn) -> None:
    name, model, circuits = drawn
    for layer, head in ((0, 1), (1, 3), (2, 0)):
        scores = circuits.composition(kind, layer, head)
        for other_layer, other in places():
            if other_layer == layer:
                assert scores[other_layer, other].isnan()
                continue
            earlier, later = sorted([(layer, head), (other_layer, other)])
            first, second = BY_HAND[name](model, *earlier).ov, BY_HAND[name](model, *later)
            matrix = {"query": second.qk.T, "key": second.qk, "value": second.ov}[kind]
            expected = (matrix @ first).norm() / (matrix.norm() * first.norm())
            assert float(scores[other_layer, other]) == pytest.approx(float(expected), abs=1e-5)


def test_random_composition_is_that_of_circuits_turned_at_random() -> None:
    generator = torch.Generator().manual_seed(0)
    circuits = head_circuits(seeded_model("Llama"))
    first, second = torch.randn(2, WIDTH, D, generator=generator) @ torch.randn(2, D, WIDTH, generator=generator)
    scores = []
    for _ in range(400):
        turned, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator))
        scores.append((second @ turned @ first).norm() / (second.norm() * first.norm()))
    assert circuits.random_composition == pytest.approx(float(torch.stack(scores).square().mean().sqrt()), rel=0.05)


@pytest.mark.parametrize("name", SEEDED)
def test_tokens_after_the_first_layer_are_hidden_states_of_texts(name: str) -> None:
    model, shares = seeded_model(name), []
    circuits = head_circuits(model, tokens="first layer", progress=shares.append)
    with torch.no_grad():
        for token in (0, 5, 60):
            states = model(torch.tensor([[token]]), output_hidden_states=True).hidden_states[1]
            torch.testing.assert_close(circuits.tokens[token], states[0, 0])
    assert shares == [1.0]
    embedding = head_circuits(model)
    assert torch.equal(circuits.copying[0], embedding.copying[0])  # whose heads read embeddings
    assert not torch.allclose(circuits.copying[1:], embedding.copying[1:], atol=0.1)
    assert torch.equal(circuits.writes(0, 1, 5), embedding.writes(0, 1, 5))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_head_built_to_copy_or_suppress_has_these_numbers(sign: int) -> None:
    """Orthogonal embeddings, which the head reads as they are, and writes as logits of the same tokens."""
    config = LlamaConfig(**SIZES | {"vocab_size": WIDTH, "num_attention_heads": 1}, tie_word_embeddings=True)
    model = LlamaForCausalLM(config).eval()
    basis, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(basis)
        attention = model.model.layers[1].self_attn
        attention.v_proj.weight.copy_(torch.eye(WIDTH))
        attention.o_proj.weight.copy_(sign * torch.eye(WIDTH))
        attention.q_proj.weight.copy_(torch.eye(WIDTH))
        attention.k_proj.weight.copy_(torch.eye(WIDTH))
    circuits = head_circuits(model)
    assert float(circuits.copying[1, 0]) == pytest.approx(sign, abs=1e-5)
    assert set(circuits.own_ranks(1, 0, torch.arange(WIDTH)).tolist()) == {0 if sign > 0 else WIDTH - 1}
    assert int((sign * circuits.writes(1, 0, 9)).argmax()) == 9
    assert int(circuits.preferred_keys(1, 0, 9).argmax()) == 9


def test_heads_of_smollm2_are_those_that_copy_and_compose() -> None:
    model = smollm2()
    circuits = head_circuits(model.model, tokens="first layer")
    copying = circuits.copying.flatten()
    assert {divmod(int(i), 9) for i in copying.topk(3, largest=False).indices} == {(23, 3), (24, 4), (29, 6)}
    assert all(float(circuits.copying[place]) > 0.9 for place in ((23, 0), (23, 2), (24, 5)))
    # The induction head 18.6 finds its keys by what the previous-token head 16.0 and 17.8 have written.
    scores = circuits.composition("key", 18, 6).nan_to_num(0).flatten()
    assert [divmod(int(i), 9) for i in scores.topk(2).indices] == [(17, 8), (16, 0)]
    assert float(scores.topk(2).values.min()) > 3 * circuits.random_composition
    mary = model.tokenizer(" Mary")["input_ids"][0]
    lowest = circuits.writes(23, 3, mary).topk(2, largest=False).indices
    assert model.tokenizer.batch_decode([[int(i)] for i in lowest]) == [" Mary", "Mary"]
    ranks = circuits.own_ranks(23, 3, torch.randperm(49152, generator=torch.Generator().manual_seed(0))[:200])
    assert float((ranks >= 49152 - 10).float().mean()) > 0.4


def test_a_cap_of_logits_changes_nothing() -> None:
    found = []
    for cap in (0.5, None):
        torch.manual_seed(0)
        model = Gemma2ForCausalLM(
            Gemma2Config(**GROUPED, head_dim=8, final_logit_softcapping=cap, initializer_range=0.3)
        ).eval()
        found.append(head_circuits(model))
    torch.testing.assert_close(found[0].writes(1, 2, 7), found[1].writes(1, 2, 7), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found[0].copying, found[1].copying, atol=1e-4, rtol=1e-4)


def test_heads_of_an_encoder_compose_with_those_that_read_it() -> None:
    torch.manual_seed(0)
    circuits = head_circuits(T5ForConditionalGeneration(T5Config(**T5)).eval())
    names = [str(layer.id) for layer in circuits.maps.layers]
    assert names == ["encoder 0", "encoder 1", "decoder 0", "decoder 0 cross", "decoder 1", "decoder 1 cross"]
    reading = {kind: circuits.composition(kind, 0, 1).isfinite().all(1).tolist() for kind in KINDS}
    cross_and_encoder = [False, True, False, True, False, True]
    assert reading["key"] == reading["value"] == cross_and_encoder
    assert reading["query"] == [False, True, False, False, False, False]
    assert circuits.copying.isnan().all(1).tolist() == [True, True, False, False, False, False]
    with pytest.raises(ValueError, match=r"encoder 0 writes to no logits"):
        circuits.writes(0, 0, 5)
    with pytest.raises(ValueError, match="has two first layers"):
        head_circuits(circuits.maps.model, tokens="first layer")


def test_a_layer_that_normalizes_its_keys_has_no_preferred_ones() -> None:
    torch.manual_seed(0)
    circuits = head_circuits(Qwen3ForCausalLM(Qwen3Config(**GROUPED, head_dim=8)).eval())
    assert circuits.writes(1, 1, 5).isfinite().all()
    assert float(circuits.composition("key", 1, 1)[0].max()) <= 1
    with pytest.raises(ValueError, match="layer 1 normalizes its keys once more"):
        circuits.preferred_keys(1, 1, 5)


def test_a_model_without_logits_has_circuits_between_heads() -> None:
    circuits = head_circuits(seeded_model("Llama").model)
    assert circuits.composition("value", 2, 1)[:2].isfinite().all()
    for ask in (
        lambda: circuits.copying,
        lambda: circuits.writes(1, 1, 5),
        lambda: circuits.directions(torch.tensor([5])),
    ):
        with pytest.raises(ValueError, match="no logits that are read from its residual stream"):
            ask()


def test_what_has_no_circuits_is_refused_with_a_sentence() -> None:
    models = {architecture.name: architecture for architecture in ZOO}
    for name, sentence in {
        "BERT": "norms or other maps lie in the residual stream",
        "GPT-J": "the model computes its attention by itself",
        "ViT": "no embedding of tokens",
        "CLIP": "no embedding of tokens",
        "Whisper": "reads more than token ids",
    }.items():
        with pytest.raises(ValueError, match=sentence):
            head_circuits(models[name].model())
    with pytest.raises(ValueError, match="norms or other maps lie in the residual stream"):
        head_circuits(minilm().model)
    model = seeded_model("Llama")
    with pytest.raises(ValueError, match="Give a batch of one token"):
        linear_maps(model, {"input_ids": torch.tensor([[1, 2]])})
    circuits = head_circuits(model)
    for ask, sentence in (
        (lambda: circuits.writes(3, 0, 5), "There is no layer 3"),
        (lambda: circuits.composition("key", 0, 4), "There is no head 4"),
        (lambda: circuits.preferred_keys(0, 0, WORDS), "There is no token 61"),
        (lambda: circuits.composition("output", 0, 0), "not a kind of composition"),  # type: ignore[arg-type]
        (lambda: head_circuits(model, tokens="all"), "not a kind of tokens"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=sentence):
            ask()
