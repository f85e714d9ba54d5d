import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

from attnviz.biases import rotated

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

CONVENTIONS = ["half split", "interleaved"]
conventions = st.sampled_from(CONVENTIONS)


@pytest.mark.parametrize(("tokens", "width"), [(1, 2), (9, 8), (200, 64)])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_half_split_as_llama(tokens, width, base):
    config = LlamaConfig(
        hidden_size=3 * width, num_attention_heads=3, rope_parameters={"rope_type": "default", "rope_theta": base}
    )
    query, key = torch.randn(2, 1, 3, tokens, width)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(query, torch.arange(tokens)[None])
    for ours, theirs in zip((query, key), modeling_llama.apply_rotary_pos_emb(query, key, cos, sin), strict=True):
        torch.testing.assert_close(rotated(ours[0], "half split", base), theirs[0], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("tokens", "width"), [(1, 2), (9, 8), (200, 64)])
def test_interleaved_as_gpt_j(tokens, width):
    vectors = torch.randn(3, tokens, width)
    sin, cos = modeling_gptj.create_sinusoidal_positions(tokens, width)[None].chunk(2, dim=-1)
    theirs = modeling_gptj.apply_rotary_pos_emb(vectors.transpose(0, 1)[None], sin, cos)[0].transpose(0, 1)
    torch.testing.assert_close(rotated(vectors, "interleaved"), theirs, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_each_pair_turns_by_its_own_angle(convention):
    vectors = torch.randn(2, 5, 6, dtype=torch.float64)
    expected = torch.empty_like(vectors)
    for head in range(2):
        for token in range(5):
            for i in range(3):
                one, other = (i, i + 3) if convention == "half split" else (2 * i, 2 * i + 1)
                x, y = vectors[head, token, one].item(), vectors[head, token, other].item()
                angle = token / 100 ** (2 * i / 6)
                expected[head, token, one] = x * math.cos(angle) - y * math.sin(angle)
                expected[head, token, other] = x * math.sin(angle) + y * math.cos(angle)
    torch.testing.assert_close(rotated(vectors, convention, 100.0), expected)


@given(conventions, st.integers(0, 400), st.integers(0, 400), st.integers(0, 100), st.integers(1, 16))
def test_scores_depend_only_on_how_far_apart_they_are(convention, q, k, shift, pairs):
    query, key = torch.randn(2, 1, 1, 2 * pairs, dtype=torch.float64).expand(2, 1, 501, 2 * pairs)
    scores = (rotated(query, convention) @ rotated(key, convention).mT)[0]
    torch.testing.assert_close(scores[q, k], scores[q + shift, k + shift])


def test_none_leaves_vectors_as_they_are():
    vectors = torch.randn(2, 3, 5)
    assert rotated(vectors, "none") is vectors


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_gradients_go_through(convention):
    vectors = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda vectors: rotated(vectors, convention), (vectors,))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_an_odd_width_is_refused_in_words(convention):
    sentence = "so each head needs an even count of them; here it is 5. Choose another number of heads"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        rotated(torch.ones(2, 3, 5), convention)


@pytest.mark.usefixtures("as_installed")
def test_another_convention_is_refused_in_words():
    sentence = "Rotary positions are one of none, half split, interleaved; 'llama' was requested."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        rotated(torch.ones(2, 3, 4), "llama")
