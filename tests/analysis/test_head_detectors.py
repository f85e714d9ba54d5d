"""Detectors of heads, against loops over the numbers of the model's own eager attention, and heads that are built."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz import capture
from attnviz.analysis.head_detectors import (
    ATTENTION_SINK,
    COPY_SUPPRESSION,
    COPYING,
    DETECTORS,
    DUPLICATE_TOKEN,
    INDUCTION,
    PREVIOUS_TOKEN,
    HeadDetection,
    copied_attention,
    detect_heads,
)
from attnviz.effects.head_circuits import head_circuits
from attnviz.layer import FixedWeights, Kind, Layer, LayerId, WeightsOnly
from attnviz.models.minilm import minilm
from attnviz.models.random_tokens import repeated_random_tokens
from attnviz.models.smollm2 import smollm2
from attnviz.models.translator import translator
from tests.support.language_model import HEADS, WIDTH, eager

SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def detection() -> HeadDetection:
    return detect_heads(smollm2())


def own_copying(ids: list[int], weights: Tensor, values: Tensor, matrix: Tensor, unembedding: Tensor) -> list[float]:
    """Copying and suppression of one head, token by token: weights (queries, keys), values (keys, width of a head)."""
    distinct, sums = sorted(set(ids)), [0.0, 0.0]
    for key in range(1, len(ids)):
        logits = [float(unembedding[token] @ (matrix @ values[key])) for token in distinct]
        order = [token for _, token in sorted(zip(logits, distinct, strict=True), reverse=True)]
        for i, most in enumerate((order[:5], order[-5:])):
            if ids[key] in most:
                sums[i] += float(weights[:, key].sum())
    return [part / float(weights.sum()) for part in sums]


def test_copying_and_suppression_are_those_of_the_models_own_matrices(detection: HeadDetection) -> None:
    with eager() as model:
        own = model.model
        ids = repeated_random_tokens(model.text_inputs, 1, decoder=False)[0]["input_ids"]
        output = own(ids, output_attentions=True, output_hidden_states=True)
        unembedding = own.lm_head.weight * own.model.norm.weight
        for layer, head in ((23, 7), (24, 4), (23, 3)):
            block = own.model.layers[layer]
            values = block.self_attn.v_proj(block.input_layernorm(output.hidden_states[layer]))[0]
            of_head = values.unflatten(-1, (-1, WIDTH))[:, head // 3]
            matrix = block.self_attn.o_proj.weight.unflatten(1, (HEADS, WIDTH))[:, head]
            weights = output.attentions[layer][0, head]
            expected = own_copying(ids[0].tolist(), weights, of_head, matrix, unembedding)
            found = [float(detection.shares[detector][1, layer, head]) for detector in (COPYING, COPY_SUPPRESSION)]
            assert found == pytest.approx(expected, abs=1e-3)


def test_heads_of_smollm2_are_found_by_name(detection: HeadDetection) -> None:
    found = {
        detector: [(head.layer, head.head) for head in detection.strongest([detector], least=0.3)]
        for detector in DETECTORS
    }
    assert found[PREVIOUS_TOKEN][:2] == [(16, 0), (11, 1)]
    assert found[INDUCTION][:3] == [(18, 6), (17, 3), (17, 4)]
    assert found[DUPLICATE_TOKEN][:2] == [(14, 3), (8, 0)]
    assert found[COPYING][:2] == [(23, 7), (22, 7)]
    assert found[COPY_SUPPRESSION] == [(24, 4)]
    assert found[ATTENTION_SINK][0] == (18, 8)
    assert not detection.missing


def test_a_list_has_means_with_the_least_and_largest_of_seeds(detection: HeadDetection) -> None:
    heads = detection.strongest()
    assert [head.share for head in heads] == sorted((head.share for head in heads), reverse=True)
    assert {head.detector for head in heads} == {*DETECTORS} - {COPY_SUPPRESSION}
    for head in heads:
        seeds = detection.shares[head.detector][:, head.layer, head.head]
        assert head[3:] == pytest.approx((sum(seeds) / 3, min(seeds), max(seeds)))
        assert 0.5 <= head.share <= 1
    assert detection.positions[INDUCTION] == 3 * 50  # each second occurrence has an earlier one
    assert detection.positions[PREVIOUS_TOKEN] == 3 * 99
    assert detection.positions[COPYING] == 3 * 100


class Built:
    """A model whose two heads attend to the token before, and after the earlier occurrence of the same token."""

    model = nn.Linear(2, 2)

    def layers_of_random_tokens(self, seed: int) -> list[Layer]:
        ids = torch.randperm(40, generator=torch.Generator().manual_seed(seed))[:10].repeat(2)
        previous, induction = torch.zeros(2, 20, 20)
        for q in range(20):
            previous[q, max(q - 1, 0)] = 1
            induction[q, q - 9 if q > 9 else 0] = 1
        names, numbers = tuple(map(str, ids.tolist())), tuple(ids.tolist())
        inputs = WeightsOnly(torch.stack([previous, induction]), names, names, query_ids=numbers, key_ids=numbers)
        return [Layer(LayerId(), Kind.CAUSAL, inputs, FixedWeights())]


def test_heads_that_are_built_for_it_have_a_share_of_1() -> None:
    model: Any = Built()
    done: list[float] = []
    found = detect_heads(model, seeds=SEEDS, progress=done.append)
    # The induction head rests on the first token, which is the one before the second.
    for detector, shares in ((PREVIOUS_TOKEN, [1, 1 / 19]), (INDUCTION, [0, 1]), (DUPLICATE_TOKEN, [0, 0])):
        assert found.mean(detector)[0].tolist() == pytest.approx(shares)
    assert done == pytest.approx([1 / 3, 2 / 3, 1])
    assert np.isnan(found.mean(COPYING)).all()
    assert "no embedding of tokens" in found.missing


@pytest.mark.parametrize("sign", [1, -1])
def test_a_head_that_copies_has_all_attention_but_that_on_the_first_token(sign: int) -> None:
    """Orthogonal embeddings, equal weights on all tokens so far, and values that are written as they are read."""
    size = 64
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=size,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).eval()
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight.zero_()
        attention.v_proj.weight.copy_(torch.eye(size))
        attention.o_proj.weight.copy_(sign * torch.eye(size))
    ids = torch.arange(3, 23).repeat(2)
    [layer] = capture(model, {"input_ids": ids[None]})
    expected = sum(query / (query + 1) for query in range(40)) / 40
    copied = copied_attention(layer, head_circuits(model))[:, 0].tolist()
    assert copied[:: int(sign)] == pytest.approx([expected, 0], abs=1e-5)


def test_where_there_are_no_circuits_the_other_detectors_are_known() -> None:
    found = detect_heads(minilm(), seeds=SEEDS[:1])
    assert "norms or other maps lie in the residual stream" in found.missing
    assert np.isnan(found.mean(COPYING)).all()
    assert [(head.layer, head.head) for head in found.strongest([PREVIOUS_TOKEN])] == [(0, 2)]


def test_of_an_encoder_and_a_decoder_the_decoders_heads_may_copy() -> None:
    found = detect_heads(translator(), seeds=SEEDS[:1])
    known = np.isfinite(found.mean(COPYING)).all(1).tolist()
    assert dict(zip(map(str, found.layers), known, strict=True)) == {
        "encoder 0": False,
        "encoder 1": False,
        "decoder 0": True,
        "decoder 0 cross": True,
        "decoder 1": True,
        "decoder 1 cross": True,
    }
