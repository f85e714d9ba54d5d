"""What each head adds, and what changes without it."""

import pytest
import torch

from attnviz.translator import EXAMPLES, load
from attnviz.translator.encoder_decoder import HEADS, USES, ForwardPass
from attnviz.translator.head_ablation import ablate_heads, head_ablation, head_contributions


@pytest.mark.parametrize("use", USES)
def test_what_the_heads_add_is_the_output_of_the_attention(use):
    model = load().model
    for layer in range(2):
        attention = model.attention(use, layer)
        assert (attention.use, attention.layer) == (use, layer)
        generator = torch.Generator().manual_seed(layer)
        vectors, memory = (torch.randn(1, count, 64, generator=generator) for count in (5, 7))
        forward_pass = ForwardPass(records=[])
        output = attention(vectors, forward_pass, memory if use == "cross" else None)[0]
        parts = head_contributions(attention, forward_pass.records[0])
        assert parts.shape == (HEADS, 5, 64)
        torch.testing.assert_close(parts.sum(0) + attention.output.bias, output, atol=1e-5, rtol=1e-4)


def test_each_head_is_ablated_by_itself(as_installed):
    translator, english = load(), tuple(EXAMPLES[0].split())
    found = ablate_heads(translator, english, "encoder")
    assert [(one.layer, one.head) for one in found] == [(layer, head) for layer in range(2) for head in range(HEADS)]
    for one in found:
        expected = translator.translate(EXAMPLES[0], [head_ablation("encoder", one.layer, one.head)])
        assert one.translation.french == expected.french
        assert 0 <= one.exact <= 1
    assert found[7].translation.text == "les petits voiture rouge est belle."  # its head of agreement
    assert found[7].exact < min(one.exact for one in found[:7])


def test_a_batch_is_translated_under_interventions_as_each_sentence_is():
    translator, intervention = load(), head_ablation("decoder", 0, 2)
    sentences = [tuple(one.split()) for one in EXAMPLES]
    expected = [translator.translate(one, [intervention]).french for one in EXAMPLES]
    assert translator.translate_batch(sentences, [intervention]) == expected
